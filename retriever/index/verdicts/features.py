"""The basis of a verdict: features of a question by name, from the answers it got, and what a base encoder knows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.text import drop_prefixes
from retriever.core.types import JSON, Embeddings
from retriever.core.words import in_whole_words
from retriever.index.verdicts.arithmetic import first_share, near
from retriever.index.verdicts.reading import Evidence

TOPICS = ("What kind of product is it?", "What is the text about?", "What kind of thing is it?")
"""Questions for the topic: a model that does not follow a question mostly answers these instead."""

BY_TOPIC = 0.4
"""Correlation from which on answers group the texts as their topics do, as a base encoder finds them."""

ASKS_TOPIC = 0.45
"""Cosine with one of `TOPICS` from which on a question asks for the topic itself."""

_COMMON = (
    "person day water money city music yes red anger science running law house computer animal north long begin "
    "quality letter food month name good help broken easy work child part"
).split()
"""Words of all kinds: what a question has in common with these, it has in common with any."""

_FREQUENT = 8
_MOST_WORDS = 20

RULE: list[JSON] = [BY_TOPIC, ASKS_TOPIC, *TOPICS, *_COMMON]
"""All that `by_topic` goes by: verdicts that were made by another rule are made anew."""


def features_of(evidence: Evidence, question: str, plain: Encoder | None) -> dict[str, float]:
    """Return the features of a question by name; none without a base encoder.

    ``words_near`` is how far the view has together what is answered alike, and ``topic`` how far the base encoder has,
    which knows only what the texts are about. ``first_share`` is how much of the view's variance lies along a single
    direction, as it does where texts have few answers that are far apart. ``asks_topic`` is how much the question is
    like a question for the topic, and ``suits_topic`` how much better the commonest answers suit such a question.
    """
    if plain is None:
        return {}
    words = evidence.asked.words
    said, texts = meanings(plain, words), plain.encode(evidence.texts)
    asked, *topics = plain.encode([question, *TOPICS])
    suits = _suits(plain, most_answered(map(in_whole_words, words, evidence.texts)), [asked, *topics])
    return {
        "words_near": near(evidence.asked.embeddings, said),
        "first_share": first_share(evidence.asked.embeddings),
        "topic": near(texts - texts.mean(axis=0), said),
        "asks_topic": float(max(topic @ asked for topic in topics)),
        "suits_topic": max(suits[1:]) - suits[0],
    }


def by_topic(features: Mapping[str, float]) -> bool:
    """Whether answers go by the topics of the texts where the question, which they suit less, does not ask for them."""
    if "topic" not in features:
        return False
    asks_it = features["asks_topic"] >= ASKS_TOPIC
    return features["topic"] >= BY_TOPIC and features["suits_topic"] > 0 and not asks_it


def most_answered(answers: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the words most texts were answered with, and of how many texts."""
    counts = Counter(word for words in answers for word in dict.fromkeys(words))
    return [(word, counts[word]) for word in drop_prefixes((word for word, _ in counts.most_common()), _MOST_WORDS)]


def meanings(plain: Encoder, answers: Sequence[Sequence[str]]) -> Embeddings:
    """Return what n texts were answered with as vectors (n, e): the means of their words', nought where there are none.

    In the base encoder's space, words that mean the same are near each other.
    """
    distinct = sorted({word for words in answers for word in words})
    if not distinct:
        return np.zeros((len(answers), plain.dim), dtype=np.float32)
    vectors = dict(zip(distinct, plain.encode(distinct), strict=True))
    nought = np.zeros(plain.dim, dtype=np.float32)
    return np.stack([np.mean([vectors[word] for word in words], axis=0) if words else nought for words in answers])


def _suits(plain: Encoder, answers: Sequence[tuple[str, int]], questions: Sequence[Embeddings]) -> list[float]:
    """Return how much the commonest answers suit questions (e,): mean cosines, less those of any words."""
    frequent = [word for word, _ in answers[:_FREQUENT]]
    if not frequent:
        return [0.0] * len(questions)
    vectors = plain.encode([*frequent, *_COMMON])
    said, common = np.split(vectors @ np.stack(questions).T, [len(frequent)])
    return [float(suit) for suit in said.mean(axis=0) - common.mean(axis=0)]
