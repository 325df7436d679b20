import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, ids

from retriever.core.errors import IndexDamagedError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.similarity import normalise, pair_quantiles, percentile
from retriever.core.types import Document
from retriever.index.search import calibration, centering
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


# What is typical of a view, and is taken off.


class Murmur(FakeEncoder):
    """Every text murmurs the same; one that says "food" or "staff" does so louder than a query."""

    def vectors(self, texts, instruction=""):
        rows = np.zeros((len(texts), self.dim), np.float32)
        rows[:, 0] = 1
        for row, text in zip(rows, texts, strict=True):
            words = text.split()
            row[1 + len(text) % 7] = 0.1
            for place, word in ((10, "food"), (11, "staff")):
                row[place] = (0.3 if words[0] == "query" else 1.5) * (word in words)
        return normalise(rows)


@pytest.fixture
def murmuring(tmp_path):
    rows = [Document(f"n{row:02}", f"nothing {'x' * row}") for row in range(40)]
    with Index(tmp_path / "index", encoder=Murmur()) as index:
        index.add([*rows, *[Document(f"f{row}", f"food {row}") for row in range(3)], Document("s", "staff")])
        yield index


@pytest.mark.parametrize("complete", [True, False])
def test_a_document_that_answers_comes_before_those_that_are_only_typical(murmuring, complete):
    if complete:
        murmuring.upkeep.complete([MOOD])
    answers = list(murmuring.search_progressively(SearchRequest("query food", instruction=MOOD, k=3, mode="dense")))
    assert [one.path for one in answers] == (["complete"] if complete else ["base", "complete"])
    result = answers[-1]
    assert ids(result) == ["f0", "f1", "f2"]
    nearest = max(hit.score for hit in murmuring.search("query food", instruction=MOOD, k=44, mode="dense").hits)
    assert nearest > max(hit.score for hit in result.hits)  # the cosine alone would have put others first
    assert {hit.document.id[0] for hit in murmuring.search("query food", k=3, mode="dense").hits} == {"n"}


def test_the_score_stays_the_cosine_and_the_order_is_another_number(murmuring):
    murmuring.upkeep.complete([MOOD])
    hits = murmuring.search("query staff", instruction=MOOD, k=5, mode="dense").hits
    query = Murmur().vectors(["query staff"], MOOD)[0]
    for hit in hits:
        assert hit.score == pytest.approx(float(Murmur().vectors([hit.document.text], MOOD)[0] @ query), abs=1e-6)
    assert [hit.fused for hit in hits] == sorted((hit.fused for hit in hits), reverse=True)
    assert hits[0].document.id == "s"
    assert hits[0].fused < hits[0].score


def test_what_is_typical_is_the_mean_of_the_view(index):
    texts = [f"{word} {row}" for row in range(10) for word in ("love", "hate", "sad", "toy")]
    index.add([Document(text, text) for text in texts], instructions=[MOOD])
    store, everything = index._opened.store, index._opened.store.documents.live_contents()
    base, mood = sorted((found for found in store.views.all()), key=lambda view: bool(view.key.instruction))
    mean = FakeEncoder().vectors(texts, MOOD).mean(axis=0)
    assert centering.shift(store, mood, everything) == pytest.approx((mean @ mean) * mean, abs=1e-6)
    assert index._opened.views.loaded(mood).shift == pytest.approx((mean @ mean) * mean, abs=1e-6)
    assert not index._opened.views.loaded(base).shift.any()
    index.delete(texts[29:])  # in an index of so few nothing is typical
    assert len(index._opened.views.loaded(mood).contents.ids) == 29
    assert not index._opened.views.loaded(mood).shift.any()


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("rows", [10, 40])
def test_what_earlier_queries_read_has_no_say_in_a_view_that_lacks_most(tmp_path, rows):
    texts = [f"{word} {row}" for row in range(rows) for word in ("love", "hate", "sad", "toy")]
    options = SearchOptions(rounds=1, token_budget=6500 if rows == 10 else 1800, candidates=3)
    with Index(tmp_path / "index", encoder=FakeEncoder(), search_options=options) as index:
        index.add([Document(text, text) for text in texts])
        index.search("love", instruction=MOOD, k=1, mode="hybrid")
        store = index._opened.store
        (view,) = [found for found in store.views.all() if found.key.instruction]
        order = centering.sample(store.documents.live_contents(), len(texts))
        held = np.isin(order, store.vectors.held(view.view_id))
        first = int(held.argmin())
        assert centering.FIRST <= first < held.sum() < len(texts)
        used = held if rows == 10 else np.arange(len(order)) < first  # of forty texts most are read
        assert (held.sum() >= len(texts) / 2) == (rows == 10)
        vectors = FakeEncoder().vectors([texts[one - 1] for one in order.tolist()], MOOD)
        mean = vectors[used].mean(axis=0)
        assert index._opened.views.loaded(view).shift == pytest.approx((mean @ mean) * mean, abs=1e-6)
        assert not np.allclose(vectors[:first].mean(axis=0), vectors[held].mean(axis=0))


def test_a_sample_is_of_all_ages_and_keeps_when_others_come_and_go():
    contents = np.arange(1, 10_001)
    chosen = centering.sample(contents, 1000)
    assert len(set(chosen.tolist())) == 1000
    tenths = np.bincount((chosen - 1) // 1000, minlength=10)
    assert tenths.min() > 80
    more = centering.sample(np.append(contents, np.arange(10_001, 10_101)), 1000)
    assert len(set(more.tolist()) & set(chosen.tolist())) >= 985
    assert centering.sample(contents, 16).tolist() == chosen[:16].tolist()
