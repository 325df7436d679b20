"""GIRCSE: soft tokens refined step by step before pooling (papers: GIRCSE, section 3)."""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import EncoderOptions, PromptEncoder
from retriever.encoders.reading import Prompted, Reading

STEPS = 5


class GircseEncoder(PromptEncoder):
    """Generates K soft tokens, mixtures of input embeddings, and averages the states they are read into.

    With h'_0 the last prompt state: s_k = softmax(W h'_{k-1}), d_k = s_k E is read as the next input, g_k = h'_k is
    its state, and z_k = mean(g_1..g_k). The vector is z_K.
    """

    method = "gircse"
    poolings = ("mean-steps",)
    reads_on = True

    def __init__(self, backbone: Backbone, options: EncoderOptions) -> None:
        super().__init__(backbone, options)
        self.steps = STEPS if options.steps is None else options.steps
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}; GIRCSE needs at least 1.")

    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Run K soft-token steps; the words are those of the soft tokens, averaged over the steps."""
        pooled, said = prompted.last, torch.zeros(())
        for pooled, soft in self.walk(prompted):  # noqa: B007 - the last z_k is the vector
            if answers:
                said = said + soft
        return Reading(pooled, said / cast("int", self.steps) if answers else None)

    def walk(self, prompted: Prompted) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield z_k (B, d) and the soft token s_k (B, V) for k = 1..K."""
        table = self.backbone.embedding_table()
        state = prompted.last  # h'_0, (B, d)
        pooled = torch.zeros_like(state, dtype=torch.float32)
        for step in range(1, cast("int", self.steps) + 1):
            soft = self.backbone.logits(state).softmax(dim=-1)  # s_k, (B, V)
            mixed = soft.to(table.dtype) @ table[: soft.shape[1]]  # d_k, (B, d)
            state = prompted.run.extend(mixed.unsqueeze(1))[:, -1]  # g_k
            pooled = pooled + (state.float() - pooled) / step  # z_k
            yield pooled, soft

    def encode_steps(self, texts: Sequence[str], *, instruction: str = "") -> list[Embeddings]:
        """Return z_1..z_K from one run, each (n, dim) and normalised."""
        steps = np.zeros((cast("int", self.steps), len(texts), self.dim), dtype=np.float32)
        for rows, walk in self.encode_stepwise(texts, instruction=instruction):
            for step, vectors in enumerate(walk):
                steps[step, rows] = vectors
        return list(steps)

    @torch.inference_mode()
    def encode_stepwise(
        self, texts: Sequence[str], *, instruction: str = ""
    ) -> Iterator[tuple[list[int], Iterator[Embeddings]]]:
        """Yield the rows of every batch and, step by step, its z_1..z_K, each (B, dim) and normalised.

        A step is run when its vectors are asked for: who stops at z_k has paid for the prompt and k steps. A batch's
        steps are valid until the next batch is asked for.
        """
        asked = instruction.strip() or self.options.default_instruction
        for rows, read in self._batches(texts, self._tokenise(texts), [asked], answers=False):
            yield rows, self._normalised_steps(next(read))

    @torch.inference_mode()
    def _normalised_steps(self, prompted: Prompted) -> Iterator[Embeddings]:
        for pooled, _ in self.walk(prompted):
            yield normalise(pooled.float().cpu().numpy())
