"""The shared part of retrievers for several libraries: an index, given open or by its folder, and a search in it."""

from pathlib import Path
from typing import Any

from retriever import open_index
from retriever.core.errors import UsageError
from retriever.core.results import Hit
from retriever.workspace import Index

SCORES = "retriever"
"""The key of a document's metadata under which its scores stand; fields of the corpus keep their own names."""

SUBJECT = ("query", "like")
"""Options of a search that a retriever of another library fills in: its caller gives a query."""


def as_index(given: Index | str | Path) -> Index:
    """Return an index that was given open, or open the one in a folder; raise `UsageError` for anything else."""
    if isinstance(given, Index):
        return given
    if isinstance(given, str | Path):
        return open_index(given)
    raise UsageError(f"{type(given).__name__} is no index.", hint="Give an index's folder, or open_index(folder).")


def metadata_of(hit: Hit, instruction: str | None) -> dict[str, Any]:
    """Return a document's metadata, and under `SCORES` what the search said of it."""
    said = {
        "score": hit.score,
        "percentile": hit.percentile,
        "words": list(hit.words),
        "instruction": instruction or "",
        **({} if hit.unit is None else {"unit": hit.unit_json}),
        **({} if hit.part is None else {"part": hit.part_json}),
        **({"equal": hit.equal_json} if hit.equal else {}),
    }
    return {**hit.document.metadata, SCORES: said}
