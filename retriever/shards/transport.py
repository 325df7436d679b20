"""How a router reaches its shards: a small protocol, and the form for shards in the same process."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol

from retriever.core.errors import RetrieverError
from retriever.shards.messages import Gone
from retriever.shards.shard import Shard


class Transport(Protocol):
    """Carries questions to shards and answers back; safe in several threads."""

    @property
    def parts(self) -> int:
        """Number of shards; they are known by 0, 1, and so on."""
        ...

    def send(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Ask a shard (`Shard.answer`) without waiting; return a token for the answer."""
        ...

    def gather(self, sent: Mapping[int, object], seconds: float | None) -> dict[int, object]:
        """Return the answers to some tokens, by shard, that come within some seconds; None waits for all.

        A shard that cannot be reached answers `Gone`, at once where that is known. Nothing is raised for it.
        """
        ...

    def close(self) -> None:
        """Let go of the shards; once more does nothing."""
        ...


class InProcess:
    """Shards in this process, each asked on threads of its own; implements `Transport`.

    A shard whose files cannot be opened is gone, and is opened again when it is next asked.

    Args:
        folders: of the shards.
        device: where to search.
        opened: opens one.
        threads: questions that a shard answers at a time.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        *,
        device: str = "auto",
        opened: Callable[[Path], Shard] | None = None,
        threads: int = 4,
    ) -> None:
        self._folders = list(folders)
        self._open = opened or (lambda path: Shard(path, device=device))
        self._shards: dict[int, Shard] = {}
        self._opening = [ThreadPoolExecutor(threads, f"shard-{part}") for part in range(len(self._folders))]

    @property
    def parts(self) -> int:
        """Number of shards."""
        return len(self._folders)

    def send(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Ask a shard; see `Transport.send`."""
        return self._opening[part].submit(self._asked, part, question, version, arguments)

    def gather(self, sent: Mapping[int, object], seconds: float | None) -> dict[int, object]:
        """Return the answers that come in time; see `Transport.gather`."""
        futures = {part: one for part, one in sent.items() if isinstance(one, Future)}
        done = wait(futures.values(), timeout=seconds).done
        return {part: one.result() for part, one in futures.items() if one in done}

    def close(self) -> None:
        """Close the shards when they have answered what they were asked."""
        for pool in self._opening:
            pool.shutdown()
        while self._shards:
            self._shards.popitem()[1].close()

    def _asked(self, part: int, question: str, version: int | None, arguments: Sequence[object]) -> object:
        try:
            shard = self._shards.get(part)
            if shard is None:
                fresh = self._open(self._folders[part])
                shard = self._shards.setdefault(part, fresh)
                if shard is not fresh:  # another thread was quicker
                    fresh.close()
        except (OSError, RetrieverError) as error:
            return Gone(str(error))
        return shard.answer(question, version, arguments)
