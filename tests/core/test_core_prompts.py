import pytest

from retriever.core.errors import UsageError
from retriever.core.prompts import TEMPLATES, PromptTemplate, get_template


def test_input_first_to_the_character():
    template = get_template("input-first")
    assert template.render("Loud kettle.", "What broke?") == (
        "### Input:\nLoud kettle.\n\n### Instruction:\nWhat broke?\n\n### Response:"
    )
    assert template.text_first


def test_instruct_query_to_the_character():
    template = get_template("instruct-query")
    assert template.render("Loud kettle.", "What broke?") == "Instruct: What broke?\nQuery:Loud kettle."
    assert not template.text_first


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("text", ["plain", "", "braces {instruction} {0} {x}", "% s\n\n### Response:"])
def test_pieces_join_to_the_prompt_whatever_they_hold(name, text):
    template = TEMPLATES[name]
    for instruction in ("mood", "a {text} {instruction}"):
        rendered = template.render(text, instruction)
        assert rendered == template.prefix(instruction) + text + template.suffix(instruction)
        assert instruction in rendered
        assert text in rendered


@pytest.mark.parametrize(("before", "after"), [("", ""), ("{instruction}", "{instruction}"), ("{instruct}", "x")])
def test_a_template_holds_the_instruction_exactly_once(before, after):
    with pytest.raises(UsageError, match=r"'mine' must hold \{instruction\} exactly once"):
        PromptTemplate("mine", before, after)


def test_an_unknown_template_lists_the_known_ones():
    with pytest.raises(UsageError, match="Unknown template 'chat'") as caught:
        get_template("chat")
    assert caught.value.hint == "Known: input-first, instruct-query."
    assert caught.value.exit_code == 2
