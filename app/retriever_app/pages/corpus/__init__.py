"""The page Corpus: from a file of reviews to an index."""
