"""Regular expressions that somebody typed, searched for in many texts within a time limit."""

import time

from retriever.core.errors import UsageError
from retriever.core.text import require_text

SECONDS = 10.0
"""Most that one pattern may take over all texts; what is usual takes a second for 100,000 reviews."""

LONGEST = 1000
"""Most characters of a pattern."""


class TextPattern:
    """A regular expression in Python's notation, such as ``(?i)charg(er|ing)``, with what is left of its time.

    A pattern that tries without end is stopped: the `regex` package looks at the clock while it matches.

    Args:
        pattern: the expression.
        seconds: most that all calls of `count` together may take.

    Raises:
        UsageError: it is empty, too long, or no regular expression; the message says where.
    """

    def __init__(self, pattern: str, seconds: float = SECONDS) -> None:
        import regex  # not for every search

        require_text(pattern)
        if not pattern:
            raise UsageError("The pattern is empty.", hint="Give a regular expression, such as 'charg(er|ing)'.")
        if len(pattern) > LONGEST:
            raise UsageError(f"The pattern has {len(pattern)} characters.", hint=f"At most {LONGEST} are taken.")
        try:
            self._compiled = regex.compile(pattern)
        except regex.error as error:
            raise UsageError(
                f"{pattern!r} is no regular expression: {error}.",
                hint="Put a backslash before a sign that is meant as itself, such as \\( or \\?.",
            ) from error
        except RecursionError as error:
            raise UsageError("The pattern nests too deeply.", hint="Write it with fewer brackets.") from error
        self._seconds = self._left = seconds

    def count(self, text: str) -> int:
        """Count how often the pattern is in a text, empty matches not; raise `UsageError` where the time is over."""
        started = time.perf_counter()
        try:
            if self._left <= 0:
                raise TimeoutError
            matches = self._compiled.finditer(text, timeout=self._left)
            count = sum(bool(match.end() > match.start()) for match in matches)
        except TimeoutError as error:
            raise UsageError(
                f"The pattern took longer than {self._seconds:g} seconds on the texts.",
                hint="Write it without repeats inside repeats, such as (a+)+, or narrow the texts with a filter.",
            ) from error
        self._left -= time.perf_counter() - started
        return count
