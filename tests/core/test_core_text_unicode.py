import pytest

from retriever.core.text import composed, is_blank


@pytest.mark.parametrize(
    "text",
    [
        "", " \n\t", "\u200b", "\u200b\u200d \u2060", "\ufeff", "\u202e", "\u2066\u2069", "\x00\x07\x1b",
        "\u3164", "\u2800", "\ufe0f", "\u00ad", "\U000e0100",
    ],
)  # fmt: skip
def test_a_text_without_a_visible_character_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", [".", "-", "👍", "\u202eevil", "水", "\u200bא", "\U0001f468\u200d\U0001f469", "\u0301"]
)
def test_a_text_with_one_is_not(text):
    assert not is_blank(text)


def test_an_accent_and_its_letter_are_one_character():
    assert composed("cafe\u0301") == "caf\u00e9"
    assert composed("\u1112\u1161\u11ab") == "\ud55c"
    assert composed("plain") == "plain"
