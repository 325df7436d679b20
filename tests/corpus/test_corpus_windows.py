import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.corpus.windows import WORDS, windows

SENTENCE = "The lid leaks a little when it is full . "  # ten words


def parts(text, most=1000):
    return [text[one.start : one.end] for one in windows(text, most)]


@pytest.mark.parametrize("text", ["", "Short.", "word " * WORDS, "no end " * 22])
def test_a_text_as_short_as_a_window_has_none(text):
    assert windows(text, 1000) == []


def test_windows_are_whole_sentences_as_many_as_fit():
    text = (SENTENCE * 9).strip()
    assert [len(one.split()) for one in parts(text)] == [40, 40, 10]
    assert all(one.startswith("The lid") and one.endswith("full .") for one in parts(text))


def test_a_sentence_longer_than_a_window_is_one_by_itself():
    long = " ".join(["and on it goes"] * 14) + " ."
    assert parts(f"{SENTENCE}{long} {SENTENCE}".strip()) == [SENTENCE.strip(), long, SENTENCE.strip()]


def test_scripts_without_spaces_have_windows_too():
    sentence = "\u8fd9\u4e2a\u76d6\u5b50\u6f0f\u6c34\u5f88\u4e25\u91cd\u3002"
    found = parts(sentence * 30)
    assert len(found) > 1 and all(len(one) <= 2 * WORDS for one in found)
    assert "".join(found) == sentence * 30
    unbroken = parts("\u8fd9" * 1000)
    assert len(unbroken) > 1 and all(len(one) <= 200 for one in unbroken)


def test_there_are_no_more_windows_than_asked_for():
    text = SENTENCE * 400
    assert len(windows(text, 10)) <= 10 < len(windows(text, 1000))


@given(st.lists(st.text(alphabet="ab .!?\n\u8fd9", max_size=120), max_size=12).map(". ".join))
def test_windows_hold_all_of_a_text_but_white_space(text):
    at = 0
    for one in windows(text, 1000):
        assert at <= one.start < one.end and not text[at : one.start].strip()
        at = one.end
    assert at == 0 or not text[at:].strip()
