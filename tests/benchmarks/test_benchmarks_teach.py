import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from teach import drawn, logistic, means, measured, taught, tuned, untaught
from teach_kinds import Kind, Read
from teach_table import section

from retriever.core.encoder import Encoder, EncoderSpec, Tuning
from retriever.core.similarity import normalise
from retriever.core.types import Encoded

K, EACH, D = 2, 20, 12


@pytest.fixture
def kind():
    labels = [f"answer {row % K}" for row in range(K * EACH)]
    return Kind("colour", "Which colour?", [f"text {row}" for row in range(K * EACH)], labels)


@pytest.fixture
def vectors():
    """The plain reader's tell the answers, those under the question tell nothing."""
    generator = np.random.default_rng(0)
    labels = np.arange(K * EACH) % K
    corners = 3 * generator.normal(size=(K, D))
    noise = [normalise(generator.normal(size=(K * EACH, D))) for _ in range(2)]
    plain = normalise(generator.normal(size=(K * EACH, D)) + corners[labels])
    return Read(labels, *noise, plain, normalise(generator.normal(size=(K, D))), normalise(corners))


def test_examples_are_never_judged(kind, vectors):
    (first, second) = drawn(kind, vectors, 3, 2)
    assert np.intersect1d(first.examples, first.judged).size == 0
    assert np.bincount(vectors.labels[first.examples]).tolist() == [3, 3]
    assert len(first.judged) == K * EACH - 6
    assert first.examples.tolist() != second.examples.tolist()
    assert list(drawn(kind, vectors, 11, 2)) == []


def test_each_method_is_told_from_the_others(kind, vectors):
    found = measured(kind, vectors, {"before": untaught, "taught": taught, "logistic": logistic}, [3, 10], 2)
    ten = found["examples"]["10"]
    assert ten["taught"]["accuracy"] > 90 > ten["before"]["accuracy"]
    assert ten["logistic"]["accuracy"] > 90
    assert ten["taught"]["triplets"] > ten["before"]["triplets"] + 20
    assert ten["before"]["triplets"] == pytest.approx(50, abs=8)
    assert found["followed"] is (found["asked"] - found["unasked"] >= 5)


def test_a_method_that_takes_more_examples_is_left_out_of_what_it_cannot_learn(kind, vectors):
    def picky(draw):
        return None if len(draw.examples) < 20 else taught(draw)

    one = measured(kind, vectors, {"taught": taught, "picky": picky}, [3, 10], 1)
    assert [list(one["examples"][number]) for number in ("3", "10")] == [["taught"], ["taught", "picky"]]
    other = measured(kind, vectors, {"taught": taught}, [3, 10], 1)
    (group,) = [each for each in means([one, other]).values() if each["kinds"]]
    assert group["examples"]["10"]["picky"]["accuracy"] == one["examples"]["10"]["picky"]["accuracy"]


def test_fine_tuning_needs_as_many_examples_as_the_command(kind, vectors):
    from teach_training import finetuned

    (draw,) = drawn(kind, vectors, 3, 1)
    assert finetuned(draw) is None


def test_means_are_of_the_kinds_that_were_measured(kind, vectors):
    one = measured(kind, vectors, {"taught": taught}, [3, 11], 1)
    report = means([{**one, "followed": False}, {**one, "followed": False}])
    assert report["followed"] == {"kinds": 0, "examples": {}}
    assert report["not followed"]["kinds"] == 2
    assert report["not followed"]["examples"]["3"]["taught"]["accuracy"] == one["examples"]["3"]["taught"]["accuracy"]
    assert report["not followed"]["examples"]["11"] == {}


def report_of(one):
    return {
        "options": {"draws": 1},
        "machine": {"date": "2026-11-23T00:00:00", "cpu": "a processor"},
        "fingerprint": "f" * 64,
        "means": means([one]),
        "kinds": [one],
    }


def test_the_page_shows_every_mean_and_kind(kind, vectors, tmp_path):
    assert "Not measured yet" in "".join(section(tmp_path / "none.json"))
    one = measured(kind, vectors, {"before": untaught, "taught": taught}, [3, 11], 1)
    (tmp_path / "teach.json").write_text(json.dumps(report_of(one)))
    lines = section(tmp_path / "teach.json")
    scores = one["examples"]["3"]["taught"]
    (row,) = [line for line in lines if "| 3 | taught |" in line]
    assert f"| {scores['accuracy']:.1f} | {scores['triplets']:.1f} |" in row
    (row,) = [line for line in lines if line.startswith("| colour |")]
    assert row.endswith(f"| {scores['triplets']:.1f} | - |")


def test_the_page_shows_peers_that_were_measured(kind, vectors, tmp_path):
    one = measured(kind, vectors, {"taught": taught, "a peer": untaught}, [3], 1)
    report = {**report_of(one), "note": "on a busy machine."}
    (tmp_path / "teach.json").write_text(json.dumps(report))
    assert "on a busy machine." not in "".join(section(tmp_path / "teach.json"))
    (tmp_path / "teach_peers.json").write_text(json.dumps(report))
    lines = section(tmp_path / "teach.json")
    assert "1 draw a kind; on a busy machine." in "".join(lines)
    assert len([line for line in lines if "| 3 | a peer |" in line]) == 2
    assert "Kinds: colour." in lines


class TellsAnswers(Encoder):
    """A plain reader whose vectors are noise before it is tuned, and tell the answer afterwards."""

    spec = EncoderSpec("noise", D)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        noise = np.random.default_rng(len(texts)).normal(size=(len(texts), D)).astype(np.float32)
        return [Encoded(normalise(noise), [[] for _ in texts]) for _ in instructions]

    def tune(self, texts, labels, *, steps, on_step=None):
        return Tuning(b"tuned", {"steps": steps})

    def tuned(self, tuning):
        other = TellsAnswers()
        other.spec = EncoderSpec(tuning.fingerprint("noise"), D)
        other.encode_views = other.told
        return other

    def told(self, texts, instructions, *, words=0, on_tokens=None):
        rows = np.stack([np.eye(D, dtype=np.float32)[int(text.split()[-1]) % K] for text in texts])
        return [Encoded(rows, [[] for _ in texts]) for _ in instructions]


def test_a_reader_that_was_tuned_answers_for_texts_it_never_saw(kind, vectors):
    dull = replace(vectors, plain=vectors.asked, plain_names=vectors.names)
    one = measured(kind, dull, {"taught": taught, "tuned": partial(tuned, TellsAnswers())}, [10], 1)
    scores = one["examples"]["10"]
    assert scores["tuned"]["accuracy"] == 100 > scores["taught"]["accuracy"] + 20


def test_the_page_shows_fine_tuning_where_it_was_measured(kind, vectors, tmp_path):
    one = measured(kind, vectors, {"taught": taught, "tuned": untaught}, [3], 1)
    report = {**report_of(one), "note": "on one core."}
    (tmp_path / "teach.json").write_text(json.dumps(report_of(measured(kind, vectors, {"taught": taught}, [3], 1))))
    (tmp_path / "teach_tuned.json").write_text(json.dumps(report))
    lines = section(tmp_path / "teach.json")
    assert "1 draw a kind; on one core." in lines
    (row,) = [line for line in lines if "| 3 | taught, `--tune` |" in line]
    assert f"| {one['examples']['3']['tuned']['triplets']:.1f} |" in row
