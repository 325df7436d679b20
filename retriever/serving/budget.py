"""How much is read on where nobody waits; in a file of its own, since commands load it for their help."""

READ_ON_VARIABLE = "RETRIEVER_READ_ON"
"""The environment variable that says it, in minutes."""

MINUTES = 30
"""Of the processor, for each index and day, unless somebody says otherwise."""
