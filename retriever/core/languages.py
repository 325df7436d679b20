"""Languages of texts: stems of words, words that say nothing of a topic, and what of a text a word index holds.

English is what `words` says of it; the others are rows of ``languages.toml``. Where no spaces part words, characters
that stand together are searched, and words are told by their script alone.
"""

import re
import threading
import tomllib
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

from retriever.core.errors import UsageError
from retriever.core.registry import nearest
from retriever.core.words import QUERY_STOPWORDS, STOPWORDS
from retriever.core.words import stem as english_stem

_WIDE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff"
WIDE = re.compile(f"[{_WIDE}]")
"""Letters of scripts without spaces, and of Korean."""

_LETTERS_A_WORD = 2  # of those
_MARKS = "\u0300-\u036f\u064b-\u0652\u0900-\u0903\u093a-\u094f\u0b82-\u0bcd\u0e31-\u0e4e\u0eb1-\u0ecd\u102b-\u103e"
_MARKS += "\u17b4-\u17d3"  # on or behind a letter, which \w leaves out
_PART = f"[^\\W_](?:[^\\W_]|[{_MARKS}])*"
_TERM = re.compile(f"{_PART}(?:-{_PART})*")
_RUN = re.compile(f"[{_WIDE}]+|[^{_WIDE}]+")
_LETTER = re.compile("[a-z]")  # that an apostrophe left: "geht's"
_WORD = re.compile(r"[^\W\d_]{2,}(?:['\u2019-][^\W\d_]+)*")
_WORD_ELSEWHERE = re.compile(f"[^\\W\\d_](?:[^\\W\\d_]|[{_MARKS}])+(?:-[^\\W\\d_]+)*")  # "l'huile" is two
_ENGLISH_DENIES = re.compile("\\b(?:no|not|never|none|nothing|nobody|neither|nor|without|cannot)\\b|n['\u2019]t\\b")
ALIASES = {"nb": "no", "nn": "no"}
"""Codes of languages that are rows under another one, as they are written too."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of texts.

    Attributes:
        code: ISO 639-1, such as ``de``.
        name: in English.
        stemmer: Snowball's name of its stemmer; empty for none.
        grams: how many characters are searched together where words are not apart; 0 where spaces part them.
        stop: words, in lower case, that say nothing of a topic.
        denying: words that deny what stands beside them.
        others: codes of further languages that texts are in, whose words without a topic are left out too.
    """

    code: str
    name: str
    stemmer: str = ""
    grams: int = 0
    stop: frozenset[str] = frozenset()
    denying: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()

    @property
    def is_english(self) -> bool:
        """Whether it is English, be it a copy of `ENGLISH`."""
        return self.code == "en"

    def stem(self, word: str) -> str:
        """Return what the forms of a word have in common, in lower case."""
        if self.is_english:
            return english_stem(word)
        return _stem(self.stemmer, word.casefold()) if self.stemmer else word.casefold()

    def words(self, text: str) -> list[str]:
        """Return the words of a text that say something, in lower case and in their order.

        >>> language("fr").words("L'appareil fait un bruit terrible")
        ['appareil', 'bruit', 'terrible']
        """
        if self.is_english and not self.others:
            return [word for token in _WORD.findall(text) if (word := token.casefold()) not in STOPWORDS]
        composed = unicodedata.normalize("NFC", text)
        if ENGLISH.code in (self.code, *self.others):  # "don't" is one word there
            composed = _WORD.sub(lambda word: " " if word[0].casefold() in STOPWORDS else word[0], composed)
        parted = next((_PARTED[code] for code in (self.code, *self.others) if code in _PARTED), None)
        apart = composed if parted is None else WIDE.sub(" ", composed)
        words = [word.casefold() for word in _WORD_ELSEWHERE.findall(apart)]
        stop = self.stop.union(*(languages()[code].stop for code in self.others))
        return [word for word in (*words, *(parted(composed) if parted else ())) if word not in stop]

    def denies(self, text: str) -> bool:
        """Whether a text in lower case has a word that denies something."""
        if any(languages()[code].denies(text) for code in self.others):
            return True
        if self.is_english:
            return _ENGLISH_DENIES.search(text) is not None
        if self.grams and self.code != "ko":
            return any(word in text for word in self.denying)
        return not self.denying.isdisjoint(_TERM.findall(text))

    def searched(self, text: str) -> str | None:
        """Return what a word index holds of a text, parted by spaces; None for the text itself, as it is in English.

        Where characters are searched, those at the end of a run are there in smaller numbers too, so that each of them
        begins a term.
        """
        if self.is_english:
            return None
        return " ".join(term for word in self._terms(text) for term in self._parts(word, ends=True))

    def query_terms(self, query: str) -> list[str]:
        """Return the terms of a query, any of which a text should have, as FTS5 writes them.

        Words that say nothing are left out unless there are no others; a hyphened word is a phrase.
        """
        words = list(dict.fromkeys(word.lower() for word in _QUERY_WORD.findall(query)))
        if self.is_english:
            return [f'"{word}"' for word in ([word for word in words if word not in QUERY_STOPWORDS] or words)]
        words = list(dict.fromkeys(self._terms(query)))
        telling = [word for word in words if word not in self.stop and not _LETTER.fullmatch(word)] or words
        return list(dict.fromkeys(term for word in telling for term in self._query_parts(word)))

    def _terms(self, text: str) -> list[str]:
        return _TERM.findall(unicodedata.normalize("NFKC", text).casefold())

    def _parts(self, word: str, *, ends: bool) -> Iterator[str]:
        """Yield the terms of a word: its stem, or the characters that stand together."""
        for part in word.split("-"):
            for run in _RUN.findall(part):
                if not WIDE.match(run):
                    yield self.stem(run)
                    continue
                size = self.grams or _LETTERS_A_WORD
                last = len(run) if ends else max(1, len(run) - size + 1)
                yield from (run[at : at + size] for at in range(last))

    def _query_parts(self, word: str) -> Iterator[str]:
        parts = list(self._parts(word, ends=False))
        if "-" in word and not WIDE.search(word):
            yield f'"{" ".join(parts)}"'
            return
        size = self.grams or _LETTERS_A_WORD
        for part in parts:
            yield f'"{part}"*' if WIDE.match(part) and len(part) < size else f'"{part}"'


