"""Several encoders from one pass: an evaluation of one of them leaves the embeddings of the others in the cache.

InBedder's poolings are made of the same hidden states, and GIRCSE with K steps is on its way through
every smaller K.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import torch

from retriever.core.encoder import WrappedEncoder
from retriever.core.fingerprint import content_hash
from retriever.core.similarity import normalise
from retriever.core.types import Encoded
from retriever.encoders.base import PromptEncoder
from retriever.encoders.gircse import GircseEncoder
from retriever.encoders.inbedder import InBedderEncoder, generate
from retriever.encoders.pooling import masked_mean
from retriever.encoders.reading import BatchOutput, EncodedBatch
from retriever.evaluation.run.embedding_cache import EmbeddingCache
from retriever.index.encoding import view_key

POOLINGS = ("1st-gen", "avg-gen", "last-gen", "avg-ppt", "avg-all")


class Stacked(InBedderEncoder):
    """All of `POOLINGS` side by side: vectors of len(POOLINGS) times the model's dimension."""

    @property
    def dim(self) -> int:
        """Length of all poolings together."""
        return len(POOLINGS) * super().dim

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
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
        return BatchOutput(torch.cat([torch.nn.functional.normalize(pooled[name]) for name in POOLINGS], dim=1))


class EveryStep(GircseEncoder):
    """The vectors after each of K steps side by side: K times the model's dimension."""

    @property
    def dim(self) -> int:
        """Length of all of them together."""
        return super().dim * (self.steps or 0)

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Run K soft-token steps and keep every z_k; there are no words."""
        return BatchOutput(torch.cat([pooled for pooled, _ in self.walk(prompted)], dim=1))


class SharedPasses(WrappedEncoder):
    """An encoder whose passes also fill a cache for others that the same pass makes.

    Args:
        encoder: the one that is asked.
        cache: where the embeddings of the others go.
        stacked: makes all of them side by side.
        parts: which of them stands at which place of a stacked vector.
    """

    def __init__(
        self, encoder: PromptEncoder, cache: EmbeddingCache, stacked: PromptEncoder, parts: Mapping[int, PromptEncoder]
    ) -> None:
        super().__init__(encoder)
        self._cache = cache
        self._stacked = stacked
        self._parts = parts

    @classmethod
    def sharing_poolings(cls, encoder: InBedderEncoder, cache: EmbeddingCache) -> Self:
        """Return an InBedder encoder that shares its passes with the other `POOLINGS`."""
        parts = {place: encoder.reconfigured(pooling=name) for place, name in enumerate(POOLINGS)}
        return cls(encoder, cache, Stacked(encoder.backbone, replace(encoder.options, pooling="avg-all")), parts)

    @classmethod
    def sharing_steps(cls, encoder: GircseEncoder, cache: EmbeddingCache, smaller: Sequence[int]) -> Self:
        """Return a GIRCSE encoder that shares its passes with itself at fewer steps."""
        parts = {steps - 1: encoder.reconfigured(steps=steps) for steps in smaller}
        return cls(encoder, cache, EveryStep(encoder.backbone, encoder.options), parts)

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return this encoder's vectors, without words; keep those of the others."""
        digests = [content_hash(text) for text in texts]
        stacked = self._stacked.encode_views(texts, instructions, on_tokens=on_tokens)
        wanted = []
        for instruction, one in zip(instructions, stacked, strict=True):
            cut = one.embeddings.reshape(len(texts), -1, self.dim)  # (n, encoders, dim)
            vectors = {view_key(part, instruction): normalise(cut[:, at]) for at, part in self._parts.items()}
            self._cache.put({key: dict(zip(digests, each, strict=True)) for key, each in vectors.items()})
            wanted.append(Encoded(vectors[view_key(self._encoder, instruction)], one.words))
        return wanted
