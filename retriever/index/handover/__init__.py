"""Handing an index over to other software, and taking it back: Parquet files, a Qdrant collection."""
