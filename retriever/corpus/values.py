"""Ratings and dates as people and programs write them: "★★★★☆" as a number, "3. Mai 2024" as an ISO date.

Day and month in digits alone (03/04/2024) are read in the order that a column of such dates decides; written with dots
the day comes first. A time of day stays behind the date, with its offset. A month alone stays one (2024-05); a quarter
is its first day.
"""

import re
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from retriever.core.moments import moment_of

_MOST_STARS = 10
_LONGEST_RATING, _LONGEST_DATE = 60, 100  # characters
_WORDS = (
    "zero null cero",
    "one ein eine einen un une uno una",
    "two zwei deux dos due",
    "three drei trois tres tre",
    "four vier quatre cuatro quattro",
    "five fünf cinq cinco cinque",
    "six sechs",
    "seven sieben sept siete",
    "eight acht huit ocho",
    "nine neun neuf nueve",
    "ten zehn dix diez",
)
_NUMBER = {word: number for number, words in enumerate(_WORDS) for word in words.split()}
_STAR = r"(?:stars?|sternen?|stern|étoiles?|etoiles?|estrellas?|stelle|sterren|★|⭐\ufe0f?)"
_COUNTED = rf"(?:\d+(?:[.,]\d+)?|{'|'.join(_NUMBER)})"
_RATING = re.compile(
    rf"(?:(?:rated|bewertet\s+mit|noté)\s+)?(?P<value>{_COUNTED})\s*(?P<explicit>-?\s*{_STAR}(?:\s*(?:out\s+of|of|von|sur|de|su|/)\s*{_COUNTED})?"
    rf"|(?:out\s+of|of|von|sur|de|su)\s*{_COUNTED}(?:\s*{_STAR})?|/\s*\d+(?:[.,]\d+)?(?:\s*{_STAR})?)?",
    re.IGNORECASE,
)
_DRAWN = re.compile(r"(?P<full>(?:[★⭐🌟]\ufe0f?\s?)*)(?P<empty>(?:[☆✩]\s?)*)")
_FIRST_SECOND, _LAST_SECOND = 10**8, 10**10  # from 1973 to 2286
_UNITS = (1, 10**3, 10**6, 10**9)  # of seconds, milli-, micro- and nanoseconds
_FIRST_DAY, _LAST_DAY = 25_569, 73_050  # of spreadsheets: from 1970 to 2100
_DAY_ZERO = datetime(1899, 12, 30)
_YEARS = range(1900, 2101)  # of dates in digits alone
_CENTURY = 69  # of years in two digits, the first that is of the twentieth
_MONTHS = (
    "january jan januar jänner janvier janv enero ene gennaio gen januari janeiro",
    "february feb februar février févr fevrier febrero febbraio februari fevereiro fev",
    "march mar märz maerz mär mrz mars marzo maart mrt março",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag mei maio",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug août aout agosto ago augustus",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre déc decembre diciembre dic dicembre dezembro",
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}
_LEAD = (
    r"(?:(?:reviewed|posted|rezension|bewertet|geschrieben|commenté|avis|reseña\w*|calificado|recensi\w+)\b.{0,60}?"
    r"\b(?:on|vom|am|le|el|il)\s+)?(?:[^\W\d_]{2,10}\.?,?\s+)?"
)
_OFFSETS = {
    **dict.fromkeys(("z", "ut", "utc", "gmt"), "Z"),
    **{"est": "-05:00", "edt": "-04:00", "cst": "-06:00", "cdt": "-05:00", "mst": "-07:00", "mdt": "-06:00"},
    **{"pst": "-08:00", "pdt": "-07:00", "cet": "+01:00", "cest": "+02:00"},
}
_ZONE = rf"(?P<zone>(?:UTC|GMT)?[+-]\d{{1,2}}(?::?\d{{2}})?|{'|'.join(_OFFSETS)})"
_CLOCK = (
    r"(?P<hour>\d{1,2})(?P<part>[:.h])(?P<minute>\d{2})(?:(?P=part)(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
)
_TIME = (
    rf"(?:(?:\s*,?\s+(?:(?:at|@|um|à|a\s+las|alle)\s+)?|[T:-]){_CLOCK}\s*(?P<half>[ap]\.?m\.?)?(?:\s+uhr)?\s*"
    rf"(?:{_ZONE}(?:\s+(?:\([\w\s]+\)|[A-Z]{{3,4}}))?)?)?"
)
_WORD = r"(?P<month>[^\W\d_]{3,10})\.?"
_DAY = r"(?P<day>\d{1,2})(?:\.|st|nd|rd|th|er|º)?"
_YEAR = r"(?P<year>\d{4})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_TIME}",
        rf"{_YEAR}[年년]\s*(?P<month>\d{{1,2}})[月월]\s*(?P<day>\d{{1,2}})[日일]{_TIME}",
        rf"{_LEAD}(?P<one>\d{{1,2}})(?P<mark>[-/.])\s?(?P<other>\d{{1,2}})(?P=mark)\s?(?P<year>\d{{4}}|\d{{2}}){_TIME}",
        rf"{_LEAD}{_DAY}[\s/-]*(?:de\s+|of\s+)?{_WORD},?[\s/-]*(?:de\s+|del\s+)?{_YEAR}{_TIME}",
        rf"(?P<day>\d{{1,2}})(?P<dash>[-/]){_WORD}(?P=dash)(?P<year>\d{{2}}){_TIME}",
        rf"{_LEAD}{_WORD}\s*{_DAY},?\s+{_YEAR}{_TIME}",
        rf"(?P<month>\d{{1,2}}) (?P<day>\d{{1,2}}), {_YEAR}{_TIME}",  # of Amazon's old data sets
        rf"{_LEAD}{_WORD}\s+{_DAY}\s+{_CLOCK}(?:\s+{_ZONE})?\s+{_YEAR}",  # of C's ctime, and of Twitter
    )
)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d.*)?")
_MONTH_ALONE = re.compile(
    rf"{_YEAR}[-/](?P<number>\d{{1,2}})|(?P<before>\d{{1,2}})[-/.](?P<behind>\d{{4}})"
    rf"|{_WORD}(?:[\s-]+(?=\d{{4}})|-|\s?')(?P<after>\d{{2}}|\d{{4}})",
    re.IGNORECASE,
)
_QUARTER = re.compile(
    rf"{_YEAR}\s?[-/]?\s?Q(?P<number>[1-4])|Q(?P<before>[1-4])[\s/-]\s?(?P<behind>\d{{4}})", re.IGNORECASE
)
_SINCE_1970 = re.compile(r"/Date\((?P<number>-?\d{1,15})(?:[+-]\d{4})?\)/")
_COMPACT = re.compile(r"(\d{4})(\d{2})(?:(\d{2})(?:T?(\d{2})(\d{2})(\d{2})Z?)?)?")
_MISSING = frozenset({"null", "(null)", "\\n", "n/a", "#n/a", "nan", "<na>", "-"})
_MISSING_NUMBERS = _MISSING | {
    *"-- na n.a. k.a. none nat inf -inf infinity -infinity #div/0! #value! #ref! #num! #null! #name?".split(),
    *"#nv #wert! #bezug! #zahl! #n/d #valeur! #nombre!".split(),
    *("0000-00-00", "0000-00-00 00:00:00"),  # of MySQL
}


