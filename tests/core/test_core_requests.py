import pytest

from retriever.core.errors import UsageError
from retriever.core.requests import SearchRequest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "nothing to look for"),
        ({"query": " "}, "A query is empty"),
        ({"query": "", "regex": "a"}, "A query is empty"),
        ({"query": "a", "like": "b"}, "either a query or like"),
        ({"regex": "a", "instruction": "What broke?"}, "instruction needs a query: regex alone"),
        ({"regex": "a", "mode": "dense"}, "mode needs a query"),
        ({"regex": "a", "steps": 2}, "steps needs a query"),
        ({"regex": "("}, "no regular expression"),
        ({"regex": "", "query": "a"}, "The pattern is empty"),
        ({"query": "a", "k": 0}, "k is 0"),
        ({"like": "a", "k": -1}, "k is -1"),
        ({"query": "a", "steps": 0}, "steps is 0"),
        ({"query": "a", "mode": "fast"}, "Unknown mode 'fast'"),
        ({"like": "a", "mode": "lexical"}, "found by vectors, not in mode lexical"),
        ({"like": "a", "mode": "hybrid"}, "found by vectors, not in mode hybrid"),
    ],
    ids=str,
)
def test_a_search_that_makes_no_sense_is_refused_where_it_is_made(options, said):
    with pytest.raises(UsageError, match=said):
        SearchRequest(**options)


def test_a_blank_instruction_or_filter_is_none():
    assert SearchRequest("a", instruction=" ", where="\n") == SearchRequest("a")
    assert SearchRequest("a", instruction=" What broke? ").instruction == "What broke?"
