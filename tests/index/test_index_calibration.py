import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder

from retriever.core.errors import IndexDamagedError
from retriever.core.requests import SearchRequest
from retriever.core.similarity import pair_quantiles, percentile
from retriever.core.types import Document
from retriever.index.search import calibration
from retriever.store.database import DATABASE
from retriever.workspace import Index

RNG = random.Random(0)
CORPUS = [Document(f"d{row:03}", f"{' '.join(RNG.sample(ALL_WORDS, 12))} {row}") for row in range(60)]


@pytest.fixture
def full(index):
    index.add(CORPUS[:40], instructions=[MOOD])
    return index


def stored(index):
    return index._opened.store._db.rows("SELECT view_id, vectors FROM similarities ORDER BY view_id")


def test_a_hit_says_how_many_random_pairs_are_less_alike(full):
    hits = full.search("love happy", instruction=MOOD, mode="dense", k=40).hits
    vectors = FakeEncoder().vectors([one.text for one in CORPUS[:40]], MOOD)
    expected = pair_quantiles(vectors)
    for hit in hits:
        assert hit.percentile == pytest.approx(percentile(hit.score, expected), abs=1e-6)
    assert hits[0].percentile > 90 > hits[-1].percentile
    document = full.search("love happy", instruction=MOOD, mode="dense").to_json()
    assert document["hits"][0]["percentile"] == round(hits[0].percentile, 2)


def test_the_distribution_is_stored_and_read(full, path, monkeypatch):
    before = full.search("love", instruction=MOOD).hits
    assert stored(full) == [(2, 40)]
    monkeypatch.setattr(calibration, "drawn", None)  # not to be called
    with Index(path, encoder=FakeEncoder()) as again:
        assert again.search("love", instruction=MOOD).hits == before


def test_the_distribution_is_made_anew_when_the_view_has_grown_by_half(full):
    full.search("love", instruction=MOOD)
    full.add(CORPUS[40:59], instructions=[MOOD])
    full.search("love", instruction=MOOD)
    assert stored(full) == [(2, 40)]
    full.add(CORPUS[59:], instructions=[MOOD])
    full.search("love", instruction=MOOD)
    assert stored(full) == [(2, 60)]


def test_a_large_view_is_sampled_and_the_sample_is_always_the_same(full, monkeypatch):
    monkeypatch.setattr(calibration, "SAMPLE", 12)
    first, second = (calibration.drawn(full._opened.store, 2) for _ in range(2))
    np.testing.assert_array_equal(first.quantiles, second.quantiles)
    assert first.vectors == 40
    monkeypatch.undo()
    whole = calibration.drawn(full._opened.store, 2).quantiles
    assert not np.array_equal(first.quantiles, whole)
    assert abs(float(np.median(first.quantiles) - np.median(whole))) < 0.1


def test_few_vectors_say_nothing(index):
    index.add(CORPUS[:29])
    assert [hit.percentile for hit in index.search("love", mode="dense", k=2).hits] == [None, None]
    assert stored(index) == []


def test_words_alone_have_no_percentile(full):
    assert full.search("love", mode="lexical").hits[0].percentile is None


def test_both_answers_of_a_lazy_search_are_rated(index):
    index.add(CORPUS)
    first, last = (one for one in index.search_progressively(SearchRequest("love", instruction=MOOD)))
    assert (first.path, last.path) == ("base", "complete")
    assert all(hit.percentile is not None for hit in (*first.hits, *last.hits) if hit.score is not None)


def test_where_another_process_writes_the_distribution_is_not_stored_and_told_all_the_same(full):
    with sqlite3.connect(full.path / DATABASE, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert full.search("love", instruction=MOOD).hits[0].percentile is not None
        other.execute("ROLLBACK")
    assert stored(full) == []


def test_a_distribution_goes_with_its_view(full):
    full.search("love", instruction=MOOD)
    full.upkeep.drop_views([MOOD])
    assert stored(full) == []


def test_a_changed_distribution_is_damage_and_not_a_percentile(full):
    full.search("love", instruction=MOOD)
    with sqlite3.connect(full.path / DATABASE) as raw:
        raw.execute("UPDATE similarities SET quantiles = x'00'")
    raw.close()
    with (
        Index(full.path, encoder=FakeEncoder()) as again,
        pytest.raises(IndexDamagedError, match="similarity 2 is not what was stored"),
    ):
        again.search("love", instruction=MOOD)


class Contested(dict):
    """Gives nothing away until two threads want it."""

    def __init__(self, *given):
        super().__init__(*given)
        self._both = threading.Barrier(2)

    def popitem(self):
        self._both.wait(60)
        return super().popitem()

    def pop(self, *key):
        self._both.wait(60)
        return super().pop(*key)


def test_two_threads_may_store_what_was_drawn(full):
    rates = full._opened.views.calibration
    rates.of(2)
    rates._unsaved = Contested(rates._unsaved)
    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(rates.save) for _ in range(2)]:
            one.result(60)
    assert stored(full) == [(2, 40)]