def is_missing(value: str, *, number: bool = False) -> bool:
    """Return whether a text only says that there is no value; a few more say so where numbers or dates are expected."""
    return len(value) < 20 and value.strip().casefold() in (_MISSING_NUMBERS if number else _MISSING)


def star_value(value: object) -> int | float | None:
    """Return a rating as a number from 0 to 10: of 4, "4.5", "4 out of 5 stars"; None for anything else."""
    if isinstance(value, str):
        value = _read(value)[0]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_STARS:
        return None
    return int(value) if value == int(value) else value


def says_stars(value: object) -> bool:
    """Return whether a text says itself that it is a rating, in whatever column it stands."""
    return isinstance(value, str) and _read(value)[1]


@lru_cache(maxsize=1 << 14)
def _read(text: str) -> tuple[float | None, bool]:
    """Return the number a text names, and whether it says that these are stars."""
    if len(text) > _LONGEST_RATING:
        return None, False
    text = text.strip()
    drawn = _DRAWN.fullmatch(text)
    if text and drawn:
        return float(sum(sign in "★⭐🌟" for sign in drawn["full"])), True
    match = _RATING.fullmatch(text if text.isascii() else unicodedata.normalize("NFKC", text).strip())
    if not match:
        return None, False
    explicit = match["explicit"] or ""
    number = match["value"].casefold().replace(",", ".")
    says = bool(explicit) and not explicit.startswith("/") and number not in _NUMBER  # "Five stars" is a usual title
    return float(_NUMBER.get(number, number)), says


