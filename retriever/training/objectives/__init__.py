"""Compute each method's objective on a batch of rows: passes over the model, losses, gradients."""
