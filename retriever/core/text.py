"""What counts as text: lone surrogates, which a terminal in another encoding leaves in arguments, do not."""

from retriever.core.errors import UsageError


def require_text(*given: str) -> None:
    """Refuse what no file, database or tokenizer takes.

    Raises:
        UsageError: one of those given holds a lone surrogate.
    """
    for one in given:
        if any("\ud800" <= character <= "\udfff" for character in one):
            raise UsageError(f"{one!r} is not valid UTF-8.", hint="Check the terminal's encoding.")
