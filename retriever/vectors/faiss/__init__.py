"""Vector indexes of the FAISS library: how they are built, kept as files, searched, and put on a GPU."""
