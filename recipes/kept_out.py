"""Texts that nothing is trained on beside those of the evaluation files: of grids that are held out to measure with.

    python recipes/kept_out.py ASKED.jsonl > recipes/kept_out.txt

A text is known by the hash of its normalised form (`text_hash`), so that the list holds no text.
"""

import hashlib
import sys
from functools import cache
from pathlib import Path

from retriever.evaluation.rows import read_rows
from retriever.training.rows import normalise_text

FILE = Path(__file__).with_name("kept_out.txt")
FIRST_WORDS = 80
"""Stories are read to the end of the last sentence within so many words."""


def text_hash(text: str) -> str:
    """Return what a grid knows a text by: the first 16 hex digits of the SHA-256 of its normalised form."""
    return hashlib.sha256(normalise_text(text).encode()).hexdigest()[:16]


def beginning(text: str) -> str:
    """Return the sentences that end within the first words of a text."""
    cut = " ".join(text.split()[:FIRST_WORDS])
    end = max(cut.rfind(". "), cut.rfind("? "))
    return cut[: end + 1] if end > FIRST_WORDS else cut


@cache
def _hashes() -> frozenset[str]:
    return frozenset(FILE.read_text(encoding="utf-8").split())


def kept_out(text: str) -> bool:
    """Return whether a text, or its beginning as grids have it, is held out to measure with."""
    return not _hashes().isdisjoint({text_hash(text), text_hash(beginning(text))})


def main() -> None:
    """Print the hashes of the texts of all grids of the dev split of a file of grids."""
    file = Path(sys.argv[1])
    grids = [row.values for row in read_rows(file.parent, file.name) if row.values["split"] == "dev"]
    print("\n".join(sorted({text_hash(row["text"]) for grid in grids for row in grid["rows"]})))


if __name__ == "__main__":
    main()
