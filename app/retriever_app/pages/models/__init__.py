"""The page Models: the index and its questions, the models that are installed, and the training of new ones."""
