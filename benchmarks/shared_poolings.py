"""InBedder's poolings of one pass: an evaluation of one of them leaves the embeddings of the others in the cache.

Generating costs several prefills, and every pooling but ``re-enc`` is made of the same hidden states.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from retriever.core.fingerprint import content_hash
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.encoders.inbedder import InBedderEncoder, generate
from retriever.encoders.pooling import masked_mean
from retriever.encoders.reading import Prompted, Reading
from retriever.services.embedding_store import EmbeddingCache
from retriever.services.encoding import view_key
from retriever.services.wrapped_encoders import WordlessEncoder

POOLINGS = ("1st-gen", "avg-gen", "last-gen", "avg-ppt", "avg-all")


class Stacked(InBedderEncoder):
    """All of `POOLINGS` side by side: vectors of len(POOLINGS) times the model's dimension."""

    @property
    def dim(self) -> int:
        """Length of all poolings together."""
        return len(POOLINGS) * super().dim

    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Return every pooling, each of length 1, one after the other."""
        generated = generate(self.backbone, prompted, self.steps or 0)
        states = torch.cat([prompted.states[:, :-1], generated.states], dim=1)
        mask = torch.cat([prompted.mask[:, :-1], generated.real], dim=1)
        last = generated.real.sum(dim=1) - 1  # tokens are real up to the end of text
        pooled = {
            "1st-gen": prompted.last.float(),
            "avg-gen": masked_mean(generated.states, generated.real),
            "last-gen": generated.states[torch.arange(len(last), device=last.device), last].float(),
            "avg-ppt": masked_mean(prompted.states[:, :-1], prompted.mask[:, :-1]),
            "avg-all": masked_mean(states, mask),
        }
        return Reading(torch.cat([torch.nn.functional.normalize(pooled[name]) for name in POOLINGS], dim=1))


class SharedPasses(WordlessEncoder):
    """An InBedder encoder whose passes also fill a cache for its other poolings.

    Args:
        encoder: one of the poolings; the words and everything else are its own.
        cache: where the embeddings of the other poolings go.
    """

    def __init__(self, encoder: InBedderEncoder, cache: EmbeddingCache) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._each = {name: encoder.reconfigured(pooling=name, steps=None) for name in POOLINGS}
        self._stacked = Stacked(encoder.backbone, replace(encoder.options, pooling="avg-all"))

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction, in this encoder's pooling; keep the other poolings'."""
        digests = [content_hash(text) for text in texts]
        stacked = self._stacked.encode_many(texts, instructions, batch_size=batch_size, show_progress=show_progress)
        wanted = []
        for instruction, rows in zip(instructions, stacked, strict=True):
            parts = dict(zip(POOLINGS, np.split(rows, len(POOLINGS), axis=1), strict=True))
            vectors = {name: normalise(part) for name, part in parts.items()}
            keys = {name: view_key(encoder, instruction) for name, encoder in self._each.items()}
            self._cache.put({keys[name]: dict(zip(digests, vectors[name], strict=True)) for name in POOLINGS})
            wanted.append(vectors[self.pooling])
        return wanted
