"""Expert encoders vote: a row stays where each of them finds the answer nearer than in the middle row."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.protocols import Encoder
from retriever.training.row_negatives import embed_queries
from retriever.training.rows import TrainingRow


@dataclass(frozen=True, slots=True)
class Expert:
    """An encoder under the name its votes are reported by."""

    name: str
    encoder: Encoder


@dataclass(frozen=True, slots=True)
class Vote:
    """The scores (rows,) that one expert gave to rows, cosines of instructed text and answer, and their median."""

    expert: str
    scores: NDArray[np.float32]
    median: float

    @property
    def approves(self) -> NDArray[np.bool_]:
        """Which rows lie above the median, (rows,)."""
        return self.scores > self.median


def vote(rows: Sequence[TrainingRow], expert: Expert) -> Vote:
    """Score at least one row by an expert: sim(instruction + input, output).

    The text is read under the row's instruction, in the way the encoder reads instructions; the answer, or first
    positive, under the default one.

    Source: "General-Purpose Instruction-Aware Text Embeddings via Dual-Level Contrastive Learning", GEDI pipeline.
    """
    queries = embed_queries(rows, expert.encoder)
    outputs = expert.encoder.encode([row.answer for row in rows])
    scores = np.asarray((queries * outputs).sum(axis=1), dtype=np.float32)
    return Vote(expert.name, scores, float(np.median(scores)))
