"""The page Search: one query under one instruction."""
