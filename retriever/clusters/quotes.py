"""Quotes of a group: sentences of its central reviews that say by themselves what sets the group apart.

Everything here goes by words and ratings that are stored; no model is loaded.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log, sqrt
from statistics import median

import numpy as np

from retriever.clusters.arithmetic.naming import KEYWORDS, text_words
from retriever.clusters.clustering import Cluster, Clustering
from retriever.clusters.groups import Groups
from retriever.clusters.index_numbers import Counted
from retriever.clusters.numbers import Numbers
from retriever.clusters.placing import CategoryNames
from retriever.clusters.saved import SavedClustering
from retriever.core.languages import ENGLISH, Language, count_words
from retriever.core.text import WORD, printable, shortened, without_loose_marks
from retriever.corpus.sentences import sentences

MOST = 3
SHORTEST, LONGEST = 4, 25
"""Words of a quote."""

_POOL = 60  # reviews that are looked at, the most central first
_OFF = 0.25  # of the scale, by which a rating may differ from the group's median
_ALIKE = 0.5  # of the smaller quote's words, which two quotes may share
_MOST_CHARACTERS, _BEGINNING = 280, 200
_READ = 2000  # reviews whose words are counted
_LEAST = 3  # of a group's reviews, or all of fewer, that must share a word which sets it apart
_SHRUNK = 10.0  # reviews with the mean rating that count beside those with a word
_DOUBT = 0.6  # factor for a sentence that may not stand alone
_VERB = re.compile(
    r"\b(?:is|are|was|were|am|be|been|has|have|had|do|does|did|ca|can|could|will|would|should|must|\w+ed|"
    r"(?:work|love|look|make|feel|get|keep|need|fit|hold|come|goe|seem|take|play|like|want|doe|say|help|sound|run|break|"
    r"stop|last|taste|smell|give|use|do)s|"
    r"[a-z]*(?:broke|fell|got|went|made|kept|came|gave|took|bought|left|lost|let|put|ran|said|felt|found|stuck|wore)|"
    r"love|like|hate|work|need|want|use|enjoy|recommend|make|get|feel|look|buy|play|think)\b|n['\u2019]t\b|'(?:s|re|ve|m)\b",
    re.IGNORECASE,
)
_DANGLING = re.compile(
    r"(?:but|and|so|then|also|however|because|or|which|that|than|otherwise|though|plus)\b", re.IGNORECASE
)
_REFERRING = re.compile(r"(?:it|they|he|she|these|those|both|this one|that one|the second|the other)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote: one sentence of a review, the review's id, and its stars, None where it has none."""

    id: str
    text: str
    stars: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A review that may be quoted.

    Attributes:
        answer: to the question, in words; then only a sentence with one of these is quoted. Empty where only an
            encoder's single words are known.
    """

    id: str
    text: str
    stars: float | None = None
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of reviews.

    Attributes:
        distinct: by group, how much the words that are commoner in it than elsewhere set it apart.
        tone: by word, how far the ratings of reviews with it are from the mean, in stars; empty without ratings.
        language: of the reviews.
    """

    distinct: Mapping[int, Mapping[str, float]]
    tone: Mapping[str, float]
    language: Language = ENGLISH


def words_of(counted: Counted) -> Words:
    """Count the words of some reviews, of the first `_READ`."""
    rated, language = [rating for rating in counted.ratings if rating is not None], counted.groups.language
    above, tone, mean = Counter[str](), Counter[str](), sum(rated) / max(1, len(rated))
    for document, rating in zip(counted.groups.documents[:_READ], counted.ratings, strict=False):
        if rating is not None:
            bag = text_words(document.text, language)
            above.update(bag)
            tone.update(dict.fromkeys(bag, rating - mean))
    weights = {word: total / (above[word] + _SHRUNK) for word, total in tone.items()}
    return Words(distinct_words(counted.groups), weights, language)


def distinct_words(groups: Groups) -> dict[int, dict[str, float]]:
    """Return by group how much words set it apart that are commoner in it than elsewhere, in the first `_READ` reviews.

    With p and q the shares of a group's reviews and of the others that have a word, it is sqrt(p) log(p / q).
    """
    bags = [text_words(document.text, groups.language) for document in groups.documents[:_READ]]
    members, everywhere = groups.members[:, : len(bags)], Counter(chain.from_iterable(bags))
    inside = [Counter(chain.from_iterable(bags[row] for row in np.flatnonzero(rows).tolist())) for rows in members]
    distinct = {}
    for number, counts, size in zip(groups.numbers, inside, members.sum(axis=1).tolist(), strict=True):
        shares = {
            word: ((count + 0.5) / (size + 1), (everywhere[word] - count + 0.5) / (len(bags) - size + 1))
            for word, count in counts.items()
            if count >= min(_LEAST, size)
        }
        distinct[number] = {word: sqrt(p) * log(p / q) for word, (p, q) in shares.items() if p > q}
    return distinct


def typical_words(distinct: Mapping[str, float], language: Language = ENGLISH) -> list[str]:
    """Return the words that set a group apart, best first, at most `KEYWORDS`, of the forms of a word the best.

    Args:
        distinct: of the group, as `Words` has it.
        language: of the words.
    """
    forms: dict[str, str] = {}
    for word in sorted(distinct, key=lambda word: (-distinct[word], word)):
        forms.setdefault(language.stem(word), word)
    return list(forms.values())[:KEYWORDS]


