"""What retrievers for several libraries share: an index, given open or by its folder, and a search in it."""

from pathlib import Path
from typing import Any

from retriever import open_index
from retriever.core.errors import UsageError
from retriever.core.requests import SearchRequest
from retriever.core.results import Hit, Mode
from retriever.workspace import Index

SCORES = "retriever"
"""The key of a document's metadata under which its scores stand; fields of the corpus keep their own names."""


def as_index(given: Index | str | Path) -> Index:
    """Return an index that was given open, or open the one in a folder.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(given, Index):
        return given
    if isinstance(given, str | Path):
        return open_index(given)
    raise UsageError(f"{type(given).__name__} is no index.", hint="Give an index's folder, or open_index(folder).")


def found(index: Index, query: str, instruction: str, k: int, where: str | None, mode: Mode) -> list[Hit]:
    """Return the hits of one query, best first; errors as `Index.search`."""
    return index.search_many(SearchRequest([query], instruction, k, where, mode))[0].hits


def metadata_of(hit: Hit, instruction: str) -> dict[str, Any]:
    """Return a document's metadata, and under `SCORES` what the search said of it."""
    said = {
        "score": hit.score,
        "percentile": hit.percentile,
        "words": list(hit.words),
        "instruction": instruction,
        **({} if hit.unit is None else {"unit": hit.unit_json}),
    }
    return {**hit.document.metadata, SCORES: said}