@dataclass(frozen=True, slots=True)
class WrittenDate:
    """A date somebody wrote.

    Attributes:
        plain: as ISO has it, where nothing is open; what is left is of other dates.
        year: in full.
        numbers: month and day; where their order is open, as they are written.
        mark: the separator where the order of day and month is open, else empty.
        time: time of day as ISO has it with its ``T``; empty without.
        loose: whether versions and other numbers look the same: 3.5.24 and 2024.1.2.
    """

    plain: str = ""
    year: int = 0
    numbers: tuple[int, int] = (0, 0)
    mark: str = ""
    time: str = ""
    loose: bool = False

    @property
    def day_first(self) -> bool | None:
        """Whether the day comes first, as the numbers tell; None where they do not or it is not open."""
        return self.numbers[0] > 12 if self.mark and max(self.numbers) > 12 else None

    def iso(self, *, day_first: bool | None = None) -> str | None:
        """Return the date as ISO has it; None where it is none, or the order is open and ``day_first`` is None."""
        if self.plain:
            return self.plain
        month, day = self.numbers
        if self.mark:
            order = self.day_first if day_first is None else day_first
            if order is None:
                return None
            month, day = (day, month) if order else (month, day)
        try:
            return date(self.year, month, day).isoformat() + self.time
        except ValueError:
            return None


@lru_cache(maxsize=1 << 16)
def written_date(text: str) -> WrittenDate | None:
    """Read a text as a date; None where it is none."""
    if len(text) > _LONGEST_DATE:
        return None
    text = (text if text.isascii() else unicodedata.normalize("NFKC", text)).strip()
    if not any(map(str.isdecimal, text)):
        return None
    text = re.sub(r"\[[\w/+-]+\]$", "", text)  # a zone's name behind its offset, of Java
    if _ISO.fullmatch(text):
        with suppress(ValueError):
            datetime.fromisoformat(text)
            return WrittenDate(_iso_spelling(text))
    if "T" in text and (moment := _COMPACT.fullmatch(text)) and moment[4]:
        iso = number_date(text)
        return WrittenDate(iso + "Z" * text.endswith("Z")) if iso else None
    if since := _SINCE_1970.fullmatch(text):
        with suppress(OverflowError):
            return WrittenDate(_moment(int(since["number"]) / 1000))
    if quarter := _QUARTER.fullmatch(text):
        number = int(quarter["number"] or quarter["before"])
        return WrittenDate(f"{quarter['year'] or quarter['behind']}-{3 * number - 2:02}-01")
    if month := _MONTH_ALONE.fullmatch(text):
        digits, year = month["number"] or month["before"], month["year"] or month["behind"] or month["after"]
        number = int(digits or _MONTH.get(month["month"].casefold(), 0))
        year = _in_full(int(year))
        return WrittenDate(f"{year}-{number:02}", loose=True) if 1 <= number <= 12 and year in _YEARS else None
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    return _checked(match.groupdict()) if match else None


def _iso_spelling(text: str) -> str:
    """Return an ISO date with a ``T`` before its time and a colon in its offset."""
    text = f"{text[:10]}T{text[11:]}" if text[10:11] == " " else text
    time = text[10:].replace(",", ".")
    return text[:10] + re.sub(r" *([+-]\d{2}):?(\d{2})?$", lambda zone: f"{zone[1]}:{zone[2] or '00'}", time)


