"""Check that strings are text, and write text and numbers where they are shown: on a terminal, in Markdown, in tables.

Lone surrogates, which terminals leave, are no text.
"""

import re
import unicodedata
from collections.abc import Iterable

from retriever.core.errors import UsageError

WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
"""Finds words of letters, with the apostrophes in them."""

_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Categories of characters that no font shows: controls, joiners, marks of direction, spaces."""

_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(code)
    for first, last in ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
    for code in range(first, last + 1)
}
"""Characters of other categories that are blank: fillers and variation selectors."""

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@^=])")
_INLINE = re.compile(r"([\\`*_{}\[\]<>|~$&]|(?<!\w)[@#:](?=\w))")
_LEADING = re.compile(r"^([-+=:#!]|\d+(?=[.)](?:\s|$)))")
_ADDRESS = re.compile(r"(?<=http)(?=://)|(?<=https)(?=://)|(?<=www)(?=\.)|(?<=[\w.+-])(?=@[\w-])", re.IGNORECASE)
_JOINER = "\u2060"  # has no width, and stands in no address

_LOOSE = ' \t\n"“”»«.…,;:!?)]*'
_PAIRS = {'"': '"', "“": "”", "«": "»"}

_SIGNS = "=+@\uff1d\uff0b\uff0d\uff20"  # the last four as wide as a Chinese character
_BEGINNING = (*_SIGNS, "-", "\t", "\r", "\n")
_BEHIND_SEMICOLON = re.compile(rf";(?=[{_SIGNS}]|-(?!\)))")
"""Where a spreadsheet whose cells are parted by semicolons would see a beginning; ``;-)`` is none."""


def composed(text: str) -> str:
    """Return a text in Unicode's composed form (NFC), in which a letter with an accent is one character."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normal_instruction(given: str) -> str:
    """Return an instruction as views and answers are kept under it: composed, without blanks around it."""
    return composed(given.strip())


def without_loose_marks(sentence: str) -> str:
    """Return a sentence without what ends the one before it: stops, and quotation marks that it does not close."""
    rest = sentence.lstrip(_LOOSE)
    before = sentence.removesuffix(rest).rstrip()
    opens = before[-1:] in _PAIRS and rest.count(_PAIRS[before[-1:]]) % 2
    return sentence[len(before) - 1 :] if opens else rest


def is_blank(text: str) -> bool:
    """Whether a text has no character that can be seen."""
    return all(
        character.isspace() or character in _BLANKS or unicodedata.category(character) in _INVISIBLE
        for character in text
    )


def require_text(*given: str) -> None:
    """Raise `UsageError` for a lone surrogate, which no file, database or tokenizer takes."""
    for text in given:
        if not is_text(text):
            raise UsageError(f"{text!r} is not valid UTF-8.", hint="Check the terminal's encoding.")


def is_text(given: str) -> bool:
    """Whether a string is text, with no lone surrogate in it."""
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True


def shortened(text: str, most: int) -> str:
    """Put a text on one line that a terminal can show, cut to ``most`` characters, the last three of them dots."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def printable(text: str) -> str:
    """Replace control characters, which a hostile text could send to the terminal, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 document, 1,200 documents."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration as a person says it: 42 s, 3 min 05 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def about(seconds: float) -> str:
    """Return a duration without false precision: 10 seconds, 12 minutes, 3 hours."""
    if seconds < 55:
        return f"{max(5, round(seconds / 5) * 5 if seconds < 20 else round(seconds / 10) * 10)} seconds"
    minutes = round(seconds / 60)
    return counted(minutes, "minute") if minutes < 90 else counted(round(minutes / 60), "hour")


def drop_prefixes(words: Iterable[str], most: int) -> list[str]:
    """List the first ``most`` words that are no prefix of a word before them, in their order.

    A model's vocabulary holds words and the pieces that others begin with: behind "charging", "charg" says nothing.
    """
    kept: list[str] = []
    for word in words:
        if len(kept) == most:
            break
        if not any(longer.startswith(word) for longer in kept):
            kept.append(word)
    return kept


def escape_markdown(text: str) -> str:
    """Return Markdown that shows the text as it is, on one line: no links, images, colours, formulas or HTML.

    Addresses get a character without width where they would be taken for links, escaped or not.
    """
    return _MARKDOWN.sub(r"\\\1", _ADDRESS.sub(_JOINER, " ".join(text.split())))


def readable_markdown(text: str) -> str:
    """Return Markdown that shows the text as it is, as `escape_markdown`, and reads well where it is not rendered.

    It may stand behind a list's or a quote's mark, in a heading or in the cell of a table.
    """
    line = _INLINE.sub(r"\\\1", _ADDRESS.sub(_JOINER, " ".join(text.split())))
    return _LEADING.sub(lambda match: f"{match[1]}\\" if match[1].isdecimal() else f"\\{match[1]}", line)


def escape_formula(cell: str) -> str:
    """Return a CSV cell with an apostrophe before what a spreadsheet would take for the beginning of a formula."""
    cell = _BEHIND_SEMICOLON.sub(";'", cell)
    return f"'{cell}" if cell.startswith(_BEGINNING) else cell
