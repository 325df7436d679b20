"""Encoders whose cosines a person can compute, an exact search path over them, and data files of a few rows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Document, Embeddings, Encoded
from retriever.evaluation.suites import Bench, ScoredIds


class BagEncoder(Encoder):
    """A text's vector counts the words of a vocabulary; the instruction is ignored."""

    spec = EncoderSpec("bag".ljust(64, "0"), 0)

    def __init__(self, vocabulary: str) -> None:
        self.vocabulary = vocabulary.split()
        self.spec = replace(self.spec, dim=len(self.vocabulary))
        self.read: list[tuple[str, str]] = []

    def words(self, text: str, instruction: str) -> list[str]:
        return text.split()

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None) -> list[Encoded]:
        return [Encoded(self.rows(texts, one), [[] for _ in texts]) for one in instructions]

    def rows(self, texts: Sequence[str], instruction: str) -> Embeddings:
        self.read += [(text, instruction) for text in texts]
        counts = [[self.words(text, instruction).count(one) for one in self.vocabulary] for text in texts]
        return normalise(np.array(counts, dtype=np.float32).reshape(-1, self.dim))


class RuleEncoder(BagEncoder):
    """A text's vector is that of one key, which a rule finds from text and instruction."""

    def __init__(self, keys: str, rule: Callable[[str, str], str]) -> None:
        super().__init__(keys)
        self._rule = rule

    def words(self, text: str, instruction: str) -> list[str]:
        return [self._rule(text, instruction)]


class ExactPath:
    """Compares every query with every document, both under the query's instruction; modes are only noted."""

    def __init__(self, encoder: BagEncoder) -> None:
        self._encoder = encoder
        self.asked: list[tuple[str, int, int]] = []  # mode, documents, k

    def __call__(
        self, documents: Sequence[Document], queries: Sequence[str], *, instructions: Sequence[str], mode: str, k: int
    ) -> list[ScoredIds]:
        self.asked.append((mode, len(documents), k))
        rankings = []
        for query, instruction in zip(queries, instructions, strict=True):
            vectors = self._encoder.encode([query, *(one.text for one in documents)], instruction=instruction)
            scored = zip((one.id for one in documents), (vectors[1:] @ vectors[0]).tolist(), strict=True)
            rankings.append(sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k])
        return rankings


def bench(folder: Path, encoder: BagEncoder, **options) -> Bench:
    return Bench(folder, encoder, ExactPath(encoder), **options)


def write_rows(folder: Path, name: str, rows: Sequence[Mapping]) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_name(scores) -> dict[tuple[str, str], object]:
    """Scores by task and metric."""
    return {(one.task, one.metric): one for one in scores}
