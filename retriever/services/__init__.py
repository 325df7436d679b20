"""What the commands and the app call."""
