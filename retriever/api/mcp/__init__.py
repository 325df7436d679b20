"""The Model Context Protocol server: tools for agents, one file and one row of `catalog.TOOLS` each."""
