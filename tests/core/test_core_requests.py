import pytest

from retriever.cli.reading import Reading
from retriever.core.errors import UsageError
from retriever.core.prompts import TEMPLATES, PromptTemplate, get_template
from retriever.core.requests import GroupOptions, SearchRequest
from retriever.forms import made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "nothing to search for"),
        ({"query": " "}, "A query is empty"),
        ({"query": "", "regex": "a"}, "A query is empty"),
        ({"query": "a", "like": "b"}, "exclude each other"),
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


def test_what_stands_for_none_at_a_door_is_none():
    assert made(GroupOptions, {"instruction": "", "into": [], "k": 0, "several": False}) == GroupOptions()


def test_a_limit_of_nothing_is_a_limit():
    reading = made(Reading, {"max_texts": 0, "max_minutes": 0.0, "reader": ""})
    assert (reading.max_texts, reading.max_minutes, reading.reader) == (0, 0.0, None)


# Prompts.


def around(template, instruction):
    return template.prefix(instruction), template.suffix(instruction)


def test_input_first_to_the_character():
    template = get_template("input-first")
    expected = ("### Input:\n", "\n\n### Instruction:\nWhat broke?\n\n### Response:")
    assert around(template, "What broke?") == expected
    assert template.text_first


def test_instruct_query_to_the_character():
    template = get_template("instruct-query")
    assert around(template, "What broke?") == ("Instruct: What broke?\nQuery:", "")
    assert not template.text_first


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_instruction_stands_in_its_prompt_as_it_is(name):
    assert "a {text} {instruction}" in "".join(around(TEMPLATES[name], "a {text} {instruction}"))


@pytest.mark.parametrize(("before", "after"), [("", ""), ("{instruction}", "{instruction}"), ("{instruct}", "x")])
def test_a_template_holds_the_instruction_exactly_once(before, after):
    with pytest.raises(UsageError, match=r"'mine' must hold \{instruction\} exactly once"):
        PromptTemplate("mine", before, after)


def test_an_unknown_template_lists_the_known_ones():
    with pytest.raises(UsageError, match="Unknown template 'chat'") as caught:
        get_template("chat")
    assert caught.value.hint == "Known: input-first, instruct-query."
    assert caught.value.exit_code == 2
