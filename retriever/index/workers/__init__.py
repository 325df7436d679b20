"""Embedding by several processes at once, here or on a Ray cluster, by way of a ledger of files."""