_QUERY_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")

ENGLISH = Language("en", "English", "porter", stop=STOPWORDS)
"""The language of an index that was told no other."""


def language(code: str) -> Language:
    """Return a language by its code.

    Raises:
        UsageError: it is not known.
    """
    known = languages()
    wanted = ALIASES.get(code.strip().lower(), code.strip().lower())
    if wanted not in known:
        raise UsageError(f"Unknown language {code!r}.", hint=nearest(wanted, known))
    return known[wanted]


@cache
def languages() -> dict[str, Language]:
    """Return the known languages by their codes."""
    table = tomllib.loads(resources.files("retriever.core").joinpath("languages.toml").read_text(encoding="utf-8"))
    rows = {
        code: Language(
            code,
            row["name"],
            row.get("stemmer", ""),
            row.get("grams", 0),
            frozenset(row.get("stop", "").casefold().split()),
            frozenset(row.get("denies", "").split()),
        )
        for code, row in table.items()
    }
    return {ENGLISH.code: ENGLISH, **rows}


def count_words(text: str) -> int:
    """Count the words of a text; in scripts without spaces, about.

    >>> count_words("two words"), count_words("\u96fb\u6c60\u3067\u3059\u3002")
    (2, 2)
    """
    return len(WIDE.sub(" ", text).split()) + len(WIDE.findall(text)) // _LETTERS_A_WORD


_stemming = threading.Lock()  # a stemmer keeps the word that it is at


@lru_cache(200_000)
def _stem(stemmer: str, word: str) -> str:
    with _stemming:
        stemmed: str = _stemmer(stemmer)(word)
    return stemmed


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    import snowballstemmer

    made: Callable[[str], str] = snowballstemmer.stemmer(name).stemWord
    return made


_KANJI = r"\u4e00-\u9fff\u3400-\u4dbf\u3005"
_JAPANESE = re.compile(
    rf"[\u30a1-\u30fa\u30fc]{{2,}}|[{_KANJI}]{{2,}}"
    rf"|(?<![{_KANJI}])[{_KANJI}](?=[はがをにのでともやへ、。\s]|$)"
)
"""Words in katakana, two kanji or more, and one before a particle; what is in hiragana is grammar for the most part."""

_HAN = re.compile(f"[{_KANJI}]+")
_HANGUL = re.compile("[\uac00-\ud7a3]{2,}")
_PARTICLE = re.compile("(?:에서|으로|까지|부터|처럼|보다|[은는이가을를에의도로와과만])$")


def _japanese(text: str) -> list[str]:
    return _JAPANESE.findall(text)


def _chinese(text: str) -> list[str]:
    """Return pairs of characters, of which most words are made, without those that have one of grammar alone."""
    stop = languages()["zh"].stop
    pairs = [run[at : at + 2] for run in _HAN.findall(text) for at in range(len(run) - 1)]
    return [pair for pair in pairs if stop.isdisjoint(pair)]


def _korean(text: str) -> list[str]:
    """Return words without the particle behind them."""
    stop = languages()["ko"].stop
    bare = ((word, _PARTICLE.sub("", word)) for word in _HANGUL.findall(text) if word not in stop)
    return [short if len(short) > 1 else word for word, short in bare]


_PARTED: dict[str, Callable[[str], list[str]]] = {"ja": _japanese, "zh": _chinese, "ko": _korean}
"""Finds the words, by code, of a language that does not part them, or parts them with their particles."""
