"""Names of clusters, the words that set each apart by class-based tf-idf, and the evidence for them.

The words are either those the model itself answered for every document under the instruction, or those of the texts;
a reader sees both, and where they disagree.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition
from retriever.core.languages import ENGLISH, Language, count_words
from retriever.core.text import without_loose_marks

KEYWORDS = 8
LABEL_WORDS = 3
HALF = 0.5
"""Share of a cluster's documents that its name has to hold for."""
SUCH_AS = "such as "
"""Begins the name of a cluster that nothing holds of half of."""
SEPARATOR = " / "
"""Between the words of a name: no comma, which separates names."""
_COMMON = 0.2  # of a cluster's documents that share each answer of its name
_WORD = re.compile(r"[^\W\d_]{2,}(?:['\u2019-][^\W\d_]+)*")
_LEAST_DOCUMENTS = 2  # of a cluster that must share a word for it to name the cluster, where it has that many
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_CENTRAL = 20  # documents nearest to a centroid
_SHORTEST, _LONGEST = 3, 30  # words


def text_words(text: str, language: Language = ENGLISH) -> set[str]:
    """Return the different words of a text in lower case, stop words left out."""
    return set(language.words(text))


def answer_words(answers: Sequence[str], instruction: str | None, language: Language = ENGLISH) -> set[str]:
    """Return the different words among a model's answers, without stop words and those of the instruction itself."""
    own = {language.stem(word) for word in _WORD.findall(instruction or "")}
    words = {word for answer in answers for word in language.words(answer)}
    return {word for word in words if language.stem(word) not in own}


def keywords(
    words: Sequence[Iterable[str]], labels: NDArray[np.int64], k: int, language: Language = ENGLISH
) -> list[list[str]]:
    """Return the words that set every cluster apart, best first, at most `KEYWORDS` each.

    The weight of word t in cluster c is tf(t, c) log(1 + A / tf(t)): tf(t, c) the share of the cluster's documents with
    the word, tf(t) the sum of these over the clusters, A their mean over clusters (c-tf-idf: Grootendorst, "BERTopic",
    2022, equation 2, with every document counted once a word and clusters of any size alike). The forms of one word
    count together (`Language.stem`), and the commonest in the cluster stands for them. ``words`` are the different ones
    of every document, ``labels`` (n,) the documents' clusters.
    """
    stem = language.stem
    counts: list[Counter[str]] = [Counter() for _ in range(k)]
    forms: list[defaultdict[str, Counter[str]]] = [defaultdict(Counter) for _ in range(k)]
    sizes: Counter[int] = Counter()
    for bag, label in zip(words, labels.tolist(), strict=True):
        counts[label].update({stem(word) for word in bag})
        for word in bag:
            forms[label][stem(word)][word] += 1
        sizes[label] += 1
    shares = [
        {word: times / sizes[label] for word, times in counter.items() if times >= min(_LEAST_DOCUMENTS, sizes[label])}
        for label, counter in enumerate(counts)
    ]
    totals: Counter[str] = Counter()
    for by_word in shares:
        totals.update(by_word)
    average = sum(totals.values()) / max(1, k)
    named = []
    for by_word, spelled in zip(shares, forms, strict=True):
        weights = {word: share * np.log1p(average / totals[word]) for word, share in by_word.items()}
        best = sorted(weights, key=lambda word: (-weights[word], word))[:KEYWORDS]
        named.append([min(spelled[word], key=lambda form: (-spelled[word][form], form)) for word in best])
    return named


def names_that_hold(
    answered: tuple[Sequence[Sequence[str]], Sequence[Iterable[str]]],
    written: tuple[Sequence[Sequence[str]], Sequence[Iterable[str]]],
    labels: NDArray[np.int64],
    language: Language = ENGLISH,
) -> tuple[list[str], list[float]]:
    """Return a name for every cluster, of answers where half of its documents share one of the name's words.

    Else it is of words of the texts, if half share one of these or no document has an answer; if not, what it has is
    given as an example. With the names come the shares of the documents that have one of the words.

    Args:
        answered: by cluster the words that set it apart among answers, best first, and the words of every document.
        written: the same of the texts.
        labels: (n,) the documents' clusters.
        language: of the texts.
    """
    stems = [_stems(bags, labels, len(answered[0]), language) for bags in (answered[1], written[1])]
    ours, theirs = _shared(answered[0], stems[0], language), written[0]
    first = labels_of([own or other for own, other in zip(ours, theirs, strict=True)], language)
    holds = _hold(first, stems[0], language)
    chosen = [
        own if own and held >= HALF else other or own for own, other, held in zip(ours, theirs, holds, strict=True)
    ]
    names = labels_of(chosen, language)
    either = list(map(max, *(_hold(names, of, language) for of in stems)))
    return [name if held >= HALF else SUCH_AS + name for name, held in zip(names, either, strict=True)], either


