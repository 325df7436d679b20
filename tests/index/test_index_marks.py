"""Search towards hits that somebody liked and away from others."""

import numpy as np
import pytest
from index_fakes import MOOD, PRODUCT

from retriever.core.errors import InputError, UsageError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Marks
from retriever.index.search.steering import LESS, MORE

TEXTS = ["kettle", "toy", "lamp", "toy lamp", "kettle lamp", "rug pan"]


@pytest.fixture
def full(index):
    index.add([Document(f"d{row}", text) for row, text in enumerate(TEXTS)], instructions=[PRODUCT])
    return index


def scores(result):
    return {hit.document.id: hit.fused for hit in result.hits}


def test_the_order_follows_rocchios_formula_and_the_score_stays_the_cosine(full, encoder):
    plain = full.search("kettle", mode="dense")
    found = full.search("kettle", mode="dense", more=["d1", "d3"], less=["d4"])
    query, liked, other, unliked = encoder.vectors(["kettle", "toy", "toy lamp", "kettle lamp"])
    towards = query + MORE * np.mean([liked, other], axis=0) - LESS * unliked
    assert scores(found) == pytest.approx(
        {f"d{row}": float(one @ towards) for row, one in enumerate(encoder.vectors(TEXTS))}, abs=1e-6
    )
    assert {hit.document.id: hit.score for hit in found.hits} == pytest.approx(scores(plain), abs=1e-6)


def test_a_view_that_lacks_the_marked_reads_them_first(full, encoder):
    full.add([Document("love", "love toy"), Document("hate", "hate toy"), Document("more", "love rug")])
    found = full.search("sad", instruction=MOOD, mode="dense", more=["love"], less=["hate"], k=9)
    order = [hit.document.id for hit in found.hits]
    assert order.index("love") < order.index("hate")  # by the query alone they are equally near
    assert order.index("more") < order.index("hate")
    assert order[-1] == "hate"


def test_what_is_typical_is_taken_off_what_is_liked(index):
    rows = [Document(f"d{row:02}", f"love {'sad' if row % 3 else 'calm'} {row}") for row in range(60)]
    index.add(rows, instructions=[MOOD])
    found = index.search("glad", instruction=MOOD, mode="dense", more=["d00"], k=20)
    assert {hit.document.text.split()[1] for hit in found.hits} == {"calm"}


def test_both_phases_and_words_go_the_same_way(full):
    request = SearchRequest(["kettle"], MOOD, 6, more=("d1",), mode="hybrid")
    for (result,) in full.search_progressively(request):
        assert [hit.document.id for hit in result.hits].index("d1") <= 2


def test_marks_are_kept_by_query_and_instruction(full, path):
    assert full.marks("kettle") == Marks()
    full.mark("kettle", liked={"d0": True, "d1": False, "d2": True})
    assert full.mark(" kettle ", liked={"d0": None, "d1": True}) == Marks(("d2", "d1"))
    assert full.marks("kettle", MOOD) == Marks()
    full.mark("kettle", MOOD, liked={"d3": False})
    full.close()
    assert full.marks("kettle", MOOD) == Marks((), ("d3",))


def test_marks_that_make_no_sense_are_refused(full):
    with pytest.raises(InputError, match="no document 'zz'"):
        full.mark("kettle", liked={"d0": True, "zz": True})
    assert full.marks("kettle") == Marks()
    with pytest.raises(InputError, match="no document 'zz'"):
        full.search("kettle", more=["zz"])
    with pytest.raises(UsageError, match="More and less is asked for of 'd0'"):
        full.search("kettle", more=["d0"], less=["d0"])
    with pytest.raises(UsageError, match="go by vectors"):
        full.search("kettle", more=["d0"], mode="lexical")
