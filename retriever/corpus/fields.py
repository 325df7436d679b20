"""Which fields of a row hold what: named by the user, or recognised by their names and values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from retriever.core.errors import InputError
from retriever.corpus.values import number_date, star_value, written_date

ID_FIELDS = ("_id", "id", "docid", "doc_id")
TEXT_FIELDS = ("text", "contents", "body", "review", "content")
TITLE_FIELDS = ("title", "review title", "review_title", "reviewtitle")
_SHARE = 0.8  # of the values that must be of a column's kind
_LONG = 20  # characters that a text column without a known name has on average, at least
_NAMES = {
    "text": "text reviewtext reviewbody body review contents content comment comments feedback message description "
    "rezension rezensionstext bewertungstext kommentar nachricht beschreibung commentaire comentario",
    "id": "id docid reviewid commentid ticketid uuid responseid respondentid recordid",
    "product": "product productname producttitle item itemname productid asin parentasin model brand",
    "category": "category productcategory maincategory department section topic",
    "stars": "stars rating score starrating overall reviewrating reviewscore points sterne sternebewertung bewertung "
    "étoiles estrellas puntuación calificación valoración",
    "date": "date reviewdate reviewtime timestamp created createdat datetime time unixreviewtime submitted posted "
    "reviewsubmitdateandtime reviewsubmitdate datesubmitted recordeddate enddate startdate datum bewertungsdatum "
    "erstelltam fecha",
}
_DATED = re.compile(
    "date|datum|fecha|timestamp|time$|created|updated|submitted|posted|published|reviewed|erstellt|zeitstempel|^(month|monat|mois|mes|ts)$"
)


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Which fields hold id and text: the named ones, or the first present of the usual ones, in any case.

    A named field that no row has is looked for as a path of keys joined by dots.

    Attributes:
        id: the id's field.
        text: the text's field.
        text_needed: whether a table without a text column is refused.
        spare_id: the id's field where none has a usual name; empty for none.
        spare_text: the text's field where none has a usual name; empty for none.
    """

    id: str | None = None
    text: str | None = None
    text_needed: bool = True
    spare_id: str = ""
    spare_text: str = ""

    def find_id(self, names: Iterable[str]) -> str | None:
        """Return the id's field, or None if there is none."""
        return _find(self.id, ID_FIELDS, self.spare_id, tuple(names))

    def find_text(self, names: Iterable[str]) -> str | None:
        """Return the text's field, or None if there is none."""
        return _find(self.text, TEXT_FIELDS, self.spare_text, tuple(names))

    def find_title(self, names: Iterable[str]) -> str | None:
        """Return the field of a title that goes before the text, or None if there is none."""
        title = _usual(TITLE_FIELDS, tuple(names))
        return None if title == self.text else title

    def as_text(self, names: Iterable[str]) -> set[str]:
        """Return the fields whose values stay text in tables, however much they look like numbers."""
        present = list(names)
        return {name for name in (self.find_id(present), self.find_text(present), self.find_title(present)) if name}

    def check_columns(self, file: str, columns: Sequence[str], *, nested: bool = False) -> None:
        """Raise `InputError` unless a table's columns include the text and, if named, the id.

        Args:
            file: as the user named it.
            columns: the names.
            nested: whether columns hold objects, so that names can be paths into them.
        """
        shown = ", ".join(repr(column) for column in columns if column)

        def lacks(name: str) -> bool:
            return name not in columns and not (nested and any(name.startswith(f"{column}.") for column in columns))

        if self.id and lacks(self.id):
            raise InputError(f"{file} has no column {self.id!r}.", hint=f"--id-field takes one of: {shown}.")
        if self.text_needed and (lacks(self.text) if self.text else not self.find_text(columns)):
            missing = f"no column {self.text!r}" if self.text else "no text column"
            raise InputError(f"{file} has {missing}.", hint=f"Name one with --text-field: {shown}.")


def keys_to(values: Mapping[str, object], name: str | None) -> tuple[str, ...] | None:
    """Return the keys that lead to a field: of its exact name, or else joined by dots; None where there is none."""
    if name is None:
        return None
    if name in values:
        return (name,)
    at = name.find(".")
    while at >= 0:
        inner = values.get(name[:at])
        if isinstance(inner, Mapping) and (keys := keys_to(inner, name[at + 1 :])) is not None:
            return (name[:at], *keys)
        at = name.find(".", at + 1)
    return None


def value_at(values: Mapping[str, object], keys: Sequence[str]) -> object:
    """Return the value that some keys lead to; None where one is not there."""
    value: object = values
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def changed(values: Mapping[str, object], keys: Sequence[str], value: object) -> dict[str, object]:
    """Return an object with another value where some keys lead to; the one given stays as it is."""
    first, *rest = keys
    inner = values[first]
    return {**values, first: changed(inner, rest, value) if rest and isinstance(inner, Mapping) else value}


