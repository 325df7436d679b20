"""Embedding by several processes at once, here or on a Ray cluster, by way of a spool of files."""
