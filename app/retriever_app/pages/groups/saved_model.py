"""What the page Groups shows of a saved clustering, or categories: cards, their edits, and two periods compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic import intervals
from retriever.clusters.clustering import Cluster
from retriever.clusters.edits import Titles
from retriever.clusters.groups import Groups
from retriever.clusters.numbers import Part, compared
from retriever.clusters.periods import fitting, period_of
from retriever.clusters.references import NONE
from retriever.clusters.saved import SavedClustering
from retriever.core.types import Document
from retriever.index.profiling import Columns
from retriever_app import text
from retriever_app.pages.groups.model import QUOTE, read_sides, short

QUOTES = 2


@dataclass(frozen=True, slots=True)
class TopicCard:
    """A cluster or category.

    Attributes:
        size: how many reviews, which share of all, and how many came since it was saved.
        description: a sentence about it, as somebody or a language model wrote it; empty for none.
        quotes: how its most typical reviews begin.
        words: what the model answered of them.
    """

    number: int
    name: str
    size: str
    description: str
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
        can_undo: whether a change can be undone.
        titles: which language model gave titles last, and how many clusters it gave none; empty for none.
    """

    headline: str
    cards: Sequence[TopicCard]
    history: Sequence[str]
    can_undo: bool
    titles: str


@dataclass(frozen=True, slots=True)
class Dated:
    """When reviews were written.

    Attributes:
        periods: months, quarters or years with reviews, the oldest first.
        of: (n,) the period of every review; empty where it has no date.
    """

    periods: Sequence[str]
    of: NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Change:
    """What changed: sentences, and a row of a table for every cluster, the largest change first."""

    sentences: Sequence[str]
    rows: Sequence[dict[str, object]]


def topics(found: SavedClustering) -> Topics:
    """Return a saved clustering as its page shows it."""
    total, new = max(1, len(found.assignments)), set(found.new)
    cards = [
        TopicCard(
            cluster.number,
            cluster.label,
            _size(found, cluster, total, len(new.intersection(found.members(cluster.number)))),
            cluster.description or "",
            [short(found.documents[id].text, QUOTE) for id in cluster.examples[:QUOTES]],
            ", ".join(cluster.keywords),
            cluster.number in found.hidden,
        )
        for cluster in found.clusters
    ]
    cards.sort(key=lambda card: (card.hidden, -len(found.members(card.number)), card.number))
    none = sum(number == NONE for number in found.assignments.values())
    said = f"{text.count(len(found.documents), 'review')} in {text.count(len(cards), 'cluster')}"
    since = f", {text.count(len(found.new), 'review')} new since" if found.new else ""
    history = [
        f"{edit.made[:16].replace('T', ' ')} · {edit.author}: {edit.change}{' (undone)' if edit.undone else ''}"
        for edit in reversed(found.edits)
    ]
    holding = [edit.change for edit in found.edits if edit.undone is None]
    titles = [change for change in holding if isinstance(change, Titles)][-1:]
    named = "".join(f"{'; '.join(filter(None, [f'Named by {last.by}', last.without]))}." for last in titles)
    outside = f"; {text.count(none, 'review')} in no cluster" if none else ""
    return Topics(f"{said}{outside}{since}.", cards, history, bool(holding), named)


def members(found: SavedClustering, number: int) -> list[tuple[Document, Sequence[str]]]:
    """Return the documents of a cluster, in the order of their ids, with what the model answered of each."""
    inside = set(found.members(number))
    rows = zip(found.material.documents, found.material.answers, strict=True)
    return [(document, words) for document, words in rows if document.id in inside]


def _size(clustering: SavedClustering, cluster: Cluster, total: int, new: int) -> str:
    share = str(intervals.share(cluster.size, total))
    if clustering.sampled is not None and not clustering.sampled.whole:
        estimate = clustering.sampled.shares.get(cluster.number)
        interval = None if estimate is None else estimate.interval
        share = "too few reviews for a share"
        if interval is not None:
            share = f"about {interval.value:.0%} of all ({interval.low:.0%} to {interval.high:.0%})"
    said = f"{text.count(cluster.size, 'review')} · {share}"
    return f"{said} · {new:,} new" if new else said


def dated(documents: Iterable[Document], columns: Columns) -> Dated:
    """Return when reviews were written, in periods that are not too many."""
    days = read_sides(documents, columns).days
    unit = fitting(day for day in days if day)
    periods = [period_of(day, unit) if day else "" for day in days]
    return Dated(sorted(set(filter(None, periods))), np.array(periods, dtype=object))


def change(groups: Groups, dated: Dated, before: str, after: str) -> Change:
    """Compare two periods; a review counts in every group that it is in.

    New is a group whose first reviews are of the second period, with reviews of other groups before it.
    """
    inside, outside = dated.of == after, dated.of == before
    changes = compared(groups, [Part(after, before, inside, outside)])
    names = dict(zip(groups.numbers, groups.names, strict=True))
    earlier = (dated.of != "") & (dated.of < after)
    new = [
        name
        for name, members in zip(groups.names, groups.members, strict=True)
        if earlier.any() and (members & inside).any() and not (members & earlier).any()
    ]
    rows: list[dict[str, object]] = [
        {
            "cluster": names[changed.group],
            f"in {before}": str(changed.other),
            f"in {after}": str(changed.share),
            "points": "" if changed.share.few or changed.other.few else f"{100 * changed.difference.value:+.0f}",
            "reviews": len(changed.reviews),
            "": "certain" if changed.certain else "may be chance",
        }
        for changed in sorted(changes, key=lambda changed: -abs(changed.difference.value))
    ]
    sizes = f"{before}: {text.count(int(outside.sum()), 'review')}. {after}: {text.count(int(inside.sum()), 'review')}."
    return Change([sizes, *([f"New in {after}: {text.listed(new)}."] if new else [])], rows)
