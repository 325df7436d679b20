import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.core.types import Span
from retriever.corpus.sentences import LONGEST, sentences


def parts(text):
    return [text[one.start : one.end] for one in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Great food. The waiter was slow!", ["Great food.", "The waiter was slow!"]),
        ("Dr. Smith of the U.S. paid $3.50. It works well.", ["Dr. Smith of the U.S. paid $3.50.", "It works well."]),
        ("I paid 12.99 at approx. 5 p.m. It works.", ["I paid 12.99 at approx. 5 p.m.", "It works."]),
        ("It holds e.g. 2.5 l vs. 1.7 l before. I like it.", ["It holds e.g. 2.5 l vs. 1.7 l before.", "I like it."]),
        ("See https://foo.com/a.b?c=d. It is v2.0.1 now.", ["See https://foo.com/a.b?c=d.", "It is v2.0.1 now."]),
        ("I waited... and waited.. Then it broke...", ["I waited... and waited..", "Then it broke..."]),
        ("Love it \U0001f60d\U0001f60d so cute \U0001f44d", ["Love it \U0001f60d\U0001f60d so cute \U0001f44d"]),
        ("no punctuation at all here", ["no punctuation at all here"]),
        ("It 's great . I do n't like it .", ["It 's great .", "I do n't like it ."]),
        ('He said "Too bad. Really." Then he left.', ['He said "Too bad. Really."', "Then he left."]),
        ("First one here.\n\nSecond one there", ["First one here.", "Second one there"]),
        ("a line that is\nwrapped by hand", ["a line that is\nwrapped by hand"]),
    ],
)
def test_texts_end_where_a_reader_would_end_them(text, expected):
    assert parts(text) == expected


@pytest.mark.parametrize("mark", ["-", "*", "\u2022", "1.", "2)"])
def test_the_lines_of_a_list_are_sentences(mark):
    text = f"What I found:\n{mark} the lid leaks\n{mark} the cord is short\n"
    assert parts(text) == ["What I found:", f"{mark} the lid leaks", f"{mark} the cord is short"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OK. The lid leaks. Bad.", ["OK. The lid leaks. Bad."]),
        ("5 stars! The lid leaks. 1. 2. 3.", ["5 stars! The lid leaks. 1. 2. 3."]),
        ("The food is fine. OK. The staff is rude.", ["The food is fine. OK.", "The staff is rude."]),
        ("I like this. Cons: it leaks a lot.", ["I like this.", "Cons: it leaks a lot."]),
        ("It is good.\nCons:\n- it leaks", ["It is good.", "Cons:\n- it leaks"]),
        ("Bad.", ["Bad."]),
        ("...", ["..."]),
    ],
)
def test_what_says_nothing_alone_is_joined_to_its_neighbour(text, expected):
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\u8fd9\u4e2a\u5f88\u597d\u3002\u6211\u559c\u6b22\u5b83\uff01",
            ["\u8fd9\u4e2a\u5f88\u597d\u3002", "\u6211\u559c\u6b22\u5b83\uff01"],
        ),
        (
            "\u042d\u0442\u043e \u0442\u0443\u0442. \u041c\u043d\u0435 \u0442\u0430\u043a!",
            ["\u042d\u0442\u043e \u0442\u0443\u0442.", "\u041c\u043d\u0435 \u0442\u0430\u043a!"],
        ),
        (
            "\u0647\u0644 \u0647\u0630\u0627 \u062c\u064a\u062f\u061f \u0647\u0630\u0627 \u062c\u064a\u062f.",
            ["\u0647\u0644 \u0647\u0630\u0627 \u062c\u064a\u062f\u061f", "\u0647\u0630\u0627 \u062c\u064a\u062f."],
        ),
    ],
)
def test_other_scripts_have_sentences_too(text, expected):
    assert parts(text) == expected


def test_a_sentence_of_two_thousand_words_is_cut_at_commas_or_between_words():
    text = " ".join(f"word{number}" + ("," if number % 10 == 0 else "") for number in range(2000))
    found = parts(text)
    assert max(map(len, found)) <= LONGEST
    assert all(part.endswith(",") for part in found[:-1])
    bare = parts("word " * 2000)
    assert max(map(len, bare)) <= LONGEST
    assert set(" ".join(bare).split()) == {"word"}
    assert [len(part) for part in parts("x" * 1000)] == [LONGEST, LONGEST, 200]


def test_white_space_alone_is_one_unit():
    assert sentences(" \n") == [Span(0, 2)]


@given(
    st.text(alphabet=st.sampled_from("aB. \n!?\"'()-:,;1\u3002\u8fd9\U0001f60d\u200d\u0301\t\r\u2026*"), max_size=900)
)
def test_units_hold_all_of_a_text_in_order(text):
    at = 0
    for one in sentences(text):
        assert at <= one.start < one.end or not text
        assert not text[at : one.start].strip()
        assert one.end - one.start <= LONGEST or not text.strip()
        at = one.end
    assert not text[at:].strip()
