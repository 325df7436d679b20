"""What the page Compare shows: the hits of both sides as cards, and what moved."""

from dataclasses import dataclass, replace

from retriever.clusters.comparing import RankChange
from retriever.index.profiling import Columns
from retriever_app import text
from retriever_app.cards import NOTHING_KNOWN, Card, KnownAnswers, card

MOST_HITS = 30
ONLY = "only here"
PRODUCT, BODY = 30, 240  # characters
_WORDS_A_HIT = 3


@dataclass(frozen=True, slots=True)
class HitPair:
    """A query and the two instructions, left and right, that are compared on it."""

    q: str = ""
    first: str = ""
    second: str = ""
    k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", min(max(self.k, 1), MOST_HITS))


def sentence(change: RankChange) -> str:
    """Describe how many hits both instructions have, and how many of them moved."""
    both = [moved for moved in change.moved if None not in moved.ranks]
    longest = max(len(result.hits) for result in change.results)
    if not longest:
        return "There is no hit under either question."
    still = sum(moved.ranks[0] == moved.ranks[1] for moved in both)
    if not both:
        return "The two questions have no hit in common."
    return f"{len(both)} of {text.count(longest, 'hit')} are on both sides, {still} of them in the same place."


def side(change: RankChange, which: int, columns: Columns, known: KnownAnswers = NOTHING_KNOWN) -> list[Card]:
    """Return the hits of one side, 0 for the left and 1 for the right, best first, as cards with their place there.

    ``moved`` of a card says where it is on the other side.
    """
    shown = [
        replace(
            card(moved.hit.document, replace(columns, date="")),
            words=known.words(id := (moved.hit.unit or moved.hit.document).id, moved.words[which])[:_WORDS_A_HIT],
            label=known.labels.get(id, ""),
            rank=rank,
            moved=_moved(rank, moved.ranks[1 - which]),
        )
        for moved in change.moved
        if (rank := moved.ranks[which]) is not None
    ]
    return sorted(shown, key=lambda hit: hit.rank)


def _moved(rank: int, other: int | None) -> str:
    if other is None:
        return ONLY
    return f"{'▲' if rank < other else '▼' if rank > other else '='} {other} on the other side"


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
