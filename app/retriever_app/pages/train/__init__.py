"""The page Train: a model trained on rows of text, question and answer."""
