"""How much is read on where nobody waits; in a file of its own, since commands load it for their help."""

MINUTES = 30
"""Of the processor, for each index and day, unless somebody says otherwise."""
