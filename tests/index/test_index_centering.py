import numpy as np
import pytest
from index_fakes import MOOD, FakeEncoder

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.similarity import normalise
from retriever.core.types import Document
from retriever.index.search import centering
from retriever.workspace import Index


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


def ids(result):
    return [hit.document.id for hit in result.hits]


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
        held = np.isin(order, store.vectors.content_ids(view.view_id, through=store.vectors.last_id(view.view_id)))
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
