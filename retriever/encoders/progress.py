"""Progress of a long encoding on stderr: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TokenProgress:
    """Counts text tokens; shows rate and time left when asked to and stderr is a terminal.

    Args:
        show: print a bar.
        on_tokens: told of every batch's tokens.
    """

    def __init__(self, show: bool = False, *, on_tokens: Callable[[int], None] | None = None) -> None:
        self.show = show and sys.stderr.isatty()
        self._on_tokens = on_tokens
        self._bar = None

    @contextmanager
    def over(self, total: int) -> Iterator[None]:
        """Show the progress of ``total`` tokens while the block runs."""
        if not self.show:
            yield
            return
        from tqdm import tqdm  # type: ignore[import-untyped]

        with tqdm(total=total, unit=" tokens", unit_scale=True) as self._bar:
            yield

    def add(self, tokens: int) -> None:
        """Count tokens that were read."""
        if self._on_tokens is not None:
            self._on_tokens(tokens)
        if self._bar is not None:
            self._bar.update(tokens)
