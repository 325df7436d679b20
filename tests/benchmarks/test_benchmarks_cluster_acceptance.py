import itertools
import json

import cluster_acceptance
import numpy as np
import pytest
from cluster_acceptance import SYNONYMS, measured, names_label, page, questions, reviews
from mixture import SOURCES

from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Encoded
from retriever.evaluation.labelled import LabelledText

CATEGORIES, POLARITIES = ("book", "electronics", "home", "toy"), ("negative", "positive")
TEXTS = [
    LabelledText(f"{category} {polarity} {'x' * row}", (category, polarity))
    for category in CATEGORIES
    for polarity in POLARITIES
    for row in range(4)
]
ANSWERS = {"book": "novels", "electronics": "gadget", "home": "zebra", "toy": "toy", "negative": "bad"}


class Labels(Encoder):
    """Sees the label that the instruction asks for, or no label at all without an instruction."""

    spec = EncoderSpec("labels".ljust(64, "0"), 6)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.rows(texts, one), self.answers(texts, one)) for one in instructions]

    def rows(self, texts, instruction):
        seen = self._seen(instruction)
        rows = np.array([[float(word in text.split()) for word in seen] + [0.1] for text in texts], dtype=np.float32)
        rows = np.pad(rows, ((0, 0), (0, self.dim - rows.shape[1])))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def answers(self, texts, instruction):
        seen = self._seen(instruction)
        return [[ANSWERS.get(word, word) for word in text.split() if word in seen] for text in texts]

    def _seen(self, instruction):
        category, polarity = (one.instruction for one in questions())
        return {category: CATEGORIES, polarity: POLARITIES}.get(instruction, ())


@pytest.fixture
def synonyms():
    return json.loads(SYNONYMS.read_text())


def test_clusters_that_follow_the_instruction_score_full_and_wrong_names_count_as_wrong(synonyms):
    found = measured("fake", Labels(), TEXTS, synonyms, seed=0)
    category, polarity = found["questions"]
    assert (category["v_measure"]["value"], category["v_measure_of_these_clusters"]) == (100, 100)
    assert polarity["v_measure"] == {"value": 100, "low": 100, "high": 100}
    assert {one["label"]: (one["share"], one["size"], one["named"]) for one in category["clusters"]} == {
        "book": (1, 8, True),
        "electronics": (1, 8, True),
        "home": (1, 8, False),
        "toy": (1, 8, True),
    }
    assert {one["label"]: one["keywords"] for one in polarity["clusters"]} == {
        "negative": ["bad"],
        "positive": ["positive"],
    }
    assert found["named_share"] == round(5 / 6, 4)


def test_without_instructions_an_encoder_that_sees_no_label_finds_none(synonyms):
    texts = [LabelledText(f"{one.text} {row}", one.labels) for row, one in enumerate(TEXTS)]
    found = measured("floor", Labels(), texts, synonyms, seed=0, instructed=False)
    assert all(one["v_measure_of_these_clusters"] == 0 for one in found["questions"])
    assert all(one["keywords"] == one["text_keywords"] for found in found["questions"] for one in found["clusters"])


def test_the_page_lists_every_cluster_and_says_which_names_are_wrong(synonyms):
    found = measured("fake", Labels(), TEXTS, synonyms, seed=0)
    text = page({"corpus": {"texts": len(TEXTS)}, "encoders": [found]})
    rows = [line for line in text.splitlines() if line.startswith("| ") and "100%" in line]
    assert "| fake | 100.0 [100.0, 100.0] | 100.0 [100.0, 100.0] | 83% |" in text
    assert "| zebra | 8 | home (100%) | no | zebra |" in rows
    assert len(rows) == 6


def test_a_plural_names_a_label_and_a_part_of_a_word_does_not():
    assert names_label(["x", "toys"], ["toy"])
    assert names_label(["toy"], ["toy"])
    assert not names_label(["toyota", "to"], ["toy"])


@pytest.fixture
def data(tmp_path):
    def jsonl(name, rows):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    for file in {source.file for source in SOURCES}:
        jsonl(file, [{"text": f"nothing of {file}", "split": "train"}])
    cells = itertools.product(CATEGORIES, (*POLARITIES, "neutral"))
    rows = [
        {"text": f"{one} {other} {row}", "split": "test", "labels": {"category": one, "polarity": other}}
        for one, other in cells
        for row in range(3)
    ]
    jsonl("reviews_dmaste.jsonl", [*rows, {**rows[0], "text": "trained", "split": "train"}])
    jsonl("aspects_dmaste.jsonl", [{"text": "Toy  positive 0", "split": "train"}])
    return tmp_path


def test_reviews_are_balanced_and_stand_in_no_training_part(data):
    texts = reviews(data, seed=0)
    cells = {labels: [one.text for one in texts if one.labels == labels] for labels in {one.labels for one in texts}}
    assert set(cells) == set(itertools.product(CATEGORIES, POLARITIES))
    assert {len(cell) for cell in cells.values()} == {2}
    assert sorted(cells["toy", "positive"]) == ["toy positive 1", "toy positive 2"]
    assert len(reviews(data, seed=0, limit=8)) == 8


def test_one_command_writes_both_files(data, monkeypatch, capsys):
    loaded = []
    monkeypatch.setattr(cluster_acceptance, "load_encoder", lambda name: loaded.append(name) or Labels())
    output, written = data / "out.json", data / "clusters.md"
    command = ["cluster_acceptance.py", str(data), "--encoder", "mine", "--output", str(output), "--page", str(written)]
    monkeypatch.setattr("sys.argv", command)
    cluster_acceptance.main()
    report = json.loads(output.read_text())
    assert loaded == [one["encoder"] for one in report["encoders"]] == ["mine", "minilm"]
    assert [one["instructed"] for one in report["encoders"]] == [True, False]
    assert report["corpus"]["texts"] == 16
    assert written.read_text() == page(report)
