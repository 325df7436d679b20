"""A search under an instruction reads on in rounds until its hits no longer change."""

import pytest
from index_fakes import MOOD, FakeEncoder, Products

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.workspace import Index

PRODUCTS = ["kettle", "lamp", "knife", "drone", "cable", "rug", "tent"]
MOODS = {"rug": "sad", "tent": "sad"}
TEXTS = [f"{product} {MOODS.get(product, 'calm')} {row}" for product in PRODUCTS for row in range(60)]
REQUEST = SearchRequest("kettle sad", instruction=MOOD, mode="dense", k=5)


@pytest.fixture
def question():
    return FakeEncoder("question")


@pytest.fixture
def open_index(tmp_path, question):
    made = []

    def opened(**options):
        chosen = SearchOptions(token_budget=1200, prompt_tokens=10, candidates=40, **options)
        index = Index(tmp_path / "index", encoder=question, plain=Products("plain"), search_options=chosen)
        made.append(index)
        if not made[1:]:
            index.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        question.forget()
        return index

    yield opened
    for index in made:
        index.close()


def ids(result):
    return [hit.document.id for hit in result.hits]


def test_rounds_go_on_until_the_hits_no_longer_change(open_index, question):
    first, *rounds = open_index(rounds=5).search_progressively(REQUEST)
    assert first.settling is None
    assert [result.settling.round for result in rounds] == list(range(1, len(rounds) + 1))
    assert 2 <= len(rounds) < 5
    assert [result.final for result in rounds] == [False] * (len(rounds) - 1) + [True]
    assert rounds[-1].settling.settled
    assert ids(rounds[-1]) == ids(rounds[-2])
    assert rounds[0].settling.changed is None
    assert rounds[-1].settling.changed == 0
    assert rounds[-1].settling.read == sum(len(call.texts) for call in question.passes)


def test_a_settled_search_reads_nothing_when_it_is_asked_again_and_gives_the_same_list(open_index, question):
    last = open_index(rounds=5).search_many([REQUEST])[0]
    index = open_index(rounds=5)
    (again,) = index.search_progressively(REQUEST)
    assert question.passes == []
    assert again.final
    assert [(hit.document.id, hit.fused) for hit in again.hits] == [(hit.document.id, hit.fused) for hit in last.hits]
    index.search("lamp sad", instruction=MOOD, mode="dense", k=5)
    assert question.passes  # another query has not settled


def test_new_documents_open_a_settled_search_again(open_index, question):
    index = open_index(rounds=5)
    list(index.search_progressively(REQUEST))
    index.add([Document("new", "kettle sad 99")])
    question.forget()
    *_, last = index.search_progressively(REQUEST)
    assert question.passes
    assert last.hits[0].document.id == "new"


def test_no_more_rounds_are_read_than_there_may_be(open_index):
    *_, last = open_index(rounds=1).search_progressively(REQUEST)
    assert last.settling.round == 1
    assert last.final
    assert not last.settling.settled
