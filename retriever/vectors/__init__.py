"""Vector indexes: the protocol of a backend and the table of them, the exact NumPy oracle, FAISS and Qdrant.

Importing the package loads neither FAISS nor Qdrant; opening a backend does (`retriever.vectors.backend`).
"""
