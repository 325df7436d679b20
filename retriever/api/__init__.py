"""Other software's ways in: HTTP (`retriever serve`) and the Model Context Protocol (`retriever mcp`)."""
