"""The page Model and index: what is loaded and read, and whether it is whole."""
