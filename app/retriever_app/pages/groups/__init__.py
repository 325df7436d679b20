"""The page Groups: clusters on a map, and saved ones."""
