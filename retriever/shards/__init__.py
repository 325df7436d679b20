"""A corpus in shards: ranges of documents with all their views, searched and written as one index."""
