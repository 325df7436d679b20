"""A review as a card: what pages show of a hit or a document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from retriever.core.fields import values_by_name
from retriever.core.results import Hit
from retriever.core.types import Document, Span
from retriever.index.profiling import Columns, star_value
from retriever_app.view_models import passages, text

SHORT_CHARACTERS = 420
_ALIKE = 0.9  # of the different words of two texts that both must have to be shown as one
_ALL = 99.95  # would be rounded to 100.0 %


@dataclass(frozen=True, slots=True)
class Card:
    """One review.

    Attributes:
        stars: its rating, as stars.
        product: what it is about.
        about: category and date.
        words: what the model answered.
        why: how it got its place; empty where it has none.
        rank: its place, from 1; 0 where it has none.
        moved: how it moved since the answer before: ``new``, ``▲ 3``; empty where it did not.
        mark: the part of the body that was found; None where that is all of it.
        answer: the sentence that answers, as Markdown; empty where the review is one, or none does.
        marked: the beginning as Markdown, words of the query marked; empty where it has none.
        alike: hits below that say the same, which this one stands for.
    """

    id: str
    stars: str
    product: str
    about: str
    body: str
    words: Sequence[str] = ()
    why: str = ""
    rank: int = 0
    moved: str = ""
    mark: Span | None = None
    answer: str = ""
    marked: str = ""
    alike: Sequence["Card"] = ()

    @property
    def parts(self) -> tuple[str, str, str]:
        """The body before the mark, in it and behind it, as far as it is shown at first; all behind one without."""
        if self.mark is None:
            return "", "", self.beginning
        before, marked = self.body[: self.mark.start], self.body[self.mark.start : self.mark.end]
        after = self.body[self.mark.end :]
        around = max(0, SHORT_CHARACTERS - len(marked)) // 2
        if self.is_long and len(before) > around:
            before = f"… {before[len(before) - around :].split(maxsplit=1)[-1]}" if around else "… "
        if self.is_long and len(after) > around:
            after = f"{after[:around].rsplit(maxsplit=1)[0]} …" if around else " …"
        return before, marked, after

    @property
    def is_long(self) -> bool:
        """Whether the beginning is shown at first."""
        return len(self.body) > SHORT_CHARACTERS * 1.25

    @property
    def beginning(self) -> str:
        """The review as far as it is shown at first."""
        return f"{self.body[:SHORT_CHARACTERS].rsplit(maxsplit=1)[0]} …" if self.is_long else self.body


def card(document: Document, columns: Columns) -> Card:
    """Return a document as a card."""
    values = values_by_name(document.metadata)
    rating = star_value(values.get(columns.stars))
    said = "" if rating is None else text.stars(rating, 5 if rating <= 5 else 10)
    product, *about = (values.get(name) for name in (columns.product, columns.category, columns.date))
    return Card(
        document.id,
        said,
        "" if product is None else str(product),
        " · ".join(str(one) for one in about if one is not None),
        document.text,
    )


def with_words(card: Card, words: Sequence[str]) -> Card:
    """Return a card with what the model answered."""
    return replace(card, words=words)


def hit_cards(hits: Sequence[Hit], columns: Columns, moved: Mapping[str, str], query: str = "") -> list[Card]:
    """Return hits as cards, best first, those that say nearly the same folded under the first of them.

    ``moved`` says by id how a hit moved since the answer before; words of the query are marked.
    """
    found: list[Card] = []
    said: list[tuple[int, frozenset[str]]] = []
    for rank, hit in enumerate(hits, start=1):
        one = card(hit.document, columns)
        one = replace(one, words=hit.words, why=why(hit), rank=rank, moved=moved.get(hit.document.id, ""))
        one = replace(one, mark=None if hit.unit is None else Span(hit.unit.start, hit.unit.end))
        one = explained(one, query)
        mine = frozenset(hit.document.text.casefold().split())
        twin = next((place for place, other in said if _nearly_equal(mine, other)), None)
        if twin is None:
            said.append((len(found), mine))
            found.append(one)
        else:
            found[twin] = replace(found[twin], alike=(*found[twin].alike, one))
    return found


def explained(one: Card, query: str) -> Card:
    """Return a card with what it shares with a query marked, and the sentence that answers first.

    A card that has its sentence marked already stays as it is.
    """
    if one.mark is not None:
        return one
    wanted = passages.stems(query)
    place = passages.answering(one.body, query, one.words) if query else None
    spans = passages.shared(one.beginning, wanted)
    answer = ""
    if place is not None:
        said = one.body[place[0] : place[1]]
        answer = passages.marked(said, passages.shared(said, wanted))
    return replace(one, answer=answer, marked=passages.marked(one.beginning, spans) if spans else "")


def _nearly_equal(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two texts have nearly all their words in common, given the different ones of each."""
    together = len(one | other)
    return together > 0 and len(one & other) / together >= _ALIKE


def why(hit: Hit) -> str:
    """Return why a hit is where it is: its places by meaning and by words, and how unusual its cosine is."""
    places = []
    if hit.dense_rank is not None:
        places.append(f"{ordinal(hit.dense_rank)} by meaning")
    if hit.lexical_rank is not None:
        places.append(f"{ordinal(hit.lexical_rank)} by its words")
    parts = [", ".join(places)]
    if hit.score is not None:
        parts.append(f"cosine {hit.score:.2f}{_unusual(hit.percentile)}")
    return "; ".join(filter(None, parts))


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _unusual(percentile: float | None) -> str:
    if percentile is None:
        return ""
    if percentile >= _ALL:
        return ", closer than any random pair of reviews"
    return f", closer than {percentile:.{1 if percentile > 99 else 0}f} % of random pairs"
