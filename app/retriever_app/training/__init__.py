"""Trainings on the page Models: a model trained on rows of text, question and answer."""
