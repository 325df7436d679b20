"""GIRCSE: soft tokens refined step by step before pooling (papers: GIRCSE, section 3)."""

from collections.abc import Iterator, Mapping
from typing import cast

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.linear import in_rows
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.reading import BatchOutput, EncodedBatch

STEPS = 5


class GircseEncoder(PromptEncoder):
    """Generates K soft tokens, mixtures of input embeddings, and averages the states they are read into.

    With h'_0 the last prompt state: s_k = softmax(W h'_{k-1}), d_k = s_k E is read as the next input, g_k = h'_k is
    its state, and z_k = mean(g_1..g_k). The vector is z_K.
    """

    method = "gircse"
    poolings = ("mean-steps",)
    reads_on = True
    exporter = "retriever.encoders.export.gircse_folder:write"

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, learned: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(backbone, options, learned)
        self.steps = STEPS if options.steps is None else options.steps
        if self.steps < 1:
            raise UsageError(f"steps is {self.steps}; GIRCSE needs at least 1.")

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Run K soft-token steps; the words are those of the soft tokens, averaged over the steps."""
        pooled, said = prompted.last, torch.zeros(())
        for pooled, soft in self.walk(prompted):  # noqa: B007 - the last z_k is the vector
            if answers:
                said = said + soft
        return BatchOutput(pooled, said / cast("int", self.steps) if answers else None)

    def walk(self, prompted: EncodedBatch) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield z_k (B, d) and the soft token s_k (B, V) for k = 1..K."""
        table = self.backbone.embedding_table()
        state = prompted.last  # h'_0, (B, d)
        pooled = torch.zeros_like(state, dtype=torch.float32)
        for step in range(1, cast("int", self.steps) + 1):
            soft = self.backbone.logits(state).softmax(dim=-1)  # s_k, (B, V)
            mixed = in_rows(soft.to(table.dtype), lambda rows: rows @ table[: rows.shape[1]])  # d_k, (B, d)
            state = prompted.extend(mixed)  # g_k
            pooled = pooled + (state.float() - pooled) / step  # z_k
            yield pooled, soft
