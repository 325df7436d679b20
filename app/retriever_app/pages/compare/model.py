"""What the page Compare shows: the hits of both sides as cards, and what moved."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from retriever.clusters.comparing import Moved, RankChange
from retriever.index.profiling import Columns
from retriever_app import text
from retriever_app.cards import card
from retriever_app.pages.clusters.model import short

MOST_HITS = 30
ONLY = "only here"
_PRODUCT, _BODY = 30, 240  # characters
_WORDS_A_HIT = 3
Way = Literal["up", "down", "same"]


@dataclass(frozen=True, slots=True)
class HitPair:
    """A query and the two instructions, left and right, that are compared on it."""

    q: str = ""
    first: str = ""
    second: str = ""
    k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", min(max(self.k, 1), MOST_HITS))


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A hit on one side.

    Attributes:
        stars: its rating, as stars.
        product: what it is about, or its category.
        words: what the model answered on this side.
        mark: where it is on the other side, as a badge.
        way: whether it is further up than on the other side; None where it is not there.
    """

    id: str
    rank: int
    stars: str
    product: str
    body: str
    words: Sequence[str]
    mark: str
    way: Way | None


def sentence(change: RankChange) -> str:
    """Describe how many hits both instructions have, and how many of them moved."""
    both = [moved for moved in change.moved if None not in moved.ranks]
    longest = max(len(result.hits) for result in change.results)
    if not longest:
        return "Neither instruction finds anything."
    still = sum(moved.ranks[0] == moved.ranks[1] for moved in both)
    if not both:
        return "The two instructions have no hit in common."
    return f"{len(both)} of {text.count(longest, 'hit')} are on both sides, {still} of them in the same place."


def side(change: RankChange, which: int, columns: Columns) -> list[RankedHit]:
    """Return the hits of one side, 0 for the left and 1 for the right, best first."""
    ranked = [(rank, moved) for moved in change.moved if (rank := moved.ranks[which]) is not None]
    ranked.sort(key=lambda pair: pair[0])
    return [_line(rank, moved, which, columns) for rank, moved in ranked]


def rows(change: RankChange) -> list[dict[str, object]]:
    """Return the hits of both sides as rows of a table to take away."""
    return [
        {
            "rank under the first": moved.ranks[0],
            "rank under the second": moved.ranks[1],
            "id": moved.hit.document.id,
            "words under the first": ", ".join(moved.words[0]),
            "words under the second": ", ".join(moved.words[1]),
            "text": moved.hit.document.text,
            **{name: value for name, value in moved.hit.document.metadata.items() if name not in ("id", "text")},
        }
        for moved in change.moved
    ]


def _line(rank: int, moved: Moved, which: int, columns: Columns) -> RankedHit:
    other = moved.ranks[1 - which]
    shown = card(moved.hit.document, replace(columns, date=""))
    product, body = short(shown.product or shown.about, _PRODUCT), short(shown.body, _BODY)
    way = _way(other, rank)
    marks = {"up": "▲", "down": "▼", "same": "="}
    mark = ONLY if way is None else f"{marks[way]} {other} on the other side"
    return RankedHit(shown.id, rank, shown.stars, product, body, moved.words[which][:_WORDS_A_HIT], mark, way)


def _way(before: int | None, after: int | None) -> Way | None:
    """Return which way a hit moved; None where it is on one side only."""
    if before is None or after is None:
        return None
    return "same" if before == after else "up" if after < before else "down"
