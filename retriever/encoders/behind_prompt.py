"""InstEmb and GIRCSE: what a causal model reads behind its prompt, learned look-ahead tokens or its own soft tokens.

Look-ahead tokens glimpse the answer in one prefill (InstEmb, section 3); soft tokens are refined step by step (GIRCSE,
section 3).
"""

from collections.abc import Iterator, Mapping
from typing import cast

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.kernels import in_rows
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.reading import BatchOutput, EncodedBatch
from retriever.encoders.readout import LOOK_AHEAD_POOLINGS, Shares, look_ahead_shares

LOOK_AHEAD = 8
LEARNED = "look_ahead"
_SEED_PHRASE = " In a few words, the answer is that"


class InstEmbEncoder(PromptEncoder):
    """Reads [prompt; s_1..s_L] once and pools the last prompt state with the look-ahead states.

    Args:
        backbone: a causal model.
        options: ``look_ahead`` is L, at most the number of learned tokens; 0 is ``input-last``.
        learned: ``look_ahead``, learned embeddings (L_max, d); None starts from the embeddings of a phrase that an
            answer follows, untrained.

    Raises:
        ValueError: the learned tensor is of another shape.
    """

    method = "instemb"
    poolings = tuple(LOOK_AHEAD_POOLINGS)
    learned_names = (LEARNED,)

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, learned: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(backbone, options, learned)
        tokens = untrained_look_ahead(backbone) if learned is None else learned[LEARNED]
        if tokens.ndim != 2 or tokens.shape[1] != backbone.dim or not tokens.is_floating_point():
            shape = tuple(tokens.shape)
            raise ValueError(f"look-ahead embeddings of shape {shape} for a model of width {backbone.dim}")
        self.look_ahead_embeddings = tokens.to(backbone.device, backbone.dtype)  # (L_max, d)
        self.learned = {LEARNED: self.look_ahead_embeddings}
        self.look_ahead = len(tokens) if options.look_ahead is None else options.look_ahead
        if not 0 <= self.look_ahead <= len(tokens):
            raise UsageError(f"look_ahead is {self.look_ahead}; this encoder has {len(tokens)} look-ahead tokens.")
        if self.look_ahead == 0:
            self.pooling = "input-last"

    def tail(self, *, answers: bool) -> Tensor | None:
        """Return the first L look-ahead embeddings (L, d)."""
        return self.look_ahead_embeddings[: self.look_ahead] if self.look_ahead else None

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch; the words are those the model predicts at the last prompt and look-ahead positions."""
        vectors = LOOK_AHEAD_POOLINGS[self.pooling](prompted.last, prompted.tail)
        return BatchOutput(vectors, self.next_token(prompted.last, *prompted.tail.unbind(dim=1)) if answers else None)

    def shares(self) -> Shares:
        """Return the pooling as weights of states."""
        return look_ahead_shares(self.pooling, len(self.behind()))


def untrained_look_ahead(backbone: Backbone, length: int = LOOK_AHEAD) -> Tensor:
    """Return (length, d) embeddings of a phrase that announces an answer, repeated as needed."""
    ids = backbone.tokenizer.piece(_SEED_PHRASE)
    return backbone.embed_ids([ids[i % len(ids)] for i in range(length)]).detach().clone()


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
