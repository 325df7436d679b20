"""What each method learns from a batch of rows: passes over the model, losses, gradients."""
