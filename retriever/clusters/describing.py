"""Clusters described: the words that set them apart, their names, their most central documents, how close they lie."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.kmeans import Partition, grouped
from retriever.clusters.arithmetic.naming import (
    KEYWORDS,
    answer_words,
    central,
    keywords,
    names_that_hold,
    text_words,
    typical_sentence,
    unlike,
)
from retriever.clusters.clustering import Cluster
from retriever.clusters.material import Material
from retriever.clusters.phrases import counted, title
from retriever.clusters.placing import Places
from retriever.index.teaching.labels import NONE_OF_THESE

Row = TypeVar("Row")

_EXAMPLES = 3


def described(material: Material, partition: Partition, instruction: str | None) -> list[Cluster]:
    """Return clusters with names, words and evidence, given which row is in which; none of them is empty.

    Args:
        material: the rows.
        partition: them in clusters.
        instruction: what they answer; None for nothing.
    """
    texts = [document.text for document in material.documents]
    labels, k, language = partition.labels, partition.k, material.language
    said = None if material.phrases and NONE_OF_THESE in material.phrases else material.phrases
    phrases = [[] if said is None else counted(_of(said, labels, number))[:KEYWORDS] for number in range(k)]
    answers, bags = _words(material, labels, k, instruction)
    answered, written = (keywords(of, labels, k, language) for of in (answers, bags))
    if said is None:
        names, holds = names_that_hold((answered, answers), (written, bags), labels, language)
    else:
        titles = [
            title(_of(said, labels, number), partition.cosines[labels == number], language) for number in range(k)
        ]
        names, holds = unlike([each.text for each in titles]), [each.holds for each in titles]
        answered = [[phrase.text for phrase in of] for of in phrases]
    documents = np.bincount(labels[material.once(labels.tolist())], minlength=k).tolist()
    clusters = []
    for number in range(k):
        members = labels == number
        cohesion, margin = (
            float(values[members].mean(dtype=np.float64)) for values in (partition.cosines, partition.margins)
        )
        nearest = central(partition, texts, number)
        clusters.append(
            Cluster(
                number=number,
                label=names[number],
                size=int(members.sum()),
                documents=documents[number],
                keywords=answered[number],
                text_keywords=written[number],
                examples=[material.documents[row].id for row in nearest[:_EXAMPLES]],
                sentence=typical_sentence([texts[row] for row in nearest], written[number], language),
                cohesion=cohesion,
                margin=margin,
                phrases=phrases[number],
                holds=holds[number],
            )
        )
    return clusters


def described_anew(
    material: Material, places: Places, numbers: Sequence[int], instruction: str | None
) -> Mapping[int, Cluster]:
    """Return clusters that nobody computed by number, described like those that were; the caller gives them names.

    The centroid of a cluster is the mean of its documents' vectors.

    Args:
        material: the rows.
        places: the clusters of every row, all of which count.
        numbers: those to describe; one without rows is empty.
        instruction: the clustering's.
    """
    pairs = [
        (row, number)
        for row, document in enumerate(material.documents)
        for number in places[document.id]
        if number >= 0
    ]
    rows = [row for row, _ in pairs]
    there, labels = np.unique(np.array([number for _, number in pairs], dtype=np.int64), return_inverse=True)
    clusters = {number: Cluster(number) for number in numbers}
    if rows:
        part = material.part(rows)
        for cluster in described(part, grouped(part.vectors, labels, len(there)), instruction):
            number = int(there[cluster.number])
            if number in clusters:
                clusters[number] = replace(cluster, number=number)
    return clusters


def _most(said: Sequence[Sequence[str]]) -> set[str]:
    """Return the answers that more than half of some rows have, where they are answers to the question."""
    counts = Counter(chain.from_iterable(said))
    return {answer for answer, count in counts.items() if 2 * count > len(said) and answer != NONE_OF_THESE}


def _of(said: Sequence[Row], labels: NDArray[np.int64], number: int) -> list[Row]:
    """Return the answers of a cluster's rows."""
    return [said[row] for row in np.flatnonzero(labels == number).tolist()]


def _words(
    material: Material, labels: NDArray[np.int64], k: int, instruction: str | None
) -> tuple[list[list[str]], list[set[str]]]:
    """Return the words of every row: those that the model answered, and those of its text.

    An answer that somebody named is none of them where most of the cluster's rows have another.
    """
    written = [text_words(document.text, material.language) for document in material.documents]
    first = material.answer_words  # what somebody named is a name as it is, of words of the question too
    named = {word.casefold() for words in material.answers for word in words[:first]}
    own = [_most(_of([words[:first] for words in material.answers], labels, number)) for number in range(k)]
    answered = [
        [
            *own[label].intersection(words[:first]),
            *(word for word in answer_words(words[first:], instruction, material.language) if word not in named),
        ]
        for words, label in zip(material.answers, labels.tolist(), strict=True)
    ]
    return answered, written