def _in_full(year: int) -> int:
    return year if year > 99 else year + (1900 if year >= _CENTURY else 2000)


def _checked(parts: dict[str, str | None]) -> WrittenDate | None:
    """Return the date of a match; None where no order of its numbers makes one."""
    time, mark, year = _time(parts), parts.get("mark") or "", int(parts["year"] or 0)
    if time is None:
        return None
    loose = year < 100 or (mark == "." and "one" not in parts)
    year = _in_full(year)
    if "one" in parts:
        numbers = int(parts["one"] or 0), int(parts["other"] or 0)
        if mark == ".":
            numbers, mark = numbers[::-1], ""
    else:
        name, mark = (parts["month"] or "").casefold(), ""
        numbers = int(name) if name.isdecimal() else _MONTH.get(name, 0), int(parts["day"] or 0)
    written = WrittenDate("", year, numbers, mark, time, loose)
    return written if any(written.iso(day_first=order) for order in ((True, False) if mark else (None,))) else None


def _time(parts: dict[str, str | None]) -> str | None:
    """Return the time of day as ISO has it, empty where there is none; None where it is not a time."""
    if parts["hour"] is None:
        return ""
    hour, minute, second = int(parts["hour"]), int(parts["minute"] or 0), int(parts["second"] or 0)
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half[0] in "pP" else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    zone = (parts["zone"] or "").lower()
    if offset := re.search(r"([+-])(\d{1,2}?):?(\d{2})?$", zone):
        zone = f"{offset[1]}{int(offset[2]):02}:{offset[3] or '00'}"
    fraction = f".{parts['fraction']}" if parts["fraction"] else ""
    return f"T{hour:02}:{minute:02}:{second:02}{fraction}{_OFFSETS.get(zone, zone)}"


def number_date(number: float | str, *, days: bool = False) -> str | None:
    """Return a number in a column of dates as ISO has it; None where it is none.

    20240506 and 202405 are dates, 20240506101200 has a time; others are seconds, milli-, micro- or nanoseconds since
    1970, and where ``days`` are taken for dates, a spreadsheet's days: 45418.
    """
    compact = _COMPACT.fullmatch(str(number).strip().removesuffix(".0"))
    if compact and int(compact[1]) in _YEARS:
        year, month, day, hour, minute, second = (int(part) if part else None for part in compact.groups())
        with suppress(ValueError):
            moment = datetime(year or 0, month or 0, day or 1, hour or 0, minute or 0, second or 0)
            return moment.isoformat() if hour is not None else moment.date().isoformat()[: 10 if day else 7]
    with suppress(ValueError):
        if isinstance(number, str):
            number = float(number) if "." in number else int(number)
        if days and not isinstance(number, bool) and _FIRST_DAY <= number <= _LAST_DAY:
            moment = _DAY_ZERO + timedelta(seconds=round(number * 86_400))
            return moment.isoformat() if number % 1 else moment.date().isoformat()
        return epoch_date(number)
    return None


def epoch_date(number: float) -> str | None:
    """Return seconds, milli-, micro- or nanoseconds since 1970 as ISO has them, at midnight as a date; else None."""
    if isinstance(number, bool):
        return None
    for unit in _UNITS:
        if _FIRST_SECOND * max(1, unit // 10) <= number <= _LAST_SECOND * unit:
            return _moment(number / unit)
    return None


def _moment(seconds: float) -> str:
    """Return seconds since 1970 as ISO has them, to the millisecond, at midnight as a date."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=round(seconds * 1000))
    if moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def iso_date(value: object) -> str | None:
    """Return the day of a date in UTC as 2024-05-31: of texts that are dates, and of (milli)seconds since 1970.

    Day and month in digits alone are read only where their order is plain: 05/31/2024 and 31.05.2024. A month's day is
    its first.
    """
    if isinstance(value, str):
        written = written_date(value)
        text = written.iso() if written else value
    else:
        text = epoch_date(value) if isinstance(value, int | float) else None
    moment = moment_of(text)
    return None if moment is None else moment.date().isoformat()
