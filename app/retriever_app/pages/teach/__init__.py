"""The page Teach: a question learned from answers that the user clicks."""
