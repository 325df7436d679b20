"""Clusters of a view and their names: arithmetic on vectors and words, without documents or files."""
