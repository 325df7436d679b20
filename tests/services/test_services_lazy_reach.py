import pytest

from retriever.core.types import Document
from retriever.services import index_status
from retriever.services.lazy_reach import lazy_reach, measured
from retriever.services.results import LazyReach
from retriever.services.searching import PROMPT_TOKENS, TOKEN_BUDGET

TABLE = [
    {
        "fingerprint": "f",
        "encoder": "default",
        "corpora": [{"name": "reviews"}, {"name": "passages"}],
        "curve": [
            {"candidates": 10, "agreement": 0.4},
            {"candidates": 50, "agreement": 0.6},
            {"candidates": 100, "agreement": 0.9},
            {"candidates": 200, "agreement": 1.0},
        ],
    }
]


def tokens(candidates):
    """How long texts are when the budget reads so many."""
    return TOKEN_BUDGET / candidates - PROMPT_TOKENS


@pytest.mark.parametrize(
    ("candidates", "agreement"), [(10, 0.4), (30, 0.5), (50, 0.6), (75, 0.75), (200, 1.0), (5, 0.4), (300, 1.0)]
)
def test_agreement_is_read_between_what_was_measured(candidates, agreement):
    found = lazy_reach("f", 10_000, tokens(candidates) - 1e-6, TABLE)
    assert found == LazyReach(candidates, agreement, 0.95, 150, ["reviews", "passages"])


def test_what_was_not_reached_is_not_promised():
    table = [{**TABLE[0], "curve": TABLE[0]["curve"][:3]}]
    assert lazy_reach("f", 10_000, 80, table).wanted_candidates is None
    table = [{**TABLE[0], "curve": [{"candidates": 10, "agreement": 0.97}]}]
    assert lazy_reach("f", 10_000, 80, table).wanted_candidates == 10


def test_an_encoder_that_was_not_measured_has_no_figures():
    assert lazy_reach("g", 10_000, tokens(100) - 1e-6, TABLE) == LazyReach(100, None, 0.95, None, ())


def test_where_every_text_is_read_the_view_is_complete():
    assert lazy_reach("g", 100, tokens(101), TABLE) == LazyReach(100, 1.0, 0.95, 100, ())
    assert lazy_reach("g", 101, tokens(100), TABLE).agreement is None


def test_status_tells_what_searches_reach(index, encoder, monkeypatch):
    index.add([Document(f"d{row}", f"{row:03}" + "x" * (17 if row % 2 else 37)) for row in range(400)])
    reads = int(TOKEN_BUDGET / (30 / 4 + PROMPT_TOKENS))
    assert index.status().lazy == LazyReach(reads, None, 0.95, None, ())
    monkeypatch.setattr(index_status, "measured", lambda: [{**TABLE[0], "fingerprint": encoder.fingerprint}])
    assert index.status().lazy == LazyReach(reads, 1.0, 0.95, 150, ["reviews", "passages"])
    assert index.status().to_json()["lazy"]["wanted_candidates"] == 150


def test_long_texts_count_as_far_as_they_are_read(index):
    index.add([Document(f"d{row}", f"{row}" + "x" * 10_000) for row in range(30)])
    assert index.status().lazy.candidates == int(TOKEN_BUDGET / (512 + PROMPT_TOKENS))


def test_what_is_shipped_is_well_formed():
    for one in measured():
        assert {"fingerprint", "encoder", "corpora", "curve"} <= set(one)
        counts = [point["candidates"] for point in one["curve"]]
        assert counts == sorted(set(counts))
        assert all(0 <= point["agreement"] <= 1 for point in one["curve"])
