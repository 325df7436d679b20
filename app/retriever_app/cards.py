"""A review as a card: what pages show of a hit or a document, with the sentence that matches a query."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from retriever.core.fields import values_by_name
from retriever.core.languages import ENGLISH, Language
from retriever.core.results import Hit
from retriever.core.types import Document, Span
from retriever.core.words import STOPWORDS, stem
from retriever.index.profiling import Columns, star_value
from retriever_app import text

SHORT_CHARACTERS = 420
_ALIKE = 0.9  # of the different words of two texts that both must have to be shown as one
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?…]+[\"'\u201d\u2019)]*(?=\s)|[\u3002\uff01\uff1f]+[\u300d\u300f]*|(?=\n)|\Z)")
_OF_ANSWER = 0.5  # what a word the model answered counts, where one of the query counts 1


@dataclass(frozen=True, slots=True)
class Card:
    """One review.

    Attributes:
        about: category and date.
        words: what the model answered.
        label: the answer that somebody labeled it with, which stands in the place of those words; empty without.
        why: how it got its place, a sentence each; none where it has no place.
        rank: its place, from 1; 0 where it has none.
        moved: how it moved since the answer before: ``new``, ``▲ 3``; empty where it did not.
        mark: the part of the body that was found, or its best sentence; None where none stands out.
        excerpt: its sentences that matter, which a long one begins with; empty for its first ones.
        alike: hits below that say the same, which this one stands for.
        equal: how many other reviews have the very same text.
    """

    id: str
    stars: str
    product: str
    about: str
    body: str
    words: Sequence[str] = ()
    label: str = ""
    why: Sequence[str] = ()
    rank: int = 0
    moved: str = ""
    mark: Span | None = None
    excerpt: str = ""
    alike: Sequence["Card"] = ()
    equal: int = 0

    @property
    def parts(self) -> tuple[str, str, str]:
        """The body before the mark, in it and behind it, as far as it is shown at first; all behind one without."""
        if self.mark is None:
            return "", "", self.beginning
        before, marked = self.body[: self.mark.start], self.body[self.mark.start : self.mark.end]
        after = self.body[self.mark.end :]
        if not self.is_long:
            return before, marked, after
        room = max(0, SHORT_CHARACTERS - len(marked))
        left = min(len(before), max(room // 2, room - len(after)))
        right = room - left
        if len(before) > left:
            before = f"… {before[len(before) - left :].split(maxsplit=1)[-1]}" if left else "… "
        if len(after) > right:
            after = f"{after[:right].rsplit(maxsplit=1)[0]} …" if right else " …"
        return before, marked, after

    @property
    def is_long(self) -> bool:
        """Whether the beginning is shown at first."""
        return len(self.body) > SHORT_CHARACTERS * 1.25

    @property
    def beginning(self) -> str:
        """The review as far as it is shown at first."""
        if not self.is_long:
            return self.body
        return self.excerpt or f"{self.body[:SHORT_CHARACTERS].rsplit(maxsplit=1)[0]} …"


def card(document: Document, columns: Columns) -> Card:
    """Return a document as a card."""
    values = values_by_name(document.metadata)
    rating = star_value(values.get(columns.stars))
    stars = "" if rating is None else text.stars(rating, 5 if rating <= 5 else 10)
    product, *about = (values.get(name) for name in (columns.product, columns.category, columns.date))
    return Card(
        document.id,
        stars,
        "" if product is None else str(product),
        " · ".join(text.moment(str(value)) for value in about if value is not None),
        document.text,
    )


def hit_cards(
    hits: Sequence[Hit],
    columns: Columns,
    moved: Mapping[str, str],
    query: str = "",
    labels: Mapping[str, str] = MappingProxyType({}),
    clear: Collection[str] | None = None,
    language: Language = ENGLISH,
) -> list[Card]:
    """Return hits as cards, best first and numbered, those that say nearly the same folded under the first of them.

    ``moved`` has by id how a hit moved since the answer before. The sentence is marked that says most of the query and
    of the model's answer, given the language of the texts. That answer is not shown beside a label, which ``labels``
    has by id, nor where it is a mere guess: ``clear`` has the ids of the texts whose answer was learned, and is None
    where nothing was taught.
    """
    cards: list[Card] = []
    vocabularies: list[frozenset[str]] = []  # of the cards, a set of words each
    for hit in hits:
        id = (hit.unit or hit.document).id
        shown = replace(
            card(hit.document, columns),
            words=() if id in labels or (clear is not None and id not in clear) else hit.words,
            label=labels.get(id, ""),
            why=why(hit),
            moved=moved.get(hit.document.id, ""),
            equal=len(hit.equal),
            mark=_mark(hit, query, language),
        )
        words = frozenset(hit.document.text.casefold().split())
        twin = next((place for place, other in enumerate(vocabularies) if _nearly_equal(words, other)), None)
        if twin is None:
            vocabularies.append(words)
            cards.append(replace(shown, rank=len(cards) + 1))
        else:
            cards[twin] = replace(cards[twin], alike=(*cards[twin].alike, shown))
    return cards


def _mark(hit: Hit, query: str, language: Language) -> Span | None:
    """Return the part to mark in a hit: the unit that was found, or the best sentence of what was found."""
    if hit.part is not None and hit.unit is not None:
        return hit.part
    body = hit.document.text
    found = hit.part or Span(0, len(body))
    best = answering(body[found.start : found.end], query, hit.words, language) if query else None
    if best is None or best.end - best.start > SHORT_CHARACTERS:
        return None
    return Span(found.start + best.start, found.start + best.end)


def _nearly_equal(words: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two texts have nearly all their words in common, given the different ones of each."""
    together = len(words | others)
    return together > 0 and len(words & others) / together >= _ALIKE


