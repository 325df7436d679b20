"""Progress of a long encoding on stderr: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def token_bar(show: bool, total: Callable[[], int]) -> Iterator[Callable[[int], None] | None]:
    """Show rate and time left while the block runs; yields what to call with every number of tokens read.

    Args:
        show: whether a bar is wanted. Where it is not, or stderr is no terminal, None is yielded.
        total: counts the tokens that will be read; asked only for a bar.
    """
    if not (show and sys.stderr.isatty()):
        yield None
        return
    from tqdm import tqdm  # type: ignore[import-untyped]

    with tqdm(total=total(), unit=" tokens", unit_scale=True) as bar:
        yield bar.update
