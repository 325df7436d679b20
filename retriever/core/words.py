"""English words: those that carry no topic, forms of one word, and whole words in place of tokens that only begin one.

A model's answers are words that one token begins, and a token does not say whether it ends its word: "charg" is
"charging" where the text says that. English does, for every model: ``core/english_words.txt.gz`` (made by
docs/tools/english_words.py) lists its words, without those that mostly begin others where a token is all there is.
"""

import gzip
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources

QUERY_STOPWORDS = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does for from had has have he her
    his how i if in into is it its just me more my no nor not of on or our out she should so some than that the
    their them then there these they this those to too up us was we were what when where which who why will with
    would you your
    """.split()
)
"""Those that are left out of a query, too: words that hardly ever tell one text from another."""

STOPWORDS = QUERY_STOPWORDS | frozenset(
    """
    above after again aren't because before being below between both can't cannot couldn't didn't doesn't doing
    don't down during each etc few further get got hadn't hasn't haven't having he's here here's hers herself
    him himself how's i'd i'll i'm i've isn't it's itself let's may might most must myself off once one only
    other ought ours ourselves over own per same shall she's shouldn't such that's theirs themselves there's they'd
    they'll they're they've through under until upon very wasn't we'd we'll we're we've weren't what's when's
    where's while who's whom why's won't wouldn't you'd you'll you're you've yours yourself yourselves
    """.split()
)

_LEARNED = {"amb": "ambience", "annoy": "annoyance", "che": "cheque", "disappro": "disapproval", "pat": "patio"}
"""Tokens of which nine of ten training answers that they begin, ten at least, go on alike; encoder 9340485c1f5e."""

_WORD = re.compile(r"[^\W\d_]+")
_SHORTEST = 3  # letters of a word that says anything
_PLURALS = (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("zes", "z"), ("s", ""))
_ENDINGS = (("ing", 2), ("ed", 2), ("er", 4), ("ly", 4))  # with the least letters before them
_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([^aeiouylsz])\1$")


def in_whole_words(words: Iterable[str], text: str) -> list[str]:
    """Return a model's words for a text with fragments completed, each once; those that nothing completes are left out.

    A fragment becomes the commonest word of the text that it begins, itself among them and the first of equals; else
    the word by which the shipped model's training answers go on.
    """
    fragments = {word for word in words if is_fragment(word)}
    if not fragments:
        return list(dict.fromkeys(words))
    written = Counter(_WORD.findall(text.casefold()))
    whole = (_completed(word, written) if word in fragments else word for word in words)
    return list(dict.fromkeys(filter(None, whole)))


def shown_words(words: Sequence[str], text: str, question: str = "", named: int = 0) -> list[str]:
    """Return a model's words for a text as everything shows them: whole, each in one form, none of the question's.

    Args:
        words: as they are stored.
        text: what they were read out of.
        question: what was asked.
        named: how many of the words, from the first, are answers that somebody gave, which stay as they are.
    """
    return [*words[:named], *distinct(in_whole_words(words[named:], text), question)]


def is_fragment(word: str) -> bool:
    """Whether a word in lower case is no English word and begins one; of another language's words hardly any does."""
    words = _english()
    place = bisect_left(words, word)
    return place < len(words) and words[place] != word and words[place].startswith(word)


def _completed(fragment: str, written: Mapping[str, int]) -> str | None:
    begun = [word for word in written if word.startswith(fragment) and word not in STOPWORDS]
    return min(begun, key=lambda word: (-written[word], word), default=_LEARNED.get(fragment))


@cache
def _english() -> list[str]:
    """Return the English words of three letters or more in ascending order, none that is rare beside one it begins."""
    packed = resources.files("retriever.core").joinpath("english_words.txt.gz").read_bytes()
    return gzip.decompress(packed).decode("ascii").split()


def distinct(words: Iterable[str], question: str = "") -> list[str]:
    """Return the words of an answer that say something: of the forms of one word the first, none of the question's.

    Stop words and words of one or two letters are left out.
    """
    known = {stem(word) for word in _WORD.findall(question)}
    kept = []
    for word in words:
        if len(word) >= _SHORTEST and word.casefold() not in STOPWORDS and stem(word) not in known:
            known.add(stem(word))
            kept.append(word)
    return kept


@lru_cache(100_000)
def stem(word: str) -> str:
    """Return what the regular forms of an English word have in common: ``work`` of works, worked, working and workers.

    Endings are taken off as Porter ("An algorithm for suffix stripping", 1980) does in his first steps. Some words that
    only look alike meet (corner, corn), irregular forms do not (break, broke).
    """
    word = word.casefold().removesuffix("'s").removesuffix("\u2019s")
    if len(word) > _SHORTEST and not word.endswith(("ss", "us", "is")):
        ending, instead = next((pair for pair in _PLURALS if word.endswith(pair[0])), ("", ""))
        word = word.removesuffix(ending) + instead
    for ending, least in _ENDINGS:
        root = word.removesuffix(ending)
        if least <= len(root) < len(word) and _VOWEL.search(root) and not word.endswith("eed"):
            word = _DOUBLED.sub(r"\1", root) if len(root) > _SHORTEST else root
            break
    if len(word) > _SHORTEST and word.endswith("y"):
        word = word[:-1] + "i"
    return word.removesuffix("e")
