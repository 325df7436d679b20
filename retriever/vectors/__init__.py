"""Vector indexes: the protocol of a backend and the table of them, the exact NumPy oracle, FAISS and Milvus.

Importing the package loads neither FAISS nor Milvus's client; opening a backend does (`retriever.vectors.backend`).
"""
