"""Vector indexes: the exact NumPy oracle, FAISS, and the immutable files FAISS indexes live in.

Importing the package loads no FAISS; ``faiss_index``, ``building`` and ``generations`` do.
"""
