import pytest

from retriever.core.errors import UsageError
from retriever.core.patterns import LONGEST, TextPattern


def test_matches_are_counted_and_empty_ones_are_none():
    assert TextPattern("(?i)charg(er|ing)").count("Charger, charging, charged") == 2
    assert TextPattern("x*").count("abc") == 0


def test_a_pattern_that_never_ends_is_stopped():
    pattern = TextPattern("(a|aa)+$", seconds=0.3)
    with pytest.raises(UsageError, match=r"longer than 0\.3 seconds"):
        pattern.count("a" * 60 + "b")


def test_the_time_is_for_all_texts_together():
    pattern = TextPattern("a", seconds=0.0)
    with pytest.raises(UsageError, match="longer than 0 seconds"):
        pattern.count("a")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "is empty"),
        ("(", r"'\(' is no regular expression: missing \) at position 1"),
        ("*", "nothing to repeat"),
        ("a" * (LONGEST + 1), f"has {LONGEST + 1} characters"),
        ("(" * 480 + "a" + ")" * 480, "nests too deeply"),
        ("\ud800", "not valid UTF-8"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, problem):
    with pytest.raises(UsageError, match=problem):
        TextPattern(pattern)