def why(hit: Hit) -> list[str]:
    """Say why a hit is where it is: its places by meaning and by words."""
    reasons = []
    if hit.dense_rank is not None:
        reasons.append(f"By meaning, this review ranks {ordinal(hit.dense_rank)}.")
    if hit.lexical_rank is not None:
        reasons.append(f"By the words of the query, it ranks {ordinal(hit.lexical_rank)}.")
    if len(reasons) > 1:
        reasons.append("Both together make the order of the list.")
    return reasons


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def stems(text: str, language: Language = ENGLISH) -> set[str]:
    """Return the stems of a text's words, stop words left out; where no spaces part words, what is searched of them."""
    if language.grams:
        return set((language.searched(text) or "").split())
    if not language.is_english:
        return set(map(language.stem, language.words(text)))
    return {stem(word) for word in _WORD.findall(text) if word.casefold() not in STOPWORDS}


def sentences(text: str) -> list[Span]:
    """Return where a text's sentences are, spaces around them left out; a line's end ends a sentence too."""
    spans = []
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        start = match.start() + len(sentence) - len(sentence.lstrip())
        if stripped := sentence.strip():
            spans.append(Span(start, start + len(stripped)))
    return spans


def said(words: Collection[str], weights: Mapping[str, float]) -> float:
    """Return how much of some weighed words a sentence's different words say, the shorter the more."""
    return float(sum(weights.get(word, 0.0) for word in words) / max(len(words), 4) ** 0.25)


def answering(text: str, query: str, answers: Iterable[str], language: Language = ENGLISH) -> Span | None:
    """Return the sentence that says most of the query's words, and of those the model answered, in few words.

    A sentence with a word of the query goes before all that have none. None where the text is one sentence, or no
    sentence says any.
    """
    wanted = stems(query, language)
    weights = {**dict.fromkeys(stems(" ".join(answers), language), _OF_ANSWER), **dict.fromkeys(wanted, 1.0)}
    spans = sentences(text)
    if len(spans) < 2 or not weights:
        return None
    scores = []
    for span in spans:
        words = stems(text[span.start : span.end], language)
        scores.append((not wanted.isdisjoint(words), said(words, weights)))
    best = max(range(len(spans)), key=scores.__getitem__)
    return spans[best] if scores[best][1] > 0 else None