def without(values: Mapping[str, object], keys: Sequence[str]) -> dict[str, object]:
    """Return an object without the value that some keys lead to, nor the objects that held nothing else."""
    first, *rest = keys
    inner = values.get(first)
    left = without(inner, rest) if rest and isinstance(inner, Mapping) else {}
    return {name: left if name == first else value for name, value in values.items() if name != first or left}


def _find(named: str | None, usual: tuple[str, ...], spare: str, names: tuple[str, ...]) -> str | None:
    first = named or _usual(usual, names) or spare
    here = first in names or any(first.startswith(f"{name}.") for name in names)
    return first if first and here else None


@lru_cache(maxsize=4096)
def _usual(usual: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """Return the first of the usual names that is there, preferably as it is and else in another case."""
    folded = {name.casefold(): name for name in reversed(names)}
    as_it_is = (name for name in usual if name in names)
    return next(as_it_is, None) or next((folded[name] for name in usual if name in folded), None)


@dataclass(frozen=True, slots=True)
class Columns:
    """The field of each role; empty where there is none.

    Attributes:
        text: what is read and searched.
        id: what tells rows apart.
        product: what a review is about.
        category: the kind of product.
        stars: the rating, a number from 0 to 10.
        date: when it was written.
    """

    text: str = ""
    id: str = ""
    product: str = ""
    category: str = ""
    stars: str = ""
    date: str = ""


def recognise(rows: Sequence[Mapping[str, object]]) -> Columns:
    """Return which fields hold what in some rows, each field in one role at most.

    The text is the column with the longest texts where none has a usual name; empty where none has sentences.
    """
    columns: dict[str, list[object]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).extend([] if value is None or value == "" else [value])
    roles: dict[str, str] = {}
    for role, fits in _FITS.items():
        named = (name for known in _NAMES[role].split() for name in columns if _plain_name(name) == known)
        free = [name for name in named if name not in roles.values() and columns[name] and fits(columns[name])]
        roles[role] = next((name for name in free if 2 * len(columns[name]) >= len(rows)), next(iter(free), ""))
    if not roles["text"]:
        prose = {name: column for name, column in columns.items() if name not in roles.values() and _is_prose(column)}
        lengths = {name: sum(len(text) for text in prose[name] if isinstance(text, str)) for name in prose}
        longest = max(prose, key=lambda name: lengths[name] / len(prose[name]), default="")
        roles["text"] = longest if longest and lengths[longest] >= _LONG * len(prose[longest]) else ""
    return Columns(**roles)


def is_named(name: str, role: str) -> bool:
    """Return whether a field's name is a usual one of a role of `Columns`."""
    return _plain_name(name) in _NAMES[role].split()


def is_usual(name: str) -> bool:
    """Return whether a field's name is a usual one of any role."""
    return any(is_named(name, role) for role in _NAMES)


def is_dated(name: str) -> bool:
    """Return whether a field's name lets expect dates."""
    plain = _plain_name(name)
    return bool(_DATED.search(plain)) and "version" not in plain


def counts_days(name: str) -> bool:
    """Return whether a field's name lets expect days, as spreadsheets count them: not that of a response time."""
    plain = _plain_name(name)
    return is_dated(name) and ("time" not in plain or "date" in plain)


def _plain_name(name: str) -> str:
    """Return the last part of a field's name, letters and digits alone: ``review.Star_Rating`` is ``starrating``."""
    return re.sub(r"[\W_]", "", name.rsplit(".", 1)[-1].casefold())


def is_date(value: object) -> bool:
    """Return whether a value is a date as people or programs write it, the order of day and month open or not."""
    if isinstance(value, str):
        return written_date(value) is not None
    return isinstance(value, int | float) and number_date(value, days=True) is not None


def _is_prose(column: Sequence[object]) -> bool:
    """Return whether a column has texts that are neither dates nor addresses and keys, which have no white space."""
    texts = [value for value in column if isinstance(value, str)]
    words = sum(not value.isascii() or len(value.split()) > 1 for value in texts)
    return bool(texts) and words * 2 >= len(texts) and not _FITS["date"](texts)


def _mostly(fits: Callable[[object], bool]) -> Callable[[Sequence[object]], bool]:
    return lambda column: sum(map(fits, column)) >= _SHARE * len(column)


def _is_label(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[Sequence[object]], bool]] = {
    "text": _mostly(lambda value: isinstance(value, str)),
    "id": lambda column: _mostly(_is_label)(column) and len(set(map(str, column))) == len(column),
    "stars": _mostly(lambda value: star_value(value) is not None),
    "date": _mostly(is_date),
    "product": _mostly(_is_label),
    "category": _mostly(_is_label),
}
