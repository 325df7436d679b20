"""The product: documents go in, views are filled, queries are answered, and nothing is lost."""
