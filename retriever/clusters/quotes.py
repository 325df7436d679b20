"""Quotes of a group: sentences of its central reviews that say by themselves what sets the group apart.

Everything here goes by words and ratings that are stored; no model is loaded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from retriever.clusters.arithmetic.naming import text_words
from retriever.clusters.clustering import Cluster, Clustering
from retriever.clusters.index_numbers import Counted
from retriever.clusters.placing import CategoryNames
from retriever.clusters.saved import SavedClustering
from retriever.core.text import printable, shortened
from retriever.corpus.sentences import sentences

MOST = 3
SHORTEST, LONGEST = 4, 25
"""Words of a quote."""

_POOL = 60  # reviews that are looked at, the most central first
_OFF = 0.25  # of the scale, by which a rating may differ from the group's median
_ALIKE = 0.5  # of the smaller quote's words, which two quotes may share
_MOST_CHARACTERS, _BEGINNING = 280, 200
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_VERB = re.compile(
    r"\b(?:is|are|was|were|am|be|been|has|have|had|do|does|did|ca|can|could|will|would|should|must|\w+ed|\w+s|"
    r"[a-z]*(?:broke|fell|got|went|made|kept|came|gave|took|bought|left|lost|let|put|ran|said|felt|found|stuck|wore)|"
    r"love|like|hate|work|need|want|use|enjoy|recommend|make|get|feel|look|buy|play|think)\b|n['\u2019]t\b|'(?:s|re|ve|m)\b",
    re.IGNORECASE,
)
_DANGLING = re.compile(r"(?:but|and|so|then|also|however|because|or|which|that|than|otherwise|though|plus)\b", re.IGNORECASE)
_REFERRING = re.compile(r"(?:it|they|he|she|these|those|both|this one|that one|the second|the other)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quote:
    """What a review says, in one sentence, the review's id, and its stars, None where it has none."""

    id: str
    text: str
    stars: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A review that may be quoted.

    Attributes:
        answer: what a reader answered of it, in words; empty where only a model's single words are known.
    """

    id: str
    text: str
    stars: float | None = None
    answer: str = ""


def quotes(sources: Sequence[Source], words: Mapping[str, float], scale: float = 5.0, most: int = MOST) -> list[Quote]:
    """Return one sentence of each of some reviews of a group, the best first.

    A review whose rating is far from the group's median is not quoted, so that quotes do not contradict each other;
    two that say the same with the same words are not both.

    Args:
        sources: the group's reviews, the most central first.
        words: that set the group apart, in lower case, with their weights.
        scale: the highest rating.
        most: quotes.
    """
    rated = [source.stars for source in sources if source.stars is not None]
    middle = median(rated) if rated else 0.0
    ranked = []
    for rank, source in enumerate(sources[:_POOL]):
        if source.stars is not None and abs(source.stars - middle) > _OFF * scale:
            continue
        weights = {**words, **dict.fromkeys(text_words(source.answer), max(words.values(), default=1.0))}
        scored = ((_score(sentence, weights) / (1 + rank / _POOL), sentence) for sentence in _sentences(source.text))
        score, sentence = max(scored, default=(0.0, ""))
        if score > 0:
            ranked.append((score, Quote(source.id, sentence, source.stars)))
    chosen: list[Quote] = []
    for _, quote in sorted(ranked, key=lambda pair: -pair[0]):
        if not any(_alike(quote.text, other.text) for other in chosen):
            chosen.append(quote)
        if len(chosen) == most:
            break
    return chosen


def quotes_of(
    found: Clustering, cluster: Cluster, counted: Counted, scale: float, nearness: Mapping[str, float] | None
) -> list[Quote]:
    """Return quotes of those of a cluster's reviews that were counted; other arguments as for `quotes`.

    Where no sentence stands alone, it is the beginning of the most central review.

    Args:
        nearness: cosine of every row with its cluster, by id, where the clustering has lost its vectors.
    """
    known = {document.id: row for row, document in enumerate(counted.groups.documents)}
    material, phrases, number = found.material, found.material.phrases, cluster.number
    rows = [
        row
        for row, document in enumerate(material.documents)
        if number in found.places[document.id] and document.parent_id in known
    ]
    sources = []
    for row in _central(found, number, rows, nearness):
        document = material.documents[row]
        stars = counted.ratings[known[document.parent_id]] if counted.ratings else None
        sources.append(Source(document.parent_id, document.text, stars, "" if phrases is None else phrases[row]))
    words: dict[str, float] = {}
    for some in (text_words(cluster.label), cluster.keywords, cluster.text_keywords):
        for rank, word in enumerate(some):
            words[word] = max(words.get(word, 0.0), 1 / (1 + rank / 4))
    return quotes(sources, words, scale) or [
        Quote(source.id, shortened(source.text, _BEGINNING), source.stars) for source in sources[:1]
    ]


def _central(found: Clustering, number: int, rows: Sequence[int], nearness: Mapping[str, float] | None) -> list[int]:
    """Return some rows of a cluster, the most central first: nearest to its category's vector, or to their mean."""
    vectors, placing = found.material.vectors, found.placing
    if nearness is not None:
        near = np.array([nearness[found.material.documents[row].id] for row in rows])
    elif not rows or not len(vectors):
        return list(rows)
    else:
        changed = found.state.touched if isinstance(found, SavedClustering) else set[int]()
        named = isinstance(placing, CategoryNames) and number < len(placing.vectors) and number not in changed
        near = vectors[rows] @ (placing.vectors[number] if named else vectors[rows].mean(axis=0))
    return [rows[place] for place in np.argsort(-near, kind="stable").tolist()]


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that can stand alone, each on one line."""
    for span in sentences(text):
        sentence = " ".join(printable(text[span.start : span.end]).split())
        count = len(_WORD.findall(sentence))
        if SHORTEST <= count <= LONGEST and len(sentence) <= _MOST_CHARACTERS and not sentence.endswith(("?", ":", ",")):
            yield sentence


def _score(sentence: str, weights: Mapping[str, float]) -> float:
    """Return how well a sentence says what the words with weights say; 0 where it says nothing of it."""
    own = text_words(sentence)
    said = sum(weights.get(word, 0.0) for word in own)
    if not said or not _VERB.search(sentence):
        return 0.0
    score = said / (2 + len(own)) ** 0.5
    first = next((character for character in sentence if character.isalpha()), "")
    for doubtful in (_DANGLING.match(sentence), _REFERRING.match(sentence), first.islower()):
        score *= 0.6 if doubtful else 1.0
    return score


def _alike(one: str, other: str) -> bool:
    words = text_words(one), text_words(other)
    return len(words[0] & words[1]) > _ALIKE * min(map(len, words))
