"""Texts as the rules see them, and word lists to look for in them.

Texts come as they are typed and as corpora split them ("do n't", "can 't"). A text with markup or addresses in it is
empty to the rules.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

Rule: TypeAlias = Callable[[str], str | None]

_LEXICONS = Path(__file__).with_name("lexicons.json")
_MARKUP = re.compile(r"<|https?:|www\.|&\w+;|\[\w+\]")
_SPLIT_APOSTROPHE = re.compile(r"(?<=\w)(?: n't| '(?=(?:t|s|m|d|re|ve|ll)\b))")
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['-][^\W\d_]+)*")
_MOST_WORDS = 60
_PRECEDING = 4  # words in front of a match that may negate it
NEGATIONS = frozenset("not no never without cannot nor neither none nothing nobody nowhere hardly barely".split())


@lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Return a text with straight, rejoined apostrophes and single spaces; empty where no rule should read it."""
    if _MARKUP.search(text):
        return ""
    straight = " ".join(text.replace("\u2019", "'").split())
    straight = re.sub(r"n 't\b", "n't", straight)
    return _SPLIT_APOSTROPHE.sub(lambda match: match.group().strip(), straight)


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Return the words of a cleaned text in their own case; numbers are words."""
    return tuple(_WORD.findall(clean(text)))


def lower(text: str) -> tuple[str, ...]:
    """Return the words in lower case."""
    return tuple(word.lower() for word in words(text))


@cache
def lexicon(name: str) -> dict[str, str]:
    """Return every form of the words of a list, each with the word it stands for."""
    entries = json.loads(_LEXICONS.read_text(encoding="utf-8"))[name]
    return {form: entry.split("|")[0] for entry in entries for word in entry.split("|") for form in _forms(word)}


def in_short_texts(rule: Rule) -> Rule:
    """Return a rule without the texts in which what it looks for may be a detail that nobody would name."""
    return lambda text: rule(text) if len(words(text)) <= _MOST_WORDS else None


def named(name: str, *, proper: bool = False) -> Rule:
    """Return a rule that gives the one word of a list that a text names, and None for none or several.

    Args:
        name: of the list.
        proper: whether its words are names, which have a capital; other words must stand in small letters.
    """

    def rule(text: str) -> str | None:
        forms = lexicon(name)
        values = {forms[word] for word in lower(text) if word in forms}
        as_written = [word for word in words(text) if word.lower() in forms]
        if len(values) != 1 or not any((word.istitle() if proper else word.islower()) for word in as_written):
            return None
        return values.pop().capitalize() if proper else values.pop()

    return rule


def sentence(text: str) -> str:
    """Return a cleaned text in lower case."""
    return clean(text).lower()


def first_if_word(found: tuple[str, ...]) -> str | None:
    """Return the first of some words, unless it is a number."""
    return found[0] if found and found[0][0].isalpha() else None


def unless(text: str, doubtful: Iterable[str], label: str) -> str | None:
    """Return the label for the lack of something, unless the text is no text or holds a doubtful word."""
    said = lower(text)
    return label if len(said) > 2 and not set(said) & set(doubtful) else None


def stands(said: str, found: "re.Match[str]") -> bool:
    """Return whether no word shortly before a match denies it or makes it a condition."""
    before = said[: found.start()].split()[-_PRECEDING:]
    return not any(word in NEGATIONS or word.endswith("n't") or word == "if" for word in before)


def any_of(forms: Iterable[str]) -> str:
    """Return a pattern for any of some words."""
    return "|".join(sorted(map(re.escape, forms), key=len, reverse=True))


def _forms(word: str) -> set[str]:
    return {word, f"{word}s", f"{word}es", f"{word[:-1]}ies" if word.endswith("y") else word}
