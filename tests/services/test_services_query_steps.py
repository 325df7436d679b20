import pytest
from services_fakes import MOOD, RichEncoder, documents

from retriever.core.errors import EncoderError
from retriever.services.query_steps import settled
from retriever.services.searching import SearchRequest
from retriever.services.workspace import Index

# "kettle", "toy", "lamp" and "knife" are the first keywords, learned one a step: z_1 finds a, z_3 finds b by a hair,
# and from z_4 on b leads by more than a step moves.
CORPUS = documents("kettle", "kettle toy lamp knife", "phone sofa rug")
EASY, HARD = "kettle", "kettle toy lamp knife"


@pytest.fixture
def opened(path):
    def index(steps=16):
        opened = Index(path, encoder=RichEncoder(steps=steps))
        opened.add(CORPUS)
        opened.encoder.forget()
        return opened

    return index


def answer(result):
    return {key: value for key, value in result.to_json().items() if key != "took_ms"}


def count(index, method):
    return sum(call.method == method for call in index.encoder.calls)


@pytest.mark.parametrize(("query", "steps"), [(EASY, 2), (HARD, 4)])
def test_a_query_whose_first_hits_are_close_takes_more_steps(opened, query, steps):
    with opened() as index:
        found = index.search(query, mode="dense", steps="auto")
        assert found.steps == steps
        assert (count(index, "encode_stepwise"), count(index, "step")) == (1, steps)
        assert (index.encoder.read, count(index, "encode")) == ([], 0)
        assert answer(found) == answer(index.search(query, mode="dense", steps=steps))


def test_steps_end_at_the_encoders_own(opened):
    with opened(steps=3) as index:
        assert index.search(HARD, mode="dense", steps="auto").steps == 3
        assert index.search(HARD, mode="dense").steps == 3


def test_every_query_of_a_batch_keeps_the_vector_it_settled_with(opened):
    with opened() as index:
        several = index.search_many(SearchRequest([EASY, HARD, EASY], mode="dense", steps="auto"))
        assert [one.steps for one in several] == [2, 4, 2]
        assert count(index, "step") == 4
        alone = [index.search(query, mode="dense", steps="auto") for query in (EASY, HARD, EASY)]
        assert [answer(one) for one in several] == [answer(one) for one in alone]


def test_hits_that_a_filter_leaves_out_do_not_count(path):
    with Index(path, encoder=RichEncoder()) as index:
        index.add([*documents(CORPUS[0].text, stars=1), *CORPUS[1:]])
        assert index.search(HARD, mode="dense", steps="auto", where="stars = 1").steps == 2


def test_under_a_new_instruction_the_base_views_hits_are_looked_at(opened):
    with opened() as index:
        found = index.search(HARD, instruction=MOOD, mode="dense", steps="auto")
        assert (found.path, found.steps) == ("lazy", 2)  # no mood is named: nothing moves
        assert count(index, "encode_stepwise") == 2


def test_what_resembles_a_document_is_found_with_steps_too(opened):
    with opened() as index:
        found = index.search_like("a", steps="auto")
        assert (found.steps, [hit.document.id for hit in found.hits]) == (2, ["b", "c"])
        assert index.search_like("a", steps=1).steps == 1


def test_words_alone_take_no_steps(opened):
    with opened() as index:
        assert index.search(EASY, mode="lexical", steps="auto").steps is None
        assert count(index, "step") == 0


def test_an_encoder_that_cannot_go_on_is_told_so(index):
    index.add(documents("toy"))
    with pytest.raises(EncoderError, match=r"no steps to choose"):
        index.search("toy", steps="auto", mode="dense")


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        ({}, {}, True),
        ({1: 0.3}, {1: 0.9}, True),
        ({1: 0.9, 2: 0.5}, {1: 0.8, 2: 0.5}, True),  # leads by 0.4, moved by 0.1
        ({1: 0.9, 2: 0.85}, {1: 0.8, 2: 0.85}, False),  # leads by 0.05, moved by 0.1
        ({1: 0.9, 2: 0.85}, {1: 0.9, 2: 0.7}, False),  # the second comes nearer
        ({1: 0.9, 2: 0.2, 3: 0.89}, {1: 0.9, 2: 0.1, 3: 0.8}, False),  # the third does
        ({1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}, True),  # a tie that nothing moves
    ],
)
def test_hits_have_settled_when_the_first_leads_by_more_than_a_step_moves(now, before, expected):
    assert settled(now, before) is expected
