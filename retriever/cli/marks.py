"""What `retriever search` keeps of hits that somebody wants more of, or less of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.cli import output
from retriever.core.errors import UsageError

if TYPE_CHECKING:
    from retriever.core.requests import SearchRequest
    from retriever.shards.index import ShardedIndex
    from retriever.workspace import Index

ALL = "all"
"""In the place of an id, every marked hit of the query."""


@dataclass(frozen=True, slots=True)
class Marking:
    """What is said of a query's hits.

    Attributes:
        more: ids of hits that are liked.
        less: ids of hits that are not.
        unmark: ids of which nothing is said any more.
        as_rows: where to write all that is marked as a row to learn from; None for nowhere.

    Raises:
        UsageError: a hit is liked and not.
    """

    more: Sequence[str] = ()
    less: Sequence[str] = ()
    unmark: Sequence[str] = ()
    as_rows: Path | None = None

    def __post_init__(self) -> None:
        if both := set(self.more) & set(self.less):
            raise UsageError(f"More and less is asked for of {min(both)!r}.", hint="Say one of them.")

    def __bool__(self) -> bool:
        return bool(self.more or self.less or self.unmark or self.as_rows)


def steered(opened: "Index | ShardedIndex", request: "SearchRequest", marking: Marking) -> "SearchRequest":
    """Keep what is said of hits, and return the request with all that is marked under its query.

    Raises:
        UsageError: something is said of hits, and the index is in shards, which keep nothing of it.
    """
    from retriever.shards.index import ShardedIndex

    if isinstance(opened, ShardedIndex):
        if marking:
            raise UsageError(f"{opened.path} is in shards: no hits are marked.", hint="Name an index's own folder.")
        return request
    query, instruction = request.queries[0], request.instruction
    marks = opened.marks(query, instruction)
    wanted: dict[str, bool | None] = {**dict.fromkeys(marking.more, True), **dict.fromkeys(marking.less, False)}
    for id in [*marks.more, *marks.less] if ALL in marking.unmark else marking.unmark:
        wanted.setdefault(id, None)
    if wanted:
        marks = opened.mark(query, instruction, liked=wanted)
    there = opened.documents([*marks.more, *marks.less])
    if marking.as_rows is not None:
        from retriever.training.corrections import write_marks

        write_marks(marking.as_rows, query, instruction, marks, there)
        output.say(f"A row for `retriever finetune` written to {marking.as_rows}.")
    more, less = ([id for id in ids if id in there] for ids in (marks.more, marks.less))
    if not (more or less) or request.mode == "lexical":
        return request
    output.say(f"Towards {len(more)} marked hits and away from {len(less)}; --unmark all forgets them.")
    return replace(request, more=more, less=less)
