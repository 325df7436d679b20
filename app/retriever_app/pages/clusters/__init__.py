"""The page Clusters: clusters on a map, and saved ones."""
