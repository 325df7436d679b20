import numpy as np
import pytest
from preview import K, Late, base_hits, compare, lazy_hits, measured, preview, preview_hits

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.requests import SearchOptions
from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.index.search import centering
from retriever.workspace import Index

DIM, TEXTS, QUERIES = 8, 60, 5
LATER = "What else?"
GENERATOR = np.random.default_rng(3)
ROWS = [f"text {row}" for row in range(TEXTS)] + [f"query {row}" for row in range(QUERIES)]
BASE = normalise(GENERATOR.normal(size=(len(ROWS), DIM)))
TURN = np.linalg.qr(GENERATOR.normal(size=(DIM, DIM)))[0].astype(np.float32)


class Turning(Encoder):
    """Under the instruction every vector is turned by the same orthogonal matrix."""

    spec = EncoderSpec("turning".ljust(64, "0"), DIM)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.rows(texts, one), [[] for _ in texts]) for one in instructions]

    def rows(self, texts, instruction):
        rows = BASE[[ROWS.index(text) for text in texts]].reshape(-1, DIM)
        return rows @ TURN if instruction else rows

    def count_tokens(self, texts):
        return [1] * len(texts)


@pytest.fixture
def late():
    turned = BASE @ TURN
    return Late(BASE[:TEXTS], turned[:TEXTS], BASE[TEXTS:], turned[TEXTS:], np.eye(QUERIES, TEXTS, dtype=bool))


@pytest.mark.parametrize("budget", [10, 25])
def test_lazy_hits_are_the_products_own(late, budget, tmp_path, monkeypatch):
    monkeypatch.setattr(centering, "FEW", TEXTS + 1)  # by the cosine alone
    expected = lazy_hits(late, budget, 0)
    options = SearchOptions(token_budget=budget, prompt_tokens=0)
    with Index(tmp_path / "index", encoder=Turning(), search_options=options) as index:
        index.add([Document(f"{row:02}", text) for row, text in enumerate(ROWS[:TEXTS])])
        for row, text in enumerate(ROWS[TEXTS:]):
            found = index.search(text, instruction=LATER, k=TEXTS, mode="dense")
            assert [int(hit.document.id) for hit in found.hits[:K]] == expected[row][:K]
            index.drop_views([LATER])


def test_a_preview_finds_a_linear_change(late):
    moved = preview(late.base, late.exact, np.arange(20))
    assert (moved * late.exact).sum(axis=1).min() > 0.99
    agreement = measured(late, preview_hits(late, 20, 0))["agreement"].mean()
    assert agreement > measured(late, base_hits(late, 20, 0))["agreement"].mean() + 0.3
    assert agreement > measured(late, lazy_hits(late, 20, 0))["agreement"].mean()


def test_what_is_found_is_held_to_the_complete_view_and_the_labels(late):
    exact = [np.argsort(-(late.exact @ asked)).tolist() for asked in late.asked]
    found = measured(late, exact)
    assert found["agreement"] == pytest.approx(1)
    assert found["ndcg"] == pytest.approx(1)
    for row, ids in enumerate(exact):  # one text has the query's label
        place = ids.index(row) + 1
        assert found["labels"][row] == pytest.approx(1 / np.log2(place + 1) if place <= K else 0)
    halves = [[*ids[:5], *ids[-5:]] for ids in exact]
    assert measured(late, halves)["agreement"] == pytest.approx(0.5)


def test_a_comparison_has_means_and_paired_differences(late):
    found = compare([late], TEXTS, range(2))
    assert found["lazy"]["agreement"] == 1
    assert found["above_lazy"]["base"]["agreement"][2] < 0
    few = compare([late], 20, range(2))
    value, low, high = few["above_lazy"]["preview"]["agreement"]
    assert value == pytest.approx(few["preview"]["agreement"] - few["lazy"]["agreement"], abs=1e-3)
    assert low <= value <= high
