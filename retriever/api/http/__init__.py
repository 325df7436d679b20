"""The HTTP server: one module a group of endpoints, and what stands before all of them."""
