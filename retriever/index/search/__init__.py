"""Answering queries: by vectors, by words or both, in the view of an instruction."""
