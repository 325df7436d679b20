"""How an indexing run treats its input, and how it embeds."""

from dataclasses import dataclass
from typing import Literal

from retriever.core.errors import UsageError
from retriever.index.dividing import UnitKind
from retriever.index.embedder import EmbedderFactory
from retriever.index.workers.embedder import Workers

SMALL_BATCH = 32
"""Rows of a batch that a server embeds: little is paid twice where a run is interrupted."""

OnLong = Literal["truncate", "skip", "error"]


@dataclass(frozen=True, slots=True)
class IndexingOptions:
    """How an indexing run treats its input, and how it embeds.

    Attributes:
        on_long: texts over the token limit are cut, put in quarantine, or end the run.
        sync: delete documents that the input no longer has.
        batch: rows, or texts of earlier runs, that are embedded and stored together.
        workers: what embeds them, from what an interrupted run left in the spool first.
        embedder: makes what embeds them, in the place of ``workers``.
        units: what is embedded of documents, settled with the first of them; None for what the index remembers.
        language: of the texts, by its code, or ``auto`` for what most are in; None for what the index remembers.
        raw: whether metadata stays as it is given; else ratings and dates in it are rewritten as on reading files.
        rows: of the input, about, by which the time is estimated that it takes; None where nobody knows.
    """

    on_long: OnLong = "truncate"
    sync: bool = False
    batch: int = 1000
    workers: Workers = Workers()  # noqa: RUF009 - it is frozen
    embedder: EmbedderFactory | None = None
    units: UnitKind | None = None
    language: str | None = None
    raw: bool = False
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.on_long not in ("truncate", "skip", "error"):
            raise UsageError(f"Unknown on_long {self.on_long!r}.", hint="Known: truncate, skip, error.")
        if self.batch < 1:
            raise UsageError(f"A batch of {self.batch} rows holds nothing.", hint="1000 is usual.")

    @property
    def alone(self) -> bool:
        """Whether this process embeds, without workers."""
        return self.embedder is None and self.workers.alone
