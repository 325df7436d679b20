import random

import pytest
from index_fakes import FAULT, MOOD, FakeEncoder

from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

COPIES = 300
OTHERS = {"b": "the toy broke", "c": "a lamp that broke", "d": "love this toy"}


@pytest.fixture(params=["documents", "sentences"])
def index(request, tmp_path):
    """Three hundred copies of one text, half of them with one star, and three other texts."""
    copies = [Document(f"copy{row:03}", "the lamp broke", {"stars": 1 + row % 2}) for row in range(COPIES)]
    others = [Document(id, text, {"stars": 1}) for id, text in OTHERS.items()]
    documents = [*copies, *others]
    random.Random(5).shuffle(documents)
    with Index(tmp_path / "index", encoder=FakeEncoder()) as opened:
        opened.add(documents, instructions=[MOOD], options=IndexingOptions(units=request.param))
        yield opened


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid", "auto"])
@pytest.mark.parametrize("instruction", ["", MOOD, FAULT])
def test_equal_texts_are_one_hit_with_the_others_named(index, mode, instruction):
    hits = index.search("lamp broke", instruction=instruction, k=3, mode=mode).hits
    assert len({hit.document.text for hit in hits}) == len(hits) == 3
    [copy] = [hit for hit in hits if hit.document.text == "the lamp broke"]
    assert copy.document.id == "copy000"
    assert list(copy.equal) == [f"copy{row:03}" for row in range(1, COPIES)]
    assert all(not hit.equal for hit in hits if hit is not copy)


def test_only_documents_that_the_filter_accepts_count(index):
    hit = index.search("lamp broke", k=1, where="stars = 2").hits[0]
    assert hit.document.id == "copy001"
    assert list(hit.equal) == [f"copy{row:03}" for row in range(3, COPIES, 2)]


def test_the_json_has_their_number_and_their_ids(index):
    answer = index.search("lamp broke", k=4, mode="dense").to_json()
    equal = {hit["id"]: hit["equal"] for hit in answer["hits"]}
    assert equal.pop("copy000") == {"count": 299, "ids": [f"copy{row:03}" for row in range(1, COPIES)]}
    assert equal == {id: {"count": 0, "ids": []} for id in OTHERS}


def test_what_resembles_a_copy_are_k_texts_the_other_copies_among_them(index):
    hits = index.search(like="copy007", k=3).hits
    [copy] = [hit for hit in hits if hit.document.id == "copy000"]
    assert copy.score == hits[0].score
    assert "copy007" not in copy.equal
    assert len(copy.equal) == COPIES - 2
    assert len({hit.document.text for hit in hits}) == 3


def test_a_regular_expression_finds_a_text_once(index):
    hits = index.search(regex="broke", k=10).hits
    assert len({hit.document.text for hit in hits}) == len(hits) == 3
    assert sum(1 + len(hit.equal) for hit in hits) == COPIES + 2


def test_several_queries_have_their_own_first_texts(index):
    for result in index.search_many([SearchRequest(query, k=2) for query in ("lamp broke", "toy", "love")]):
        assert len({hit.document.text for hit in result.hits}) == 2


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_query_and_an_id_in_either_spelling_are_one(tmp_path, mode):
    with Index(tmp_path / "index", encoder=FakeEncoder()) as opened:
        opened.add([Document("caf\u00e9", "the caf\u00e9 toy"), Document("b", "a lamp")])
        first, second = (opened.search(f"{query} toy", mode=mode).hits for query in ("caf\u00e9", "cafe\u0301"))
        assert first == second
        likes = [opened.search(like=id).hits for id in ("caf\u00e9", "cafe\u0301")]
        assert likes[0] == likes[1]
