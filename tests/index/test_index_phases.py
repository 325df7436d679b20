"""The phases of a query: each search is made once, what did not change is not loaded again, and nothing mixes."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, documents, found

from retriever.core.errors import UsageError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index.search.rounds import Rounds
from retriever.index.search.view_searcher import Tail
from retriever.store.documents import Documents
from retriever.store.vectors import VectorBatch, Vectors
from retriever.vectors.exact import ExactIndex
from retriever.vectors.faiss.backend import FaissBackend
from retriever.vectors.faiss.index import FaissIndex
from retriever.workspace import Index


@pytest.fixture
def counted(monkeypatch):
    """Count the searches and what is read of the database; `clear` begins anew."""
    calls = []

    def count(owner, name, what):
        real = getattr(owner, name)

        def counting(self, *given, **named):
            calls.append(what(*given))
            return real(self, *given, **named)

        monkeypatch.setattr(owner, name, counting)

    count(FaissIndex, "search", lambda queries, *_: f"vectors {len(queries)}")
    count(Documents, "lexical", lambda *_: "words")
    count(Documents, "live_contents", lambda *_: "contents")
    real = Vectors.scan

    def scan(self, view_id, **named):
        for batch in real(self, view_id, **named):
            calls.append(f"view {view_id}: {len(batch.content_ids)}")
            yield batch

    monkeypatch.setattr(Vectors, "scan", scan)
    return calls


@pytest.fixture
def narrow(path):
    """Give an index of sixty texts whose lazy searches read few."""
    rng = random.Random(1)
    with Index(path, encoder=FakeEncoder(), search_options=SearchOptions(rounds=1, candidates=2)) as index:
        index.add([Document(f"d{row:02}", f"{' '.join(rng.sample(ALL_WORDS, 4))} {row}") for row in range(200)])
        yield index


def test_a_lazy_search_makes_each_search_once_and_loads_what_is_new(narrow, counted):
    narrow.search("kettle love", instruction=MOOD, mode="hybrid", k=1)
    (base, mood) = narrow.views()
    for query in ("toy hate", "lamp sad", "knife calm"):
        before = narrow._opened.store.vectors.count(mood.view)
        counted.clear()
        assert narrow.search(query, instruction=MOOD, mode="hybrid", k=1).path == "lazy"
        added = narrow._opened.store.vectors.count(mood.view) - before
        assert added
        assert counted.count("words") == 1
        assert counted.count("vectors 2") >= 1  # the base view, under either instruction; again where many tie
        assert [one for one in counted if one.startswith("view")] == [f"view {mood.view}: {added}"]
        assert "contents" not in counted
    counted.clear()
    narrow.search("toy hate", instruction=MOOD, mode="dense", k=1)
    assert not [one for one in counted if one.startswith(("view", "contents", "words"))]
    assert base.vectors == 200


def test_a_lazy_search_searches_the_base_view_once(counted, index):
    index.add([Document(f"d{row}", f"{word} {row}") for row, word in enumerate(ALL_WORDS)])
    index.search("toy", instruction=MOOD, mode="hybrid")
    index.upkeep.drop_views([MOOD])
    counted.clear()
    index.search("toy", instruction=MOOD, mode="hybrid")
    assert sorted(one for one in counted if one.startswith(("vectors", "words"))) == [
        "vectors 1",  # the view of the instruction
        "vectors 2",  # the base view
        "words",
    ]


def test_a_document_that_leaves_the_filter_between_two_answers_is_no_hit_of_the_last(index, path):
    index.add(
        [Document("a", "toy sad", {"n": 1}), Document("b", "toy love", {"n": 1}), Document("c", "lamp", {"n": 2})]
    )
    answers = index.search_progressively(SearchRequest("toy", instruction=MOOD, where="n = 1"))
    assert {hit.document.id for hit in next(answers).hits} == {"a", "b"}
    with Index(path, encoder=FakeEncoder()) as other:
        other.add([Document("a", "toy sad", {"n": 3}), Document("c", "lamp", {"n": 1})])
    *_, last = answers
    assert {hit.document.id for hit in last.hits} == {"b", "c"}


def test_what_another_search_reads_meanwhile_counts(index, path, monkeypatch):
    index.add(documents("toy sad", "toy love", "lamp love"))
    read = Rounds._embed
    with Index(path, encoder=FakeEncoder()) as other:

        def late(*given):
            monkeypatch.setattr(Rounds, "_embed", read)
            other.search("toy", instruction=MOOD)
            return read(*given)

        monkeypatch.setattr(Rounds, "_embed", late)
        result = index.search("love", instruction=MOOD, mode="dense")
    assert index._opened.sources.encoders.question.read[3:] == []  # the other has read all
    assert (result.path, found(result)) == ("complete", [("b", 1), ("c", 1), ("a", 1 - 2 / 8)])


@pytest.mark.parametrize("seed", range(6))
def test_a_view_that_grows_shrinks_and_loses_documents_is_as_one_opened_anew(path, seed):
    rng = random.Random(seed)
    options = SearchOptions(rounds=1, candidates=3, token_budget=1500)
    pool = [Document(f"d{row:02}", f"{' '.join(rng.sample(ALL_WORDS, 3))} {row}") for row in range(80)]
    with Index(path, encoder=FakeEncoder(), search_options=options) as kept:
        kept.add(pool[:40])
        for _ in range(25):
            with Index(path, encoder=FakeEncoder(), search_options=options) as other:
                step = rng.choice(
                    ["search", "search", "search", "add", "delete", "limit", "compact", "complete", "drop"]
                )
                by = rng.choice([kept, other])
                query = " ".join(rng.sample(ALL_WORDS, 4))
                if step == "search":
                    by.search(query, instruction=MOOD, k=2)
                elif step == "add":
                    by.add(rng.sample(pool, 6))
                elif step == "delete":
                    by.delete([one.id for one in rng.sample(pool, 4)])
                elif step == "limit":
                    by.upkeep.lazy_limit = rng.choice([0, 300, 900])
                    by.upkeep.lazy_limit = None
                elif step == "compact":
                    by.upkeep.repair()
                elif step == "complete" and rng.random() < 0.3:
                    by.upkeep.complete([MOOD])
                elif step == "drop" and len(by.views()) > 1:
                    by.upkeep.drop_views([MOOD])
            with Index(path, encoder=FakeEncoder(), search_options=options) as fresh:
                views = fresh._opened.store.views.all()
                query = FakeEncoder().vectors([query])
                for view in views:
                    ours, theirs = kept._opened.views.loaded(view), fresh._opened.views.loaded(view)
                    assert (ours.held, ours.complete, ours.contents.ids.tolist()) == (
                        theirs.held,
                        theirs.complete,
                        theirs.contents.ids.tolist(),
                    )
                    assert ours.lacking().tolist() == fresh._opened.store.vectors.pending(view.view_id).tolist()
                    assert ours.shift.tolist() == theirs.shift.tolist()
                    one, another = ours.search(query, 90), theirs.search(query, 90)
                    assert one.ids.tolist() == another.ids.tolist()
                    assert one.scores.tolist() == another.scores.tolist()


def test_a_tail_of_many_segments_finds_what_one_index_would():
    rng = np.random.default_rng(0)
    vectors = rng.choice([-0.25, 0.25], size=(700, 16)).astype(np.float32)
    ids = rng.permutation(5000)[:700].astype(np.int64)
    tail, at = Tail(FaissBackend(Path(), "cpu").hold), 0
    for size in [1, 1, 2, 40, 3, 3, 200, 50, 50, 50, 300]:
        part = slice(at, at + size)
        tail, before = tail.grown([VectorBatch(at + size - 1, ids[part], vectors[part])]), tail
        assert tail.segments[-1] not in before.segments  # what others search is never changed
        at += size
    assert at == 700
    sizes = [one.index.size for one in tail.segments]
    assert sum(sizes) == 700
    assert all(left >= 2 * right for left, right in pairwise(sizes))
    exact = ExactIndex(ids, vectors).search(vectors[:5], 700)
    held = np.concatenate([one.search(vectors[:5], 700).ids for one in tail.indexes], axis=1)
    assert sorted(held[held >= 0].tolist()) == sorted(ids.tolist() * 5)
    best = {int(id): float(score) for id, score in zip(exact.ids[0], exact.scores[0], strict=True)}
    for part in tail.indexes:
        got = part.search(vectors[:1], part.size)
        assert [best[int(id)] for id in got.ids[0]] == got.scores[0].tolist()


def test_no_instruction_is_the_default_one(index):
    index.add(documents("toy", "lamp"))
    assert found(index.search("toy", instruction=None, mode="dense")) == found(index.search("toy", mode="dense"))
    assert index.search("toy", instruction="").instruction is None
    assert found(index.search(like="a", instruction=None)) == [("b", 1 - 2 / 8)]


@pytest.mark.parametrize(
    "wrong",
    [{"candidates": 0}, {"token_budget": 0}, {"prompt_tokens": -1}, {"typical_share": 2}, {"word_weight": -0.1},
     {"plain_weight": -0.1}],
)  # fmt: skip
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError, match="cannot be used"):
        SearchOptions(**wrong)
