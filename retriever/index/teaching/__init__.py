"""Teaching a question by a few examples: heads on the vectors of a view."""
