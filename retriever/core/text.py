"""What counts as text, and how a long one is shown short. Lone surrogates, which terminals leave, are no text."""

from retriever.core.errors import UsageError


def require_text(*given: str) -> None:
    """Refuse what no file, database or tokenizer takes.

    Raises:
        UsageError: one of those given holds a lone surrogate.
    """
    for one in given:
        if any("\ud800" <= character <= "\udfff" for character in one):
            raise UsageError(f"{one!r} is not valid UTF-8.", hint="Check the terminal's encoding.")


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and three dots where it has more than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """Return the text without control characters, which a hostile one could send to the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)
