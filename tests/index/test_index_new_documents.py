"""A view that an older version left behind new documents is searched as it is; what it lacks is read once."""

import random

import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, add_to_base

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.workspace import Index

RNG = random.Random(5)
CORPUS = [Document(f"d{row:03}", f"{' '.join(RNG.sample(ALL_WORDS, 5))} {row}") for row in range(500)]
QUERIES = [" ".join(RNG.sample(ALL_WORDS, 4)) for _ in range(10)]
FIFTY = SearchOptions(rounds=1, token_budget=50 * (1 + 40 // 4 + 25), prompt_tokens=25)
"""A budget for some fifty of these texts."""


@pytest.fixture
def whole(tmp_path):
    """Give an index of all five hundred whose view is complete."""
    with Index(tmp_path / "whole", encoder=FakeEncoder()) as index:
        index.add(CORPUS, instructions=[MOOD])
        yield index


@pytest.fixture
def asked(tmp_path):
    """Give an index of three hundred whose view is complete."""
    with Index(tmp_path / "asked", encoder=FakeEncoder(), search_options=FIFTY) as index:
        index.add(CORPUS[:300], instructions=[MOOD])
        yield index


def ask(index, query, mode="hybrid"):
    return list(index.search_progressively(SearchRequest(query, instruction=MOOD, mode=mode)))


def hits(result):
    return [(hit.document.id, hit.score, round(hit.fused, 6)) for hit in result.hits]


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_one_new_document_is_read_and_all_else_stays(asked, tmp_path, mode):
    with Index(tmp_path / "all", encoder=FakeEncoder()) as complete:
        complete.add(CORPUS[:301], instructions=[MOOD])
        add_to_base(asked, CORPUS[300:301])
        asked._opened.sources.encoders.question.forget()
        first, last = ask(asked, QUERIES[0], mode)
        assert (first.path, last.path) == ("lazy", "complete")
        assert asked._opened.sources.encoders.question.read == [(CORPUS[300].text, MOOD)]
        others = [one for one in hits(last) if one[0] != CORPUS[300].id]
        assert [id for id, *_ in hits(first) if id != CORPUS[300].id][: len(others)] == [id for id, *_ in others]
        for query in QUERIES:
            assert hits(asked.search(query, instruction=MOOD, mode=mode)) == hits(
                complete.search(query, instruction=MOOD, mode=mode)
            )
        assert len(asked._opened.sources.encoders.question.read) == 1


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_many_new_documents_are_read_by_the_first_searches_and_none_is_read_twice(asked, whole, mode):
    add_to_base(asked, CORPUS[300:])
    asked._opened.sources.encoders.question.forget()
    paths, read = [], []
    for query in QUERIES:
        answers = ask(asked, query, mode)
        paths.append(answers[-1].path)
        read.append(len(asked._opened.sources.encoders.question.read))
        if paths[-1] == "complete":
            assert hits(answers[-1]) == hits(whole.search(query, instruction=MOOD, mode=mode))
    texts = asked._opened.sources.encoders.question.read
    assert len(set(texts)) == len(texts) == 200
    assert paths == ["lazy"] * (10 - paths.count("complete")) + ["complete"] * paths.count("complete")
    assert paths.count("complete") >= 5
    assert read[0] >= 40
    assert ask(asked, QUERIES[0], mode)[0].path == "complete"


def test_what_is_read_first_is_what_the_base_view_finds_nearest(asked):
    late = [Document("near", "kettle toy love hate"), *(Document(f"far{row}", f"nothing {row}") for row in range(60))]
    add_to_base(asked, late[::-1])
    asked._opened.sources.encoders.question.forget()
    ask(asked, "kettle toy love hate", "dense")  # alike under either instruction
    assert asked._opened.sources.encoders.question.read[0] == ("kettle toy love hate", MOOD)


def test_a_search_under_a_filter_reads_no_more_than_the_filter_allows(asked):
    add_to_base(asked, [Document(f"x{row}", f"toy love {row}", {"new": row % 2 == 0}) for row in range(20)])
    asked._opened.sources.encoders.question.forget()
    result = asked.search("love toy", instruction=MOOD, where="new = true", mode="dense")
    assert result.path == "complete"
    assert sorted(text for text, _ in asked._opened.sources.encoders.question.read) == sorted(
        f"toy love {row}" for row in range(0, 20, 2)
    )
    assert [view.coverage for view in asked.views()] == [1.0, pytest.approx(310 / 320, abs=1e-4)]


def test_a_view_that_lacks_most_is_not_filled_by_what_nobody_looks_for(tmp_path):
    options = SearchOptions(rounds=1, candidates=5)
    with Index(tmp_path / "index", encoder=FakeEncoder(), search_options=options) as index:
        index.add(CORPUS)
        first, last = ask(index, QUERIES[0])
        assert (first.path, last.path) == ("base", "lazy")
        assert 16 <= index.views()[1].vectors < 250
