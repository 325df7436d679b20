"""Read a sample of texts under a question, and under all that the verdict compares it with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings, Encoded
from retriever.index.encoding import WORDS

REFERENCES = (
    "What is the text about?",
    "Is the writer pleased or displeased?",
    "What kind of text is it?",
)
"""Other questions: a model that does not follow one mostly answers one of these instead, whatever texts they are."""

PARAPHRASE = "Tell me: {question}"
NEGATED = "Leave this out and look at everything else: {question}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a verdict on a question looks at: what a model made of the same n texts under several instructions.

    Attributes:
        texts: the n texts.
        asked: under the question.
        unasked: under no question.
        references: under `REFERENCES`.
        paraphrase: under the question in other words.
        negated: under the question turned around.
    """

    texts: Sequence[str]
    asked: Encoded
    unasked: Encoded
    references: Sequence[Encoded]
    paraphrase: Encoded
    negated: Encoded


def read(
    encoder: Encoder,
    texts: Sequence[str],
    question: str,
    *,
    known: Encoded | None = None,
    on_tokens: Callable[[int], None] | None = None,
) -> Evidence:
    """Read different texts in one pass under everything that a verdict compares; arguments as for `judging.judge`."""
    turned = (PARAPHRASE.format(question=question), NEGATED.format(question=question))
    questions = ["", *REFERENCES, *turned, *([question] if known is None else [])]
    unasked, *others = encoder.encode_views(texts, questions, words=WORDS, on_tokens=on_tokens)
    references, (paraphrase, negated, *read_now) = others[: len(REFERENCES)], others[len(REFERENCES) :]
    return Evidence(texts, known or read_now[0], unasked, references, paraphrase, negated)


def meanings(plain: Encoder, heard: Encoded) -> Embeddings:
    """Return what texts were answered with as vectors (n, e): the means of their words', nought where there are none.

    Args:
        plain: a reader of texts as they are, in whose space words that mean the same are near each other.
        heard: the answers of n texts.
    """
    distinct = sorted({word for words in heard.words for word in words})
    if not distinct:
        return np.zeros((len(heard.words), plain.dim), dtype=np.float32)
    vectors = dict(zip(distinct, plain.encode(distinct), strict=True))
    nought = np.zeros(plain.dim, dtype=np.float32)
    return np.stack([np.mean([vectors[word] for word in words], axis=0) if words else nought for words in heard.words])