def _shared(named: Sequence[Sequence[str]], stems: Sequence[Sequence[set[str]]], language: Language) -> list[list[str]]:
    """Return those of each cluster's words that a part of its documents share; all where no word is that common.

    ``stems`` are those of the words of each cluster's documents, as with `_hold`.
    """
    kept = []
    for words, bags in zip(named, stems, strict=True):
        common = [word for word in words if sum(language.stem(word) in bag for bag in bags) >= _COMMON * len(bags)]
        kept.append(common or list(words))
    return kept


def _hold(names: Sequence[str], stems: Sequence[Sequence[set[str]]], language: Language) -> list[float]:
    """Return the share of each cluster's documents that have a word of its name."""
    held = []
    for name, bags in zip(names, stems, strict=True):
        words = _WORD.findall(name) if language.is_english else name.split(SEPARATOR)
        own = {language.stem(word) for word in words}
        held.append(sum(bool(own & bag) for bag in bags) / len(bags))
    return held


def _stems(
    bags: Sequence[Iterable[str]], labels: NDArray[np.int64], k: int, language: Language
) -> list[list[set[str]]]:
    """Return the stems of the words of each cluster's documents."""
    stems: list[list[set[str]]] = [[] for _ in range(k)]
    for bag, label in zip(bags, labels.tolist(), strict=True):
        stems[label].append({language.stem(word) for word in bag})
    return stems


def labels_of(named: Sequence[Sequence[str]], language: Language = ENGLISH) -> list[str]:
    """Return a one-line name for every cluster; no two share a word where each has one of its own.

    A word belongs to the cluster that has it foremost, the first of equals, and a name is the first words that belong
    to its cluster. A cluster that none belongs to is named by its first words, with a number where that is taken.
    """
    stem = language.stem
    owners: dict[str, tuple[int, int]] = {}
    for number, words in enumerate(named):
        for rank, word in enumerate(words):
            owners[stem(word)] = min(owners.get(stem(word), (rank, number)), (rank, number))
    names = []
    for number, words in enumerate(named):
        own = [word for word in words if owners[stem(word)][1] == number]
        names.append(SEPARATOR.join((own or list(words))[:LABEL_WORDS]) or "unnamed")
    return unlike(names)


def unlike(names: Sequence[str]) -> list[str]:
    """Return names that differ: one that another cluster before has gets its cluster's number, from 1, behind it."""
    taken: set[str] = set()
    different = []
    for number, name in enumerate(names):
        different.append(f"{name} ({number + 1})" if name.casefold() in taken else name)
        taken.add(different[-1].casefold())
    return different


def central(found: Partition, texts: Sequence[str], number: int) -> list[int]:
    """Return the rows of a cluster nearest to its centroid, twenty at most, each another text."""
    rows = np.flatnonzero(found.labels == number)
    first: dict[str, int] = {}
    for row in rows[np.argsort(-found.cosines[rows], kind="stable")].tolist():
        first.setdefault(texts[row], row)
        if len(first) == _CENTRAL:
            break
    return list(first.values())


def typical_sentence(texts: Sequence[str], keywords: Sequence[str], language: Language = ENGLISH) -> str:
    """Return the sentence of some texts, the most central first, that says most of a cluster's words in few.

    A keyword counts for 1 / rank, the best being the first.
    """
    weights = {language.stem(word): 1 / rank for rank, word in enumerate(keywords, start=1)}
    best, score = "", -1.0
    for text in texts:
        for sentence in map(without_loose_marks, _SENTENCE_END.split(text)):
            length = count_words(sentence)
            if not _SHORTEST <= length <= _LONGEST:
                continue
            said = map(language.stem, text_words(sentence, language))
            weight = sum(weights.get(word, 0.0) for word in said) / length**0.5
            if weight > score:
                best, score = sentence.strip(), weight
    return best
