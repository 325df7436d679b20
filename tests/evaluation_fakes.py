"""A suite of tiny tasks for what runs and shows suites; the scores are countable by hand."""

import json

import numpy as np

from retriever.core.types import Document
from retriever.evaluation import suites
from retriever.evaluation.rows import read_rows
from retriever.evaluation.scores import Score, combine, harmonic_mean, mean_score
from retriever.evaluation.suites import Task

ROWS = [{"text": text} for text in ["a kettle", "a toy", "a kettle to love", "a lamp"]]
RAN = []
"""The tasks that ran, in order."""


def kettles(bench):
    """Share of the texts beside which "kettle" lies within a cosine of 0.8."""
    RAN.append("kettles")
    texts = [row.get("text", str) for row in read_rows(bench.data, "words.jsonl")][: bench.limit]
    near = bench.encoder.encode(texts) @ bench.encoder.encode(["kettle"])[0] > 0.8
    half = mean_score("kettles", "half", near.astype(float), seed=bench.seed, scale=0.5, note="half a share")
    yield half
    yield mean_score("kettles", "share", near.astype(float), seed=bench.seed, scale=100, headline=True)
    yield combine("kettles", "unit share", [half, half], lambda both: 2 * harmonic_mean(both), headline=True)


def first_hit(bench):
    """Whether a search for a text finds it first."""
    RAN.append("first-hit")
    texts = [row.get("text", str) for row in read_rows(bench.data, "words.jsonl")]
    documents = [Document(str(row), text) for row, text in enumerate(texts)]
    rankings = bench.search(documents, texts[:2], instructions=["", ""], mode="dense", k=1)
    found = np.array([float(ranking[0][0] == str(row)) for row, ranking in enumerate(rankings)])
    yield mean_score("first-hit", "P@1", found, seed=bench.seed, scale=100, headline=True)


def constant(bench):
    """A figure that cannot be resampled and reads no file."""
    RAN.append("constant")
    yield Score("constant", "answer", 42.0, 42.0, 42.0, 1, headline=True)


def register(monkeypatch, folder):
    """Make two suites the only ones and write their data."""
    RAN.clear()
    for name in list(suites.SUITES):
        monkeypatch.delitem(suites.SUITES, name)
    rows = (
        Task("kettles", "evaluation_fakes:kettles", ("words.jsonl",), "texts near a kettle"),
        Task("first-hit", "evaluation_fakes:first_hit", ("words.jsonl",), "texts that find themselves"),
    )
    monkeypatch.setitem(suites.SUITES, "toys", rows)
    alone = Task("constant", "evaluation_fakes:constant", (), "a constant")
    monkeypatch.setitem(suites.SUITES, "bare", (alone,))
    folder.mkdir(exist_ok=True)
    write(folder, ROWS)
    return folder


def write(folder, rows):
    (folder / "words.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
