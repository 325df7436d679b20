"""The promise of what lets texts out to another program."""

from typing import Protocol


class Door(Protocol):
    """The way of texts to another program: lets them out where that is allowed, and counts them. Safe in all threads.

    `close` is called on the thread that called `open`; the others on any.
    """

    def open(self, host: str, *, local: bool) -> None:
        """Let texts be sent to a host, which may be this machine (``local``).

        Raises:
            ConsentError: nobody allowed that.
        """
        ...

    def send(self, texts: int) -> None:
        """Count texts that are about to be sent; a number below 0 takes back what was counted and not sent.

        Raises:
            ReadingLimitError: they are more than a limit leaves; nothing is counted.
        """
        ...

    def before(self, tokens: int) -> None:
        """Count the tokens of a request that is about to be sent, by estimate; errors as `send`."""
        ...

    def after(self, tokens: int) -> None:
        """Correct the count of tokens by what the server counted."""
        ...

    def close(self) -> None:
        """Keep what was counted."""
        ...
