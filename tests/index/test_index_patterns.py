"""Search by regular expressions, alone and beside a query and a filter."""

import pytest
from index_fakes import MOOD, PRODUCT, ids

from retriever.core.errors import FilterError
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions

TEXTS = ["kettle 12", "kettle 7, kettle 8", "toy 12", "toy love", "lamp 12 12", "rug"]


@pytest.fixture
def full(index):
    index.add([Document(f"d{row}", text, {"row": row}) for row, text in enumerate(TEXTS)], instructions=[PRODUCT])
    return index


def test_documents_that_hold_an_expression_stand_by_how_often(full):
    found = full.search(regex=r"\b12\b", k=2)
    assert [(hit.document.id, hit.fused, hit.score) for hit in found.hits] == [("d4", 2, None), ("d0", 1, None)]
    assert ids(full.search(regex=r"\b12\b")) == ["d4", "d0", "d2"]
    assert ids(full.search(regex=r"\d", where="row = 1")) == ["d1"]
    assert ids(full.search(regex="nowhere")) == []


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_query_finds_only_what_holds_the_expression(full, mode):
    assert ids(full.search("kettle", mode=mode, regex=r"\b12\b"))[0] == "d0"
    assert set(ids(full.search("kettle 12", mode=mode, regex="12"))) <= {"d0", "d2", "d4"}
    assert ids(full.search("kettle 12", mode=mode, regex="12", where="row < 2")) == ["d0"]
    assert ids(full.search("kettle", mode=mode, regex="nowhere")) == []


def test_a_lazy_search_reads_only_what_holds_the_expression(full, encoder):
    encoder.forget()
    assert ids(full.search("love", instruction=MOOD, regex="^toy")) == ["d3", "d2"]
    assert {text for text, _ in encoder.read} == {"toy 12", "toy love"}


def test_what_resembles_a_document_holds_the_expression(full):
    assert ids(full.search(like="d0", regex="kettle")) == ["d1"]


def test_documents_of_one_text_are_told_apart_by_the_filter(full):
    full.add([Document("twin", "kettle 12", {"row": 9})])
    assert ids(full.search("kettle", regex="12", where="row = 9")) == ["twin"]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_of_sentences_those_that_hold_the_expression_are_found(index, mode):
    texts = ["My kettle was sad . The lamp was loud .", "A lamp was sad . The rug was dim ."]
    rows = [Document(f"d{row}", text, {"row": row}) for row, text in enumerate(texts)]
    index.add(rows, options=IndexingOptions(units="sentences"))
    assert [hit.unit.id for hit in index.search("was", mode=mode, regex="loud|dim").hits] == ["d0#2", "d1#2"]
    assert [hit.unit.id for hit in index.search("was", mode=mode, regex="lamp", where="row = 0").hits] == ["d0#2"]


def test_a_bad_filter_beside_an_expression_is_refused(full):
    with pytest.raises(FilterError):
        full.search("kettle", regex="a", where="colour = 1")