def quotes(
    sources: Sequence[Source],
    words: Mapping[str, float],
    tone: Mapping[str, float],
    scale: float = 5.0,
    language: Language = ENGLISH,
) -> list[Quote]:
    """Return one sentence of each of `MOST` reviews of a group, the best first.

    A review whose rating is far from the group's median is not quoted, nor is a sentence whose words go with other
    ratings than its review's, so that quotes do not contradict each other; two that say the same with the same words
    are not both.

    Args:
        sources: the group's reviews, the most central first.
        words: that set the group apart, in lower case, with their weights.
        tone: as `Words` has it.
        scale: the highest rating.
        language: of the reviews.
    """
    rated = [source.stars for source in sources if source.stars is not None]
    middle = median(rated) if rated else 0.0
    apart, ranked = _by_root(words, language), []
    for rank, source in enumerate(sources[:_POOL]):
        if source.stars is not None and abs(source.stars - middle) > _OFF * scale:
            continue
        answered = dict.fromkeys(text_words(source.answer, language), 1.0)
        weights = _by_root(answered, language) if source.answer else apart
        side = 0.0 if source.stars is None else source.stars - (1 + scale) / 2
        scored = []
        for sentence in _sentences(source.text, language):
            judged = sum(tone.get(word, 0.0) for word in text_words(sentence, language))
            if judged * side >= 0:
                opinion = 1 + min(abs(judged), 1.0)  # says more of a rating than a fact does
                scored.append((_score(sentence, weights, language) * opinion / (1 + rank / _POOL), sentence))
        score, sentence = max(scored, default=(0.0, ""))
        if score > 0:
            ranked.append((score, Quote(source.id, sentence, source.stars)))
    chosen: list[Quote] = []
    for _, quote in sorted(ranked, key=lambda pair: -pair[0]):
        if not any(_alike(quote.text, other.text, language) for other in chosen):
            chosen.append(quote)
        if len(chosen) == MOST:
            break
    return chosen


def quotes_of(
    found: Clustering,
    cluster: Cluster,
    counted: Counted,
    words: Words,
    nearness: Mapping[str, float] | None,
) -> list[Quote]:
    """Return quotes of those of a cluster's reviews that were counted.

    Where the question is answered and the cluster surely lowers the mean rating, or raises it, they are of reviews
    rated below the mean, or above it, if it has `MOST` of these: on that side of the scale's middle too, if it has as
    many there. Where no sentence stands alone, it is the beginning of the most central review. Where reviews are
    answered in words, a quote is a sentence with a word of its review's answer; those that say nothing have none.

    Args:
        found: the clustering.
        cluster: one of its clusters.
        counted: the reviews, with their ratings.
        words: theirs.
        nearness: cosine of every row with its cluster, by id, where the clustering has lost its vectors.
    """
    known = {document.id: row for row, document in enumerate(counted.groups.documents)}
    material, phrases, number = found.material, found.material.phrases, cluster.number
    if phrases is not None and cluster.empty:
        return []
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
    distinct, scale, language = words.distinct[number], counted.scale, words.language
    distinct = {**distinct, **dict.fromkeys(text_words(cluster.label, language), max(distinct.values(), default=1.0))}
    speaking = [] if found.division else _speaking(sources, counted.numbers, number, scale)
    return (
        quotes(speaking, distinct, words.tone, scale, language)
        or quotes(sources, distinct, words.tone, scale, language)
        or [
            Quote(source.id, shortened(source.text, _BEGINNING), source.stars)
            for source in sources[:1]
            if not source.answer
        ]
    )


def _speaking(sources: Sequence[Source], numbers: Numbers, number: int, scale: float) -> Sequence[Source]:
    """Return the reviews that speak for a cluster's effect on the mean rating; all where it has none for sure."""
    effect = next((group.impact for group in numbers.groups if group.group == number), None)
    if effect is None or not effect.certain or numbers.stars is None:
        return sources
    for edges in ((numbers.stars, (1 + scale) / 2), (numbers.stars,)):
        chosen = [
            source
            for source in sources
            if source.stars is not None and all((edge - source.stars) * effect.value > 0 for edge in edges)
        ]
        if len(chosen) >= MOST:
            return chosen
    return sources


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


def _sentences(text: str, language: Language) -> Iterator[str]:
    """Yield the sentences of a text that can stand alone, each on one line."""
    for span in sentences(text, language.code):
        sentence = without_loose_marks(" ".join(printable(text[span.start : span.end]).split()))
        count = len(WORD.findall(sentence)) if language.is_english else count_words(sentence)
        if (
            SHORTEST <= count <= LONGEST
            and len(sentence) <= _MOST_CHARACTERS
            and not sentence.endswith(("?", ":", ",", "\uff1f", "\uff1a", "\u3001"))
        ):
            yield sentence


def _by_root(words: Mapping[str, float], language: Language) -> dict[str, float]:
    """Return the weights of words by their roots, of the forms of a word the largest."""
    weights: dict[str, float] = {}
    for word, weight in words.items():
        root = language.stem(word)
        weights[root] = max(weight, weights.get(root, 0.0))
    return weights


def _score(sentence: str, weights: Mapping[str, float], language: Language) -> float:
    """Return how well a sentence says what the words of some roots with weights say; 0 where it says nothing of it.

    Whether it stands alone is told in English, elsewhere by its first letter.
    """
    own = text_words(sentence, language)
    said = sum(weights.get(root, 0.0) for root in {language.stem(word) for word in own})
    score = said / sqrt(2 + len(own))
    first = next((character for character in sentence if character.isalpha()), "")
    doubts: list[object] = [first.islower()]
    if language.is_english:
        doubts += [_DANGLING.match(sentence), _REFERRING.match(sentence), not _VERB.search(sentence)]
    for doubt in doubts:
        score *= _DOUBT if doubt else 1.0
    return score


def _alike(one: str, other: str, language: Language) -> bool:
    words = text_words(one, language), text_words(other, language)
    return len(words[0] & words[1]) > _ALIKE * min(map(len, words))
