"""Readers: files in the formats people have become documents, and bad rows become reports."""
