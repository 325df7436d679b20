"""What a verdict is made of: features of a question by name, from the answers it got, and what a base encoder knows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.text import drop_prefixes
from retriever.core.types import JSON, Embeddings
from retriever.core.verdicts import Level
from retriever.core.words import in_whole_words
from retriever.index.verdicts.arithmetic import entropy, likeness, near, pair_cosines
from retriever.index.verdicts.reading import Evidence

TOPICS = ("What kind of product is it?", "What is the text about?", "What kind of thing is it?")
"""Questions for the topic: a model that does not follow a question mostly answers these instead."""

BY_TOPIC, MOSTLY_BY_TOPIC = 0.4, 0.6
"""Correlations from which on answers group the texts as their topics do, as a base encoder finds them.

Product reviews have 0.72 to 0.75 with "What is the main reason for the rating?" and "What broke?", whose answers are
kinds of product, and 0.13 to 0.17 with questions about mood, service and time.
"""

ASKS_TOPIC = 0.45
"""Cosine with one of `TOPICS` from which on a question asks for the topic itself."""

MARGIN = 0.03
"""How far beyond these thresholds, and beyond 0 for ``suits_topic``, features must be for a question to be called not
followed; where they are less far, or less than that before them, it is unclear.

Processors without bfloat16 compute in float32, where some answers are others. Over ten samples of 40 example reviews
and 15 questions that moved ``topic`` by 0.049 at most (0.010 in the root mean square), ``suits_topic`` by 0.035 (0.009)
and ``asks_topic`` by 0.002; under 25 questions about other texts ``suits_topic`` by 0.042. None was followed in one
format and not followed in the other: both sides of the margin together are 0.06. Measured 2026-11-27 on an AMD EPYC,
model 9340485c1f5e, base encoder 35fe04a25c72.
"""

_COMMON = (
    "person day water money city music yes red anger science running law house computer animal north long begin "
    "quality letter food month name good help broken easy work child part"
).split()
"""Words of all kinds: what a question has in common with these, it has in common with any."""

_FREQUENT = 8
_MOST_WORDS = 20

RULE: list[JSON] = [BY_TOPIC, MOSTLY_BY_TOPIC, ASKS_TOPIC, MARGIN, *TOPICS, *_COMMON]
"""All that `at_most` goes by: verdicts that were made by another rule are made anew."""


def features_of(evidence: Evidence, question: str, plain: Encoder | None) -> dict[str, float]:
    """Return the features of a question by name; without a base encoder those that need none.

    ``words_spread`` is how different the first answers are. ``words_near`` is how far the view has together what is
    answered alike. ``topic`` is how far the answers group the texts as their topics do, ``asks_topic`` how much the
    question is like one for the topic, and ``suits_topic`` how much better the commonest answers suit such a question.
    """
    words = evidence.asked.words
    features = {"words_spread": entropy([answers[0] if answers else "" for answers in words])}
    if plain is None:
        return features
    said, texts = meanings(plain, words), plain.encode(evidence.texts)
    asked, *topics = plain.encode([question, *TOPICS])
    suits = _suits(plain, most_answered(map(in_whole_words, words, evidence.texts)), [asked, *topics])
    return {
        **features,
        "words_near": near(evidence.asked.embeddings, said),
        "topic": likeness(pair_cosines(said - said.mean(axis=0)), pair_cosines(texts - texts.mean(axis=0))),
        "asks_topic": float(max(topic @ asked for topic in topics)),
        "suits_topic": max(suits[1:]) - suits[0],
    }


def at_most(features: Mapping[str, float]) -> Level:
    """Return the best level that answers allow, whatever the chance.

    A question is not followed if it is answered by the topic, did not ask for it, and suits the answers less than a
    question for the topic does, each by `MARGIN`. It is unclear where that is nearly so, or where the question suits
    answers that go by little but the topic.
    """
    if "topic" not in features:
        return "followed"
    asks = features["asks_topic"] - ASKS_TOPIC
    beyond = min(features["topic"] - BY_TOPIC, features["suits_topic"], -asks)
    if beyond >= MARGIN:
        return "not followed"
    only_topic = features["topic"] >= MOSTLY_BY_TOPIC and asks < 0
    return "unclear" if beyond > -MARGIN or only_topic else "followed"


def most_answered(answers: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Return the words most texts were answered with, and of how many texts."""
    counts = Counter(word for words in answers for word in dict.fromkeys(words))
    return [(word, counts[word]) for word in drop_prefixes((word for word, _ in counts.most_common()), _MOST_WORDS)]


def meanings(plain: Encoder, answers: Sequence[Sequence[str]]) -> Embeddings:
    """Return what n texts were answered with as vectors (n, e): the means of their words', nought where there are none.

    Args:
        plain: the base encoder, in whose space words that mean the same are near each other.
        answers: of the texts.
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
