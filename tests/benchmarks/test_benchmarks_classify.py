"""What ships is what was measured, and the measures are what they say."""

import json
from pathlib import Path

import numpy as np
import pytest
from classify import Labelled, Vectors, f1_of_sets, judged, measured, nearest_cluster

from retriever.clusters.classifying import FLOOR, GAP, PLAIN, TAKEN_OFF
from retriever.core.similarity import normalise

MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks/results/classify.json").read_text())
CHOSEN = json.loads((Path(__file__).parents[2] / "benchmarks/results/classify_choice.json").read_text())


@pytest.mark.parametrize("measured", [MEASURED, CHOSEN], ids=["test", "choice"])
def test_the_rules_are_those_that_were_measured(measured):
    assert measured["settings"] == {"taken_off": TAKEN_OFF, "plain": PLAIN, "floor": FLOOR, "gap": GAP}, (
        "retriever/clusters/classifying.py has other numbers than those measured: run benchmarks/classify.py again"
    )


@pytest.mark.model
def test_the_model_that_ships_is_the_one_the_floor_was_measured_with():
    from retriever import load_encoder

    assert load_encoder("default", device="cpu").fingerprint == MEASURED["fingerprint"] == CHOSEN["fingerprint"], (
        "the shipped model has changed since benchmarks/classify.py was run: run it again and look at FLOOR"
    )


def test_the_table_says_what_was_measured():
    page = (Path(__file__).parents[2] / "docs/evaluation.md").read_text(encoding="utf-8")
    assert MEASURED["fingerprint"][:12] in page
    for name, one in MEASURED["sets"].items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} | {one['texts']} |")]
        for way in ("retriever", "MiniLM", "nearest cluster"):
            assert f"{one[way]['accuracy']} ({one[way]['macro F1']})" in row


def test_a_choice_is_right_where_it_is_one_of_several_labels():
    truth = np.array([[True, True], [True, False], [False, True], [False, True]])
    assert judged(np.array([1, 0, 0, 1]), truth) == {"accuracy": 75.0, "macro F1": 73.3}
    assert f1_of_sets([(0, 1), (0,), (-1,), (0, 1)], truth) == {"micro F1": 80.0, "macro F1": 80.0}


def test_a_cluster_goes_to_the_name_that_fits_its_centroid():
    vectors = Vectors(*_planted())
    assert nearest_cluster(vectors, 2).tolist() == [0, 0, 0, 1, 1, 1]


def test_planted_categories_are_found_and_texts_without_one_told():
    labels = [["a"]] * 3 + [["b"]] * 3
    found = measured(Labelled("set", "question?", [f"text {row}" for row in range(6)], labels), Vectors(*_planted()))
    assert found["retriever"] == {"accuracy": 100.0, "macro F1": 100.0}
    assert found["MiniLM"]["accuracy"] == 0.0  # its names are planted the wrong way round
    assert (found["categories"], found["labels a text"]) == (["a", "b"], 1.0)


def _planted():
    texts = normalise(np.array([[1, 0.1 * row, 0] for row in range(3)] + [[0, 0.1 * row, 1] for row in range(3)]))
    names = normalise(np.array([[1, 0, 0.2], [0.2, 0, 1]]))
    return texts, names, texts, names[::-1].copy(), texts
