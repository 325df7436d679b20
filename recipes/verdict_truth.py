"""The truth that verdicts are held to: how labels lie in a question's view, in the base encoder's and in the answers.

A question's groups are right where both triplets and k-means part the labels clearly, and about as well as the texts'
own vectors do without the question. Its answers are where they part the labels, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score
from verdict_read import Read

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Encoded
from retriever.evaluation.grids import Alike, Grid, Question, grid_triplets
from retriever.index.verdicts.arithmetic import pair_cosines
from retriever.index.verdicts.features import meanings

LEAST, LOSS, LEAST_SAID = 60.0, 5.0, 55.0
"""Least share of triplets that come right under a question, how much less it may be than without one, and the least
by what was answered, in percent; 50 is chance."""
LEAST_SHARED, KEPT = 0.1, 0.8
"""Least adjusted mutual information of k-means with the labels, and its least part of that in the base view."""
LEAST_ANCHORS = 25
PERCENT, SEEDS, DIGITS = 100.0, 4, 9


@dataclass(frozen=True, slots=True)
class Truth:
    """How labels lie under a wording.

    Attributes:
        asked: share of the triplets that come right under it, in percent; ``unasked`` under none, ``base`` by the base
            encoder, ``said`` by what was answered.
        shared: adjusted mutual information of k-means under it, with as many clusters as labels; ``base_shared`` by the
            base encoder.
    """

    asked: float
    unasked: float
    base: float
    said: float
    shared: float
    base_shared: float

    @property
    def right(self) -> bool:
        """Whether groups are right, and answers tell the labels apart."""
        triplets = self.asked >= LEAST and max(self.unasked, self.base) - self.asked <= LOSS
        groups = self.shared >= max(LEAST_SHARED, KEPT * self.base_shared)
        return triplets and groups and self.said >= LEAST_SAID

    def to_json(self) -> dict[str, float]:
        """Return the figures, rounded."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


class Remembered(Encoder):
    """An encoder that reads no text twice: answers of one file are mostly those of another."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, NDArray[np.float32]] = {}

    @property
    def spec(self) -> EncoderSpec:
        """The encoder's."""
        return self._encoder.spec

    def encode_views(  # noqa: D102
        self, texts: Sequence[str], instructions: Sequence[str], *, words: int = 0, on_tokens: object = None
    ) -> list[Encoded]:
        new = list(dict.fromkeys(text for text in texts if text not in self._known))
        if new:
            self._known.update(zip(new, self._encoder.encode(new), strict=True))
        return [Encoded(np.stack([self._known[text] for text in texts]), []) for _ in instructions]


def truths(read: Read, plain: Encoder) -> Mapping[tuple[str, str], Truth]:
    """Return the truth by kind and wording of all questions that have enough triplets."""
    source, found = read.source, {}
    base = plain.encode(list(source.texts))
    unasked, base_cosines = read.cosines(""), _cosines(base)
    for question in source.questions:
        shares = _triplets(source.texts, question, unasked)
        if shares.size < LEAST_ANCHORS:
            continue
        base_share = _percent(_triplets(source.texts, question, base_cosines))
        base_shared = shared(base, question.answers)
        for wording in question.wordings:
            heard = read.heard[wording]
            said = meanings(plain, [list(words) for words in heard.words])
            found[question.kind, wording] = Truth(
                asked=_percent(_triplets(source.texts, question, read.cosines(wording))),
                unasked=_percent(shares),
                base=base_share,
                said=_percent(_triplets(source.texts, question, _cosines(said - said.mean(axis=0)))),
                shared=shared(heard.embeddings, question.answers),
                base_shared=base_shared,
            )
    return found


def shared(vectors: Embeddings, labels: Sequence[str | None]) -> float:
    """Return the adjusted mutual information of labels and k-means of vectors (n, dim), on average over seeds."""
    known = [row for row, label in enumerate(labels) if label is not None]
    names = [labels[row] for row in known]
    rows = vectors[known].astype(np.float64)
    rows = normalise(rows - rows.mean(axis=0))
    made = (KMeans(len(set(names)), n_init=3, random_state=seed).fit_predict(rows) for seed in range(SEEDS))
    return float(np.mean([adjusted_mutual_info_score(names, groups) for groups in made]))


def _triplets(texts: Sequence[str], question: Question, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by anchor the share of triplets that come right; none where the labels allow no triplets."""
    found = grid_triplets(Grid("", texts, [question]), Alike(cosines, [[cosines]]))
    return found[0].unasked if found else np.zeros(0)


def _percent(shares: NDArray[np.float64]) -> float:
    return PERCENT * float(shares.mean())


def _cosines(rows: Embeddings) -> NDArray[np.float64]:
    return pair_cosines(rows).round(DIGITS)
