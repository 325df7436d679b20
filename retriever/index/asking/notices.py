"""What is said while a language model is waited for: for commands and pages, which know no endpoint."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from retriever.encoders.answers.answerer import Waiting


@contextmanager
def on_wait(notify: Callable[[str], None]) -> Iterator[None]:
    """Call a function with a sentence whenever a language model takes long, on any thread, until the context ends."""
    before = Waiting.on_wait
    Waiting.on_wait = staticmethod(notify)
    try:
        yield
    finally:
        Waiting.on_wait = before
