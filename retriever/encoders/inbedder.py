"""InBedder: the embedding is in the hidden states of the answer the model is about to give (papers: InBedder)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import PromptEncoder
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.reading import BatchOutput, EncodedBatch, PromptPieces, TextBatch, prompt_pieces
from retriever.encoders.readout import Shares, masked_mean


class PlainEncoder(PromptEncoder):
    """Pools the prompt's hidden states: ``last`` (h_N) or ``mean`` (over all prompt tokens but special ones)."""

    method = "plain"
    poolings = ("last", "mean")

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch."""
        vectors = prompted.last if self.pooling == "last" else masked_mean(prompted.states, prompted.mask)
        return BatchOutput(vectors, self.next_token(prompted.last) if answers else None)

    def shares(self) -> Shares:
        """Return the pooling as weights of states."""
        return Shares(1.0, others=0.0 if self.pooling == "last" else 1.0)


MASK_TOKENS = 3


class MaskedInBedderEncoder(PromptEncoder):
    """Appends three mask tokens to the prompt and averages their states, or only the prompt's (``avg-ppt``)."""

    method = "inbedder"
    poolings = ("masks", "avg-ppt")
    shares_text = False  # attention looks both ways: a text's states depend on the instruction

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch; the words are those the model puts in the masks' place."""
        if self.pooling == "masks":
            vectors = prompted.tail.float().mean(dim=1)
        else:
            vectors = masked_mean(prompted.states, prompted.mask)
        return BatchOutput(vectors, self.next_token(*prompted.tail.unbind(dim=1)) if answers else None)

    def shares(self) -> Shares:
        """Return the pooling as weights of states; the token at the end of a prompt weighs nothing."""
        return Shares(0.0, [1.0] * MASK_TOKENS) if self.pooling == "masks" else Shares(1.0, others=1.0)

    def behind(self) -> Tensor:
        """Return the embeddings of the mask tokens and of what ends a prompt."""
        return self.backbone.embed_ids(self._after())

    def _after(self) -> list[int]:
        """Return the ids that stand behind every prompt."""
        tokenizer = self.backbone.tokenizer
        return [*[tokenizer.mask_id] * MASK_TOKENS, *tokenizer.end]

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a text that are read under the default instruction; a longer instruction leaves room for fewer."""
        tokenizer = self.backbone.tokenizer
        pieces = prompt_pieces(tokenizer, self.template, [self.options.default_instruction])
        return max(0, min(tokenizer.max_text_tokens, self._room(pieces)))

    def _room(self, pieces: PromptPieces) -> int:
        """Compute how many tokens of a text the model has positions for."""
        return self.backbone.positions - len(pieces.before) - len(pieces.shared) - len(self._after())

    def read_batch(self, batch: TextBatch, pieces: PromptPieces, tail: Tensor | None) -> Iterator[EncodedBatch]:
        """Yield the batch, padded on the right as absolute positions ask for."""
        after, room = self._after(), self._room(pieces)
        rows = [[*pieces.before, *ids[: max(0, room)], *pieces.shared] for ids in batch.ids]
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width + len(after), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row) + len(after)] = torch.tensor([*row, *after])
        lengths = torch.tensor([len(row) for row in rows], device=self.backbone.device)
        columns = torch.arange(ids.shape[1], device=self.backbone.device)
        real = columns < lengths[:, None] + len(after)
        states = self.backbone.forward(
            self.backbone.embed(ids.to(self.backbone.device)), mask=real.long(), positions=None
        )
        at = lengths[:, None] + torch.arange(MASK_TOKENS, device=states.device)  # (B, 3)
        mask_states = states.gather(1, at.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (B, 3, d)
        content = (columns[:width] < lengths[:, None]) & (columns[:width] >= pieces.start_tokens)
        yield EncodedBatch(states[:, :width], mask_states, content, batch.texts, pieces.instructions[0], None)


GENERATED_TOKENS = 3


@dataclass(frozen=True, slots=True)
class Generated:
    """Greedily generated answers.

    Attributes:
        states: (B, G + 1, d) h_N, then the state of every generated token.
        real: (B, G + 1) true where a state belongs to the prompt or to a token before the end of text.
    """

    states: Tensor
    real: Tensor


class InBedderEncoder(PromptEncoder):
    """The encoding methods of InBedder's section 3 but ``re-enc``, named as in the paper.

    ``1st-gen`` pools h_N alone and needs one prefill; ``avg-gen`` the mean of h_N and the generated tokens' states;
    ``last-gen`` the last of them; ``avg-ppt`` the prompt before h_N; ``avg-all`` everything. The model is a causal one;
    ``steps`` is the most tokens to generate, 3 by default (40 suits untuned chat models).
    """

    method = "inbedder"
    for_masked = MaskedInBedderEncoder
    poolings = ("1st-gen", "avg-gen", "last-gen", "avg-ppt", "avg-all")

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, learned: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(backbone, options, learned)
        self.reads_on = self.pooling not in ("1st-gen", "avg-ppt")
        if self.reads_on:
            self.steps = GENERATED_TOKENS if options.steps is None else options.steps
            if self.steps < 1:
                raise UsageError(f"steps is {self.steps}; {self.pooling} generates at least 1 token.")

    def tail(self, *, answers: bool) -> Tensor | None:
        """Return a line break (1, d) when words are wanted: chat models put their answer on a line of its own."""
        reads = answers and not self.reads_on
        return self.backbone.embed_ids(self.backbone.tokenizer.piece("\n")) if reads else None

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch; the words are those of the answer, or of its first token where none is generated."""
        if not self.reads_on:
            said = self.next_token(prompted.last, *prompted.tail.unbind(dim=1)) if answers else None
            if self.pooling == "1st-gen":
                return BatchOutput(prompted.last, said)
            return BatchOutput(masked_mean(prompted.states[:, :-1], prompted.mask[:, :-1]), said)
        generated = generate(self.backbone, prompted, cast("int", self.steps))
        said = self._said(generated) if answers else None
        if self.pooling == "avg-all":
            states = torch.cat([prompted.states[:, :-1], generated.states], dim=1)
            return BatchOutput(masked_mean(states, torch.cat([prompted.mask[:, :-1], generated.real], dim=1)), said)
        if self.pooling == "avg-gen":
            return BatchOutput(masked_mean(generated.states, generated.real), said)
        last = generated.real.sum(dim=1) - 1  # an answer's states come before what stands behind its end
        return BatchOutput(generated.states[torch.arange(len(last), device=last.device), last], said)

    def shares(self) -> Shares | None:
        """Return the pooling as weights of states; None where it reads what it generates."""
        return {"1st-gen": Shares(1.0), "avg-ppt": Shares(0.0, others=1.0)}.get(self.pooling)

    def _said(self, generated: Generated) -> Tensor:
        """Return the mean (B, V) of the distributions that the tokens of an answer were chosen from."""
        counted = generated.real[:, 1:].float()  # (B, G)
        counted[:, 0] = 1.0  # where an answer ends at once, what it would have begun with
        shares = counted / counted.sum(dim=1, keepdim=True)
        read = zip(generated.states.unbind(dim=1), shares.unbind(dim=1), strict=False)  # all but the last state
        return cast("Tensor", sum(self.next_token(state) * share.unsqueeze(1) for state, share in read))


def generate(backbone: Backbone, prompted: EncodedBatch, length: int) -> Generated:
    """Return up to ``length`` greedily chosen tokens of every row, and their states."""
    states = [prompted.last]
    ends = torch.tensor(sorted(backbone.tokenizer.special_ids), dtype=torch.long, device=backbone.device)
    going = torch.ones(len(prompted.texts), dtype=torch.bool, device=prompted.last.device)
    real = [going]
    for _ in range(length):
        token = backbone.logits(states[-1]).argmax(dim=-1)  # (B,)
        going = going & ~torch.isin(token, ends)
        real.append(going)
        states.append(prompted.extend(backbone.embed(token)))
        if not going.any():
            break
    return Generated(torch.stack(states, dim=1), torch.stack(real, dim=1))
