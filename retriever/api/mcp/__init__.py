"""The Model Context Protocol server: tools for agents."""
