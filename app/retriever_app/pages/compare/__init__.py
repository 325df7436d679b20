"""The page Compare: one query under two instructions."""
