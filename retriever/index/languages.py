"""The language of an index: named by its user, or heard from the texts themselves.

What is heard is told in a note, and so is what to do about it. Where the texts are in several languages, each document
gets the field ``language``, to filter and compare by.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from retriever.core.languages import ALIASES, ENGLISH, Language, count_words, language, languages
from retriever.core.text import counted
from retriever.core.types import BadRow, Document
from retriever.corpus.rows import first_of
from retriever.encoders.catalog import CATALOG
from retriever.index.sources.encoders import DEFAULT_BASE
from retriever.store.database import Store
from retriever.store.word_index import LANGUAGE

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

MULTILINGUAL = "multilingual"
"""Name of the encoder for other languages than English, of texts as they are and under a question."""

AUTO = "auto"
"""In the place of a language's code: the commonest language of the texts."""

FIELD = "language"
"""The metadata field with the language of a document, where there are several."""

TOLD_APART = "languages_told_apart"
"""The setting that says that documents get the field."""

_LOOKED_AT = 500  # documents, the first ones
_LEAST_TEXTS = 20  # from which on English that was not asked for is doubted
_LEAST_WORDS = 5  # of a text whose language can be told
_MOST_CHARACTERS = 600  # of a text that are looked at
_SEVERAL = 0.05  # of the texts, which another language has where there are several
_NAMED = 4  # languages in a note


@dataclass(frozen=True, slots=True)
class Heard:
    """How many of some texts are in which language, by its code, the commonest first."""

    texts: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many texts said enough to tell."""
        return sum(self.texts.values())

    @property
    def most(self) -> Language | None:
        """The commonest language; None where nothing was heard, or where it is not a known one."""
        return languages().get(next(iter(self.texts), ""))

    @property
    def several(self) -> bool:
        """Whether a second language has more than a few texts."""
        return sum(texts >= max(2, _SEVERAL * self.count) for texts in self.texts.values()) > 1

    def __str__(self) -> str:
        """Return the languages with their shares, for people."""
        named = [
            f"{_name(code)} {texts / self.count:.0%}" for code, texts in self.texts.items() if texts > 0.01 * self.count
        ]
        return ", ".join(named[:_NAMED])


@dataclass(slots=True)
class Settled:
    """The rows of a run, and what is to be said of their language."""

    rows: Iterable[Document | BadRow]
    notes: list[str] = field(default_factory=list)


def settle(store: Store, wanted: str | None, rows: Iterable[Document | BadRow], base: str | None) -> Settled:
    """Settle the language of an index before its documents are stored; the index remembers it.

    Args:
        store: the index's database.
        wanted: a language's code, `AUTO`, or None for what the index remembers, which is English where it was told
            nothing.
        rows: the documents; the first are looked at where the language is to be heard.
        base: name of the base encoder; None where there is none.

    Raises:
        UsageError: the language is not known.
    """
    settled = Settled(rows)
    if wanted not in (None, AUTO):
        _speak(store, language(str(wanted)), settled)
    elif store.settings.get(LANGUAGE) is None and (wanted == AUTO or not store.documents.count_to(1)):
        first, rest = first_of(rows, _LOOKED_AT)
        settled.rows = chain(first, rest)
        heard = hear(row.text for row in first if isinstance(row, Document))
        if wanted == AUTO:
            _adopt(store, heard, first, settled)
        elif heard.count >= _LEAST_TEXTS and heard.most not in (None, ENGLISH):
            settled.notes.append(f"Texts looked at: {heard}. Add --language auto to search their words accordingly.")
            settled.notes += base_note(base, heard.most)
    if wanted is not None:
        settled.notes += base_note(base, store.words.language)
    if store.settings.get(TOLD_APART):
        settled.rows = map(told_apart, settled.rows)
    else:
        _identifier.cache_clear()
    return settled


def hear(texts: Iterable[str]) -> Heard:
    """Return the languages of some texts; those of one or two words are left out."""
    counts = Counter(code for text in texts if (code := language_of(text)))
    return Heard(dict(counts.most_common()))


def language_of(text: str) -> str:
    """Return the code of the language that a text is most likely in; empty where it has too few words to tell."""
    if count_words(text) < _LEAST_WORDS:
        return ""
    code, _ = _identifier().classify(text[:_MOST_CHARACTERS])
    return ALIASES.get(code, str(code))


@lru_cache(maxsize=1)
def _identifier() -> "LanguageIdentifier":
    """Return py3langid's model, which takes 75 MiB; `settle` lets it go where no further text is looked at."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)


def with_others(spoken: Language, documents: Sequence[Document]) -> Language:
    """Return a language with the others that documents say they are in, by their field, more than a few of them."""
    counts = Counter(code for document in documents if isinstance(code := document.metadata.get(FIELD), str))
    least = max(2, _SEVERAL * counts.total())
    others = [code for code, count in counts.items() if code in languages() and code != spoken.code and count >= least]
    return replace(spoken, others=tuple(sorted(others)))


def told_apart(row: Document | BadRow) -> Document | BadRow:
    """Return a document with the field of its language, unless it has such a field or its language cannot be told."""
    if isinstance(row, BadRow) or FIELD in row.metadata or not (code := language_of(row.text)):
        return row
    return replace(row, metadata={**row.metadata, FIELD: code})


def _adopt(store: Store, heard: Heard, first: Iterable[Document | BadRow], settled: Settled) -> None:
    """Take the commonest language of the texts, and say so; what is English as expected is not worth a note."""
    chosen = heard.most or ENGLISH
    if not chosen.is_english or (heard.texts and heard.most is None):
        looked = f"{counted(heard.count, 'text')} looked at: {heard}"
        settled.notes.append(f"Words are searched as {chosen.name} ({looked}).")
    _speak(store, chosen, settled)
    if heard.several and not any(FIELD in row.metadata for row in first if isinstance(row, Document)):
        store.settings.set(TOLD_APART, True)
        settled.notes.append(
            f"There are texts in several languages: each document has the field {FIELD}, to filter "
            f"(--where \"{FIELD} = '{next(iter(heard.texts))}'\") and to compare by (--by {FIELD})."
        )


def _speak(store: Store, chosen: Language, settled: Settled) -> None:
    if chosen != store.words.language and store.documents.count_to(1):
        settled.notes.append(f"The words of the stored texts are searched as {chosen.name} from now on.")
    store.words.speak(chosen)


def base_note(base: str | None, spoken: Language | None) -> list[str]:
    """Return a note where the base encoder does not read the language of an index: what to do."""
    if base != CATALOG[DEFAULT_BASE].spec or spoken in (None, ENGLISH):
        return []
    return [
        "The base encoder of this index reads English: "
        f"`retriever reembed --encoder {MULTILINGUAL} --base none` gives it one that reads a hundred languages."
    ]


def _name(code: str) -> str:
    known = languages().get(code)
    return known.name if known else code
