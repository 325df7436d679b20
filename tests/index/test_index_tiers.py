"""Hits under a question that is answered in words: texts that answer stand before those that do not."""

from itertools import chain, pairwise

import numpy as np
import pytest
from answer_fakes import NAME, FakeReader, loads
from asking_index import WHO, opened
from hypothesis import given
from hypothesis import strategies as st

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.core.unanswered import empty_answer
from retriever.index.indexing import IndexingOptions
from retriever.index.search.rankings import Ranking
from retriever.index.search.tiers import Tier, tiered

EMPTY = {"rug": "not said", "tent": "N/A.", "bike": "None", "book": '"not mentioned"'}
PRODUCTS = ["toy", "lamp", "shoe"]
TEXTS = [f"{product} of mine {row}" for row in range(6) for product in (*EMPTY, *PRODUCTS)]
PATHS = {
    "hybrid": {},
    "dense": {"mode": "dense"},
    "words": {"mode": "lexical"},
    "filter": {"where": "number > 5"},
    "filter by answers": {"where": "answer != 'shoe'"},
    "like": {"like": "t6", "query": None},
    "few hits": {"k": 4},
    "not judged": {"judge": False},
}


class Spelling(FakeReader):
    """Answers that nothing is said in several spellings."""

    def said(self, text, question):
        return EMPTY.get(text.split()[0]) or super().said(text, question)


@pytest.fixture
def reader(monkeypatch):
    return loads(monkeypatch, Spelling(PRODUCTS))


def indexed(path, texts=TEXTS, units=None, **options):
    index = opened(path, search_options=SearchOptions(costly_texts=9, costly_rounds=2, **options))
    rows = [Document(f"t{row}", text, {"number": row}) for row, text in enumerate(texts)]
    index.add(rows, options=None if units is None else IndexingOptions(units=units))
    index.teaching.read_by(WHO, NAME)
    return index


def searched(index, query="toy of mine", **options):
    """Give the last result of a search."""
    wanted = {"query": query, "instruction": WHO, "k": 60, **options}
    *_, last = index.search_progressively(SearchRequest(**wanted))
    return last


def empty(index, result):
    """Tell of every hit whether its text's answer is empty; one that was not read is open."""
    known = index.teaching.answers(WHO)
    return [empty_answer(known.get((hit.unit or hit.document).id, "open")) is not None for hit in result.hits]


@pytest.mark.parametrize("read", ["some", "all"])
@pytest.mark.parametrize("path", PATHS)
def test_an_empty_answer_stands_behind_all_others_on_every_path(tmp_path, reader, path, read):
    with indexed(tmp_path / "index") as index:
        if read == "all":
            index.teaching.read(WHO)
        else:
            searched(index)
        for result in (searched(index, **PATHS[path]), searched(index, **PATHS[path])):  # as it settles, and noted
            flags = empty(index, result)
            assert flags == sorted(flags)
            assert any(flags) or path == "few hits"
            assert not all(flags)
            assert [hit.fused for hit in result.hits] == sorted((hit.fused for hit in result.hits), reverse=True)


def test_a_first_answer_goes_by_what_is_known_of_the_texts_too(tmp_path, reader):
    with indexed(tmp_path / "index") as index:
        searched(index)
        first = next(index.search_progressively(SearchRequest("rug tent bike", instruction=WHO, k=60)))
        assert (first.final, first.path) == (False, "base")
        flags = empty(index, first)
        assert flags == sorted(flags)
        assert any(flags)


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_texts_that_answer_are_found_however_many_do_not(tmp_path, reader, mode):
    texts = [f"rug toy of mine {row}" for row in range(60)] + [f"shoe mine {row}" for row in range(3)]
    reader.said = lambda text, question: "not said" if "rug" in text else "shoe"
    with indexed(tmp_path / "index", texts, candidates=5) as index:
        index.teaching.read(WHO)
        found = searched(index, "rug toy mine", mode=mode, k=4)
        assert sorted(hit.document.id for hit in found.hits[:3]) == ["t60", "t61", "t62"]
        assert empty(index, found) == [False, False, False, True]


def test_a_review_is_as_good_as_its_best_sentence(tmp_path, reader):
    texts = ["Rug is here. Toy for him.", "Rug too. Tent too.", "Lamp it is. Bike it was."]
    reader.said = lambda text, question: EMPTY.get(text.split()[0].lower()) or text.split()[0].lower()
    with indexed(tmp_path / "index", texts, units="sentences") as index:
        index.teaching.read(WHO)
        found = searched(index, "toy")
        assert [hit.document.id for hit in found.hits] == ["t0", "t2", "t1"]
        assert [hit.words[0] for hit in found.hits[:2]] == ["toy", "lamp"]


@pytest.mark.parametrize(
    ("query", "first", "second"),
    [("not said", ["rug", "tent", "book"], ["bike"]), ("nothing", ["bike"], ["rug", "tent", "book"])],
)
def test_a_query_for_empty_answers_finds_these_first(tmp_path, reader, query, first, second):
    with indexed(tmp_path / "index") as index:
        index.teaching.read(WHO)
        found = [hit.document.text.split()[0] for hit in searched(index, query).hits]
        assert sorted(found[: 6 * len(first)]) == sorted(first * 6)
        assert sorted(found[6 * len(first) : 24]) == sorted(second * 6)
        assert reader.judged == []


@pytest.mark.parametrize(("answering", "rounds"), [({39, 40, 41}, 4), (set(range(42)), 2), (set(), 5)])
def test_a_list_with_texts_that_do_not_answer_reads_on(tmp_path, monkeypatch, reader, answering, rounds):
    monkeypatch.setattr("retriever.index.search.searcher.same_hits", lambda before, after: True)
    texts = [f"toy {'x' if row < 39 else 'mine'} {row}" for row in range(42)]  # all are equally near
    reader.said = lambda text, question: "toy" if int(text.split()[2]) in answering else "not said"
    options = SearchOptions(costly_texts=10, costly_rounds=5, candidates=42)
    with opened(tmp_path / "index", search_options=options) as index:
        index.add(Document(f"t{row}", text) for row, text in enumerate(texts))
        index.teaching.read_by(WHO, NAME)
        last = searched(index, "toy x", k=3)
        assert last.settling.round >= rounds
        assert (last.settling.round == 2) == (rounds == 2)
        assert last.settling.settled
        assert empty(index, last) == [not answering] * 3


TIERS = st.dictionaries(st.integers(0, 9), st.sampled_from(Tier))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=10), TIERS)
def test_tiers_part_a_ranking_and_keep_its_order_and_distances(scores, tiers):
    ranking = Ranking(list(range(len(scores))), sorted(scores, reverse=True))
    parted = tiered(ranking, tiers)
    expected = [[id for id in ranking.ids if tiers.get(id, Tier.OPEN) == tier] for tier in Tier]
    assert parted.ids == list(chain.from_iterable(expected))
    known = dict(zip(parted.ids, parted.scores, strict=True))
    for ids in expected:
        before, after = np.array([ranking.scores[id] for id in ids]), np.array([known[id] for id in ids])
        np.testing.assert_allclose(np.diff(after), np.diff(before), atol=1e-9)
    met = [ids for ids in expected if ids]
    assert all(known[above[-1]] > known[below[0]] for above, below in pairwise(met))
