"""The page Groups: documents in groups under a question, on a map and as cards, saved, edited and compared."""
