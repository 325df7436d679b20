"""Check that strings are text, and format text for display. Lone surrogates, which terminals leave, are no text."""

from collections.abc import Iterable

from retriever.core.errors import UsageError


def require_text(*given: str) -> None:
    """Refuse what no file, database or tokenizer takes.

    Raises:
        UsageError: one of those given holds a lone surrogate.
    """
    for one in given:
        if not is_text(one):
            raise UsageError(f"{one!r} is not valid UTF-8.", hint="Check the terminal's encoding.")


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


def drop_prefixes(words: Iterable[str], most: int) -> list[str]:
    """List the first ``most`` words that are no prefix of a word before them, in their order.

    A model's vocabulary holds words and the pieces that others begin with: behind "charging", "charg" says nothing.
    """
    kept: list[str] = []
    for word in words:
        if len(kept) == most:
            break
        if not any(one.startswith(word) for one in kept):
            kept.append(word)
    return kept
