"""Read a sample of texts under a question, and some of them under others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.core.protocols import Encoder
from retriever.core.types import Encoded
from retriever.index.encoding import WORDS
from retriever.index.verdicts.arithmetic import SAME, likeness, pair_cosines

REFERENCES = ("What is the text about?", "Is the writer pleased or displeased?")
"""Questions with different answers: where both give the vectors of a third, the encoder reads no question at all."""

COMPARED = 8
"""Texts that are read under `REFERENCES`."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a verdict on a question looks at: what a model made of n texts.

    Attributes:
        texts: the n texts.
        asked: under the question.
        same: whether the vectors are the same under every question.
    """

    texts: Sequence[str]
    asked: Encoded
    same: bool = False


def read(
    encoder: Encoder,
    texts: Sequence[str],
    question: str,
    *,
    known: Encoded | None = None,
    on_tokens: Callable[[int], None] | None = None,
) -> Evidence:
    """Read different texts under a question, and some of them under `REFERENCES`.

    ``known`` is what the encoder made of them under the question, where that is stored.

    Raises:
        UsageError: the question is longer than the encoder takes.
    """
    asked = known or encoder.encode_views(texts, [question], words=WORDS, on_tokens=on_tokens)[0]
    some = np.random.default_rng(0).permutation(len(texts))[:COMPARED]
    view = pair_cosines(asked.embeddings[some])
    others = encoder.encode_views([texts[row] for row in some], REFERENCES, words=WORDS)
    return Evidence(texts, asked, all(likeness(view, pair_cosines(other.embeddings)) > SAME for other in others))
