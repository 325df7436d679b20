"""Between the texts that lack vectors and the one writer who stores them: shards go in, embedded shards come out.

An embedder knows no database. It may hold several shards at once and give them back in any order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from retriever.core.types import Encoded
from retriever.index.readers import Readers
from retriever.store.views import View

OnTokens = Callable[[int], None]
"""Told of text tokens as they are read, in the caller's thread."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class TextGroup:
    """Distinct texts that lack the same views."""

    texts: Sequence[str]
    views: Sequence[View]

    @property
    def instructions(self) -> list[str]:
        """Instructions under which the texts are to be read: one per view."""
        return [view.key.instruction for view in self.views]


@dataclass(frozen=True, slots=True)
class Shard:
    """Texts to embed and to store in one transaction.

    Attributes:
        number: tells it from the other shards of the run.
        groups: its texts; none where every view has them all.
    """

    number: int
    groups: Sequence[TextGroup]


@dataclass(frozen=True, slots=True)
class EmbeddedShard:
    """A shard with its vectors.

    Attributes:
        shard: what was asked for, less what was refused.
        encoded: for each of its groups, the embeddings and words of the group's texts under each of its views.
        tokens: text tokens that were read, 0 where the encoder does not tell.
        refused: texts that nothing could embed, which the shard's groups are without, and why.
        on_stored: to be called, in the caller's thread, when the shard is stored.
    """

    shard: Shard
    encoded: Sequence[Sequence[Encoded]]
    tokens: int
    refused: Mapping[str, str] = field(default_factory=dict)
    on_stored: Callable[[], None] = _nothing


class Embedder(Protocol):
    """Embeds the shards of one run."""

    def embed(self, jobs: Iterable[Shard]) -> Iterator[EmbeddedShard]:
        """Yield every shard embedded, in any order.

        Args:
            jobs: read in the caller's thread, and no further ahead than shards fit into memory.

        Raises:
            Exception: whatever the encoder or ``jobs`` raise; what was yielded before stands.
        """
        ...


EmbedderFactory = Callable[[Readers, OnTokens], Embedder]
"""Makes the embedder of a run."""


class LocalEmbedder:
    """Embeds with the encoders at hand, one shard after the other.

    Args:
        readers: what to embed with.
        on_tokens: told of text tokens as they are read.
    """

    def __init__(self, readers: Readers, on_tokens: OnTokens) -> None:
        self._readers = readers
        self._on_tokens = on_tokens
        self._tokens = 0

    def embed(self, jobs: Iterable[Shard]) -> Iterator[EmbeddedShard]:
        """Yield every shard embedded, in the order of ``jobs``."""
        for shard in jobs:
            self._tokens = 0
            encoded = [self._readers.encode_views(one.texts, one.instructions, self._count) for one in shard.groups]
            yield EmbeddedShard(shard, encoded, self._tokens)

    def _count(self, tokens: int) -> None:
        self._tokens += tokens
        self._on_tokens(tokens)
