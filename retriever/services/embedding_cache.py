"""An encoder that keeps what it has embedded: a second suite over the same texts embeds nothing."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retriever.core.fingerprint import content_hash
from retriever.core.protocols import Encoder
from retriever.core.types import Embeddings
from retriever.services.embedding_store import EmbeddingCache
from retriever.services.encoding import view_key
from retriever.services.wrapped_encoders import WordlessEncoder
from retriever.store.views import ViewKey

CHUNK = 256
"""Texts embedded between two commits: the most that an interruption costs."""


@dataclass(frozen=True, slots=True)
class EmbeddingProgress:
    """How far one call of an encoder is.

    Attributes:
        done: texts embedded by now, each counted once per instruction.
        total: texts that were missing.
        seconds: time since the call began.
        left: seconds the rest will take, judged by the lengths of the texts.
    """

    done: int
    total: int
    seconds: float
    left: float


class CachedEncoder(WordlessEncoder):
    """An encoder that keeps what it has embedded.

    Words are not kept, and none are given: an evaluation needs none, and asking for them costs a pass of its own.

    Args:
        encoder: what embeds.
        cache: where vectors are kept.
        on_progress: called after every chunk of texts.
    """

    def __init__(
        self, encoder: Encoder, cache: EmbeddingCache, *, on_progress: Callable[[EmbeddingProgress], None] | None = None
    ) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._on_progress = on_progress
        self._keys: dict[str, ViewKey] = {}

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction; texts that miss the same instructions share one pass."""
        digests = [content_hash(text) for text in texts]
        distinct = dict(zip(digests, texts, strict=True))
        keys = [self._key(instruction) for instruction in instructions]
        found = {key: self._cache.get(key, list(distinct)) for key in dict.fromkeys(keys)}
        asked = dict(zip(keys, instructions, strict=True))
        missing: dict[tuple[ViewKey, ...], list[bytes]] = {}
        for digest in distinct:
            if wanted := tuple(key for key in asked if digest not in found[key]):
                missing.setdefault(wanted, []).append(digest)
        clock = _Clock(self._on_progress, {digest: len(text) for digest, text in distinct.items()}, missing)
        for wanted, rows in missing.items():
            rows.sort(key=lambda digest: -len(distinct[digest]))  # like beside like: batches without padding
            for start in range(0, len(rows), CHUNK):
                chunk = rows[start : start + CHUNK]
                encoded = self._encoder.encode_many(
                    [distinct[digest] for digest in chunk], [asked[key] for key in wanted], batch_size=batch_size
                )
                new = {
                    key: dict(zip(chunk, vectors, strict=True)) for key, vectors in zip(wanted, encoded, strict=True)
                }
                self._cache.put(new)
                for key in wanted:
                    found[key].update(new[key])
                clock.tick(len(wanted), chunk)
        return [self._rows(found[key], digests) for key in keys]

    def _key(self, instruction: str) -> ViewKey:
        if instruction not in self._keys:
            self._keys[instruction] = view_key(self._encoder, instruction)
        return self._keys[instruction]

    def _rows(self, found: Mapping[bytes, NDArray[np.float32]], digests: Sequence[bytes]) -> Embeddings:
        rows = np.empty((len(digests), self.dim), dtype=np.float32)
        for row, digest in enumerate(digests):
            rows[row] = found[digest]
        return rows


class _Clock:
    """Tells how far one call is: texts times instructions, the time left judged by characters."""

    def __init__(
        self,
        tell: Callable[[EmbeddingProgress], None] | None,
        lengths: Mapping[bytes, int],
        missing: Mapping[tuple[ViewKey, ...], Sequence[bytes]],
    ) -> None:
        self._tell = tell
        self._lengths = lengths
        self._total = sum(len(wanted) * len(rows) for wanted, rows in missing.items())
        self._work = sum(len(wanted) * self._size(rows) for wanted, rows in missing.items())
        self._done = self._worked = 0
        self._started = time.monotonic()

    def tick(self, instructions: int, chunk: Sequence[bytes]) -> None:
        self._done += instructions * len(chunk)
        self._worked += instructions * self._size(chunk)
        if self._tell is not None:
            seconds = time.monotonic() - self._started
            left = seconds * (self._work - self._worked) / self._worked
            self._tell(EmbeddingProgress(self._done, self._total, seconds, left))

    def _size(self, rows: Sequence[bytes]) -> int:
        return sum(1 + self._lengths[digest] for digest in rows)
