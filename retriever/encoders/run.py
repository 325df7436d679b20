"""One batch of prompts on its way through a causal model: what was read so far, and the cache to read on from."""

from collections.abc import Sequence

import torch
from torch import Tensor

from retriever.encoders.backbone import Backbone, Cache

BLOCK_TOKENS = 2048  # measured on two cores; larger blocks of activations do not fit their caches


class PromptRun:
    """Left-padded prompts of one batch. Everything after the first block is dense: the padding is all in front.

    Args:
        backbone: the model.
        rows: token ids of each row's first block.
        cached: keep keys and values, so that `extend` can follow.
    """

    def __init__(self, backbone: Backbone, rows: Sequence[Sequence[int]], *, cached: bool) -> None:
        self.backbone = backbone
        longest = max(len(row) for row in rows)
        padding = [longest - len(row) for row in rows]
        ids = [[0] * pad + list(row) for pad, row in zip(padding, rows, strict=True)]
        self.ids = torch.tensor(ids, dtype=torch.long, device=backbone.device)  # (B, T)
        self.padding = torch.tensor(padding, device=backbone.device)  # (B,)
        self.padded = any(padding)
        self.cache: Cache | None = backbone.new_cache(longest) if cached else None
        self.length = 0

    @property
    def size(self) -> int:
        """Rows in the batch, B."""
        return self.ids.shape[0]

    def mask(self, length: int) -> Tensor:
        """Return (B, length) ones where a position holds a real token."""
        return torch.arange(length, device=self.padding.device) >= self.padding[:, None]

    def start(self, tail: Tensor | None = None) -> Tensor:
        """Read the first block, and behind it the same embeddings (L, d) for every row; return states (B, T + L, d)."""
        embeddings = self.backbone.embed(self.ids)
        if tail is not None:
            embeddings = torch.cat([embeddings, tail.expand(self.size, -1, -1)], dim=1)
        if self.cache is None:
            return self.extend(embeddings)
        # Reading on wants more rows than the processor's caches have room for, so a large block is read in columns.
        columns = max(1, BLOCK_TOKENS // self.size)
        return torch.cat([self.extend(block) for block in torch.split(embeddings, columns, dim=1)], dim=1)

    def extend(self, embeddings: Tensor) -> Tensor:
        """Read more positions, embeddings (B, S, d), and return their last hidden states (B, S, d)."""
        first, self.length = self.length, self.length + embeddings.shape[1]
        mask = positions = None
        if self.padded:
            mask = self.mask(self.length)
            counted = torch.arange(first, self.length, device=self.padding.device)
            positions = (counted - self.padding[:, None]).clamp(min=0)
        return self.backbone.forward(embeddings, mask=mask, positions=positions, cache=self.cache)

    def rewind(self, length: int) -> None:
        """Forget every position from ``length`` on."""
        if self.cache is not None and length < self.length:
            self.cache.crop(length - self.length)
        self.length = length
