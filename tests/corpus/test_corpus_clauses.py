import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.corpus.clauses import clauses


def parts(text):
    return [text[one.start : one.end] for one in clauses(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The food was really great, but the waiter was very rude.",
            ["The food was really great,", "but the waiter was very rude."],
        ),
        (
            "The food was really great; the waiter was very rude - we will not return.",
            ["The food was really great;", "the waiter was very rude -", "we will not return."],
        ),
        (
            "Portions are fairly generous and the staff brings treats.",
            ["Portions are fairly generous", "and the staff brings treats."],
        ),
        ("It is a nice place. I ordered late, and it took an hour.", [
            "It is a nice place.", "I ordered late, and it took an hour."
        ]),
        ("We had the salmon, the chicken and the soup.", ["We had the salmon, the chicken and the soup."]),
        ("Good but slow.", ["Good but slow."]),
        ("A butter dish while-away", ["A butter dish while-away"]),
    ],
)  # fmt: skip
def test_clauses_begin_where_something_else_may_be_said(text, expected):
    assert parts(text) == expected


@given(
    st.lists(
        st.sampled_from([*"abcd", "but", "and the", "; ", " - ", ". ", "\n", ", and", "x" * 30, "\u2014"]), max_size=60
    )
)
def test_clauses_hold_all_of_a_text_in_order(words):
    text, at = " ".join(words), 0
    for one in clauses(text):
        assert at <= one.start < one.end or not text
        assert not text[at : one.start].strip()
        at = one.end
    assert not text[at:].strip()
