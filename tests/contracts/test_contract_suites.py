"""Rules for every suite of evaluations and every task of it, whoever adds a row to `SUITES`."""

import hashlib
import json
import math
from itertools import product

import numpy as np
import pytest

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.registry import resolve
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.encoders import catalog
from retriever.evaluation.rows import split_of
from retriever.evaluation.run.evaluating import EvaluationRequest, evaluate
from retriever.evaluation.suites import SUITES, DataFile
from retriever.evaluation.unmet import by_file
from retriever.evaluation.wordings import unmet_kinds

TASKS = [(suite, task) for suite, tasks in SUITES.items() for task in tasks]
KINDS, MOODS = ("food", "staff", "place"), ("positive", "negative")
TEXTS = [(f"{mood} {kind} {number}", kind, mood) for kind, mood, number in product(KINDS, MOODS, range(6))]
WORDS = [f"word{number}" for number in range(12)]
TALES = [name for name in map("tale {}".format, range(60)) if split_of(name) == "test"][:2]


def aspects(*pairs):
    return [{"aspect": aspect, "polarity": mood} for aspect, mood in pairs]


ACOS = {"food": "FOOD#QUALITY", "staff": "SERVICE#GENERAL", "place": "AMBIENCE#GENERAL"}
ROWS = {
    DataFile.TRIPLETS: [
        {
            "anchor": f"{mood} {kind} 1",
            "same_kind": f"{other} {kind} 2",
            "same_mood": f"{mood} place 2",
            "instructions": {"kind": "which part", "mood": "which mood"},
        }
        for kind in ("food", "staff")
        for mood, other in (MOODS, MOODS[::-1])
    ],
    DataFile.RESTAURANTS: [
        {"id": text, "text": text, "aspects": aspects((ACOS[kind], mood))} for text, kind, mood in TEXTS
    ],
    DataFile.REVIEWS: [
        {"text": text, "labels": {"category": kind, "polarity": mood}, "split": "test"} for text, kind, mood in TEXTS
    ],
    DataFile.PRODUCTS: [
        {"text": text, "labels": {"product": kind}, "aspects": aspects(("any", mood)), "split": "test"}
        for text, kind, mood in TEXTS
    ],
    DataFile.MAMS: [
        {"id": text, "text": text, "aspects": aspects((kind, mood)), "split": "test"} for text, kind, mood in TEXTS
    ],
    DataFile.PASSAGES: [{"id": word, "text": f"{word} and more"} for word in WORDS],
    DataFile.WEB_QUERIES: [
        {"id": f"q{word}", "text": word, "relevant": [word], "instructions": ["briefly", "for a child"]}
        for word in WORDS[:4]
    ],
    DataFile.STORIES: [
        {
            "text": f"{tale} {word}",
            "question": f"who is {word}",
            "answer": word,
            "split": "val",
            "meta": {"story": tale},
        }
        for tale in TALES
        for word in WORDS[:3]
    ],
    DataFile.SENTENCE_PAIRS: [
        {"a": f"{WORDS[0]} {word}", "b": f"{WORDS[1]} {word}", "score": score, "split": "test"}
        for score, word in enumerate(WORDS[:5])
    ],
    DataFile.INTENTS: [{"text": text, "labels": {"intent": kind}, "split": "test"} for text, kind, _ in TEXTS],
    DataFile.RELATIONS: [
        {"text": text, "head": "Ann", "tail": "Ben", "labels": {"relation": kind}, "split": "test"}
        for text, kind, _ in TEXTS
    ],
    **{
        file: [
            {"text": text, "labels": dict(zip((one.kind for one in kinds), [kind, mood, text[-1]], strict=False))}
            for text, kind, mood in TEXTS
        ]
        for file, kinds in by_file(unmet_kinds()).items()
    },
    DataFile.ASKED: [
        {
            "split": split,
            "questions": [{"kind": one, "wordings": [f"which {one}", one]} for one in asked],
            "rows": [{"text": text, "answers": [kind, mood]} for text, kind, mood in TEXTS],
        }
        for split, asked in {"dev": ["part", "mood"], "train": ["side", "turn"]}.items()
    ],
}


class HashedWords(Encoder):
    """A text is the sum of its words' directions, each drawn from the hash of the word and the instruction."""

    spec = EncoderSpec("words".ljust(64, "0"), 16)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        views = [normalise([self._row(text, asked) for text in texts]).reshape(-1, self.dim) for asked in instructions]
        return [Encoded(view.astype(np.float32), [[] for _ in texts]) for view in views]

    def _row(self, text, instruction):
        hashes = (hashlib.sha256(f"{instruction} {word}".encode()).digest()[: self.dim] for word in text.split())
        return sum(np.frombuffer(one, dtype=np.uint8).astype(float) - 127.5 for one in hashes)


class Unread(HashedWords):
    """The same encoder, which nobody may ask."""

    def encode_views(self, *arguments, **options):
        raise AssertionError("nothing is left to embed")


def test_every_data_file_has_rows_here():
    assert set(DataFile) <= ROWS.keys() == {name for _, task in TASKS for name in task.files}


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_has_tasks_with_names_files_and_a_line_of_help(suite):
    assert len({task.name for task in SUITES[suite]}) == len(SUITES[suite]) > 0
    for task in SUITES[suite]:
        assert callable(resolve(task.function))
        assert 20 < len(task.summary) < 120
        assert "\n" not in task.summary


@pytest.mark.parametrize(("suite", "task"), TASKS, ids=[f"{suite}-{task.name}" for suite, task in TASKS])
def test_a_task_reads_its_own_files_scores_in_range_and_is_kept(suite, task, tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    for name in task.files:
        (data / name).write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
    monkeypatch.setattr(catalog, "load_encoder", lambda *names, **options: HashedWords())  # what mines the negatives
    request = EvaluationRequest(suite, data, tasks=(task.name,), limit=200)
    found = evaluate(request, HashedWords(), folder=tmp_path / "kept")
    assert any(one.headline for one in found.scores)
    for one in found.scores:
        assert one.items > 0
        assert one.low <= one.value <= one.high
        assert one.resampled.size
        assert math.isfinite(one.value)
        assert not one.headline or abs(one.value) <= 100 + 1e-9
    again = evaluate(request, Unread(), folder=tmp_path / "kept")
    assert found.to_json()["scores"] == again.to_json()["scores"]
