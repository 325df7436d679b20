"""Which documents are clustered or sorted, and how many of their texts a language model reads for it."""

from dataclasses import dataclass
from typing import Literal

from retriever.store.filters import Filter

Read = int | Literal["all"]
"""How many texts are read for a question that a language model answers."""

BUDGET = 300
"""Texts that are read where nobody says how many."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Documents, and how much of them is read where a language model serves the instruction.

    Attributes:
        where: only documents that this filter accepts; None for all.
        ids: the documents; None for all.
        read: texts to read.
    """

    where: Filter | None = None
    ids: frozenset[str] | None = None
    read: Read = BUDGET
