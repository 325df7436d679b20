"""From texts and instructions to vectors."""
