"""What is read of the shards together, and the answer that it is a part of."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from retriever.shards.messages import ShardState
from retriever.shards.transport import Transport
from retriever.store.views import ViewKey

LEAST = 0.25
"""Share of the time for an answer that every question in it may take, whatever the ones before took."""


class Scope:
    """One answer, which may take several sessions: how long it may wait for shards, and which it went without."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.left = seconds
        self.left_out: set[int] = set()

    def renew(self) -> None:
        """Give what follows, a better answer, its time too; it goes without the same shards."""
        self.left = self._seconds

    def gather(self, transport: Transport, sent: Mapping[int, object]) -> dict[int, object]:
        """Wait for answers as long as there is time left; who answers in time gets some after a late one has had it."""
        if self._seconds is None or self.left is None:
            return transport.gather(sent, None)
        started = time.monotonic()
        answers = transport.gather(sent, max(self.left, LEAST * self._seconds))
        self.left = max(0.0, self.left - (time.monotonic() - started))
        return answers


@dataclass(slots=True)
class Session:
    """What is read together.

    Attributes:
        states: of the shards that were ever heard of, by number; also of those that are left out.
        left_out: shards that do not answer.
        scope: the answer it is a part of.
        home: the shards of contents that were met.
        vectors: rows and words that were fetched, by view and content.
        wanted: contents whose vectors the next search fetches along.
        searched: views that were searched.
    """

    states: dict[int, ShardState]
    left_out: set[int]
    scope: Scope
    home: dict[int, int] = field(default_factory=dict)
    vectors: dict[ViewKey, dict[int, tuple[NDArray[np.float32], list[str]]]] = field(default_factory=dict)
    wanted: list[int] = field(default_factory=list)
    searched: list[ViewKey] = field(default_factory=list)
