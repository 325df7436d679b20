"""How many texts a language model reads where documents are clustered or sorted under a question that it serves."""

from typing import Literal

Read = int | Literal["all"]
"""How many texts are read for a question that a language model answers."""

BUDGET = 300
"""Texts that are read where nobody says how many."""
