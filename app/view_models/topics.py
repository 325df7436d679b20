"""Describe a saved clustering, or categories, for their page: cards, what was changed, who did it."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.clusters.editing import NONE, describe
from retriever.clusters.saved import SavedClustering
from retriever.core.types import Document
from retriever_app.view_models import text

QUOTES = 2
_QUOTE = 120  # characters


@dataclass(frozen=True, slots=True)
class TopicCard:
    """A cluster or category.

    Attributes:
        size: how many reviews, which share of all, and how many came since it was saved.
        quotes: how its most typical reviews begin.
        words: what the model answered of them.
    """

    number: int
    name: str
    size: str
    quotes: Sequence[str]
    words: str
    hidden: bool


@dataclass(frozen=True, slots=True)
class Topics:
    """A saved clustering as a page.

    Attributes:
        headline: how many reviews in how many clusters, and how many fit none.
        cards: the largest first, hidden ones last.
        history: what was changed, the latest first, a line each.
        can_undo: whether a change is left to take back.
    """

    headline: str
    cards: Sequence[TopicCard]
    history: Sequence[str]
    can_undo: bool


def topics(found: SavedClustering) -> Topics:
    """Return a saved clustering as its page shows it."""
    total, new = max(1, len(found.assignments)), set(found.new)
    documents = {one.id: one.text for one in found.material.documents}
    cards = [
        TopicCard(
            one["cluster"],
            one["label"],
            _size(one["size"], total, len(new.intersection(found.state.members(one["cluster"])))),
            [_beginning(documents[id]) for id in one["examples"][:QUOTES]],
            ", ".join(one["keywords"]),
            one["cluster"] in found.state.hidden,
        )
        for one in found.clusters()
    ]
    cards.sort(key=lambda card: (card.hidden, -len(found.state.members(card.number)), card.number))
    none = sum(number == NONE for number in found.assignments.values())
    said = f"{text.count(len(documents), 'review')} in {text.count(len(cards), 'cluster')}"
    since = f", {text.count(len(found.new), 'review')} new since" if found.new else ""
    history = [
        f"{edit.made[:16].replace('T', ' ')} · {edit.author}: {describe(edit.change)}"
        f"{' (taken back)' if edit.undone else ''}"
        for edit in reversed(found.edits)
    ]
    can_undo = any(edit.undone is None for edit in found.edits)
    return Topics(f"{said}; {text.count(none, 'review')} in none of them{since}.", cards, history, can_undo)


def members(found: SavedClustering, number: int) -> list[tuple[Document, Sequence[str]]]:
    """Return the documents of a cluster, in the order of their ids, with what the model answered of each."""
    inside = set(found.state.members(number))
    rows = zip(found.material.documents, found.material.answers, strict=True)
    return [(document, words) for document, words in rows if document.id in inside]


def _size(size: int, total: int, new: int) -> str:
    said = f"{text.count(size, 'review')} · {size / total:.0%}"
    return f"{said} · {new:,} new" if new else said


def _beginning(body: str) -> str:
    line = " ".join(body.split())
    return line if len(line) <= _QUOTE else f"{line[:_QUOTE].rsplit(maxsplit=1)[0]} …"
