"""Prompts of a training batch as token ids, and one pass over them: each by itself, or a text's questions together.

Reading several questions of one text together, the text is read once and a mask keeps the questions from seeing each
other, which gives the same states for less work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import torch
from torch import Tensor

from retriever.core.prompts import PromptTemplate
from retriever.encoders.methods import DEFAULT_INSTRUCTION
from retriever.encoders.reading import PromptRun, prompt_pieces
from retriever.encoders.tokenize import PieceTokenizer
from retriever.encoders.transformers_backbone import TransformersBackbone
from retriever.training.adapters import TrainableBackbone
from retriever.training.decoder import Block, PackedDecoder, added, causal_blocks


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """Rows of numbers padded on the right (B, L), 0 where a row is shorter, and where they have a number."""

    ids: Tensor
    counted: Tensor


def pad_rows(
    rows: Sequence[Sequence[int]], *, device: torch.device | str = "cpu", width: int | None = None
) -> PaddedRows:
    """Return rows padded on the right to the longest, or to ``width`` numbers."""
    longest = max(map(len, rows), default=0) if width is None else width
    lengths = torch.tensor([len(row) for row in rows], device=device)
    padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)
    return PaddedRows(padded.reshape(len(rows), longest), torch.arange(longest, device=device) < lengths[:, None])


@dataclass(frozen=True, slots=True)
class TailStates:
    """Last hidden states of a batch: of the last prompt token (B, d), and of what stands behind it (B, L, d)."""

    last: Tensor
    tail: Tensor


@dataclass(frozen=True, slots=True)
class SeparatePrompts:
    """Prompts read side by side: the token ids of each."""

    rows: list[list[int]]

    @property
    def size(self) -> int:
        """The number of prompts, B."""
        return len(self.rows)

    def read(self, backbone: TransformersBackbone, tails: Tensor) -> TailStates:
        """Read every prompt with its embeddings of ``tails`` (B, L, d) behind it."""
        if (decoder := _packed(backbone)) is not None:
            return self._read_packed(backbone, decoder, tails)
        run = PromptRun(backbone, self.rows, cached=False)
        embeddings = torch.cat([backbone.embed(run.ids), tails.to(backbone.dtype)], dim=1)  # (B, T + L, d)
        states = run.extend(embeddings)
        end = run.ids.shape[1]
        return TailStates(states[:, end - 1], states[:, end:])

    def _read_packed(self, backbone: TransformersBackbone, decoder: PackedDecoder, tails: Tensor) -> TailStates:
        """Read the prompts without padding, the shortest first."""
        width = tails.shape[1]
        order = sorted(range(self.size), key=lambda row: len(self.rows[row]))
        lengths = [len(self.rows[row]) + width for row in order]
        starts = dict(zip(order, accumulate(lengths, initial=0), strict=False))
        sequences = _Sequences(
            ids=[token for row in order for token in (*self.rows[row], *[0] * width)],
            positions=[position for length in lengths for position in range(length)],
            last=[starts[row] + len(self.rows[row]) - 1 for row in range(self.size)],
            blocks=causal_blocks(lengths, backbone.dtype, backbone.device),
        )
        return sequences.read(backbone, decoder, tails)


@dataclass(frozen=True, slots=True)
class PromptGroup:
    """Several prompts that begin alike, at least one token each: one text, the trunk, under several instructions."""

    trunk: list[int]
    branches: list[list[int]]


@dataclass(frozen=True, slots=True)
class SharedPrompts:
    """A group of prompts for each text; what a group shares is read once. The prompts count group by group."""

    groups: list[PromptGroup]

    @property
    def size(self) -> int:
        """The number of prompts, B, over all groups."""
        return sum(len(group.branches) for group in self.groups)

    def read(self, backbone: TransformersBackbone, tails: Tensor) -> TailStates:
        """Read every prompt with its embeddings of ``tails`` (B, L, d) behind it.

        All of the model's layers must attend to everything before a token.
        """
        layout = _Layout(self.groups, tails.shape[1], backbone.device)
        if (decoder := _packed(backbone)) is not None:
            return layout.packed(backbone.dtype).read(backbone, decoder, tails)
        embeddings = backbone.embed(layout.ids)  # (G, T, d)
        # A new tensor with the tails in their places: row and column of every tail position, prompt by prompt.
        at = layout.last[:, None] + 1 + torch.arange(tails.shape[1], device=backbone.device)  # (B, L)
        rows = layout.group[:, None].expand_as(at)
        embeddings = embeddings.index_put((rows, at), tails.to(backbone.dtype))
        states = backbone.forward(embeddings, mask=layout.mask(backbone.dtype), positions=layout.positions)
        return TailStates(states[layout.group, layout.last], states[rows, at])


PromptBatch: TypeAlias = SeparatePrompts | SharedPrompts


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Sequences of tokens one behind the other: ids and positions (N), and the place of each prompt's last token."""

    ids: Sequence[int]
    positions: Sequence[int]
    last: Sequence[int]
    blocks: Sequence[Block]

    def read(self, backbone: TransformersBackbone, decoder: PackedDecoder, tails: Tensor) -> TailStates:
        """Read them with the embeddings of ``tails`` (B, L, d) behind each prompt's last token."""
        ids, positions, last = (
            torch.tensor(values, device=tails.device) for values in (self.ids, self.positions, self.last)
        )
        at = last[:, None] + 1 + torch.arange(tails.shape[1], device=tails.device)  # (B, L)
        embeddings = backbone.embed(ids).index_put((at,), tails.to(backbone.dtype))  # (N, d)
        states = decoder.read(embeddings, positions, self.blocks)
        return TailStates(states[last], states[at])


def _packed(backbone: TransformersBackbone) -> PackedDecoder | None:
    """Return the sequences without padding, where the model can be read so now."""
    decoder = backbone.packed if isinstance(backbone, TrainableBackbone) else None
    return decoder if decoder is not None and decoder.usable else None


class _Layout:
    """Where the tokens of each group stand: trunk, then every branch with room for its tail, then padding."""

    def __init__(self, groups: Sequence[PromptGroup], tail: int, device: torch.device) -> None:
        ids, positions, blocks = [], [], []
        group, last = [], []
        for i, prompts in enumerate(groups):
            row, at, block = list(prompts.trunk), list(range(len(prompts.trunk))), [0] * len(prompts.trunk)
            for number, branch in enumerate(prompts.branches, start=1):
                width = len(branch) + tail
                group.append(i)
                last.append(len(row) + len(branch) - 1)
                row += [*branch, *[0] * tail]
                at += range(len(prompts.trunk), len(prompts.trunk) + width)
                block += [number] * width
            ids.append(row)
            positions.append(at)
            blocks.append(block)
        padded = pad_rows(ids, device=device)
        self.ids = padded.ids  # (G, T)
        self.positions = pad_rows(positions, device=device).ids  # (G, T)
        # (G, T): 0 the trunk, n the n-th branch, -1 padding
        self.block = pad_rows(blocks, device=device).ids.masked_fill(~padded.counted, -1)
        self.group = torch.tensor(group, device=device)  # (B,)
        self.last = torch.tensor(last, device=device)  # (B,): the column of each prompt's last token

    def packed(self, dtype: torch.dtype) -> _Sequences:
        """Return the groups one behind the other, without the padding."""
        lengths = [int(length) for length in (self.block >= 0).sum(dim=1)]
        starts = list(accumulate(lengths, initial=0))
        mask = self.mask(dtype)  # (G, 1, T, T)
        rows = list(zip(self.ids.tolist(), self.positions.tolist(), lengths, strict=True))
        return _Sequences(
            ids=[token for ids, _, length in rows for token in ids[:length]],
            positions=[position for _, positions, length in rows for position in positions[:length]],
            last=[starts[group] + last for group, last in zip(self.group.tolist(), self.last.tolist(), strict=True)],
            blocks=[
                Block(start, 1, length, mask[place : place + 1, :, :length, :length])
                for place, (start, length) in enumerate(zip(starts, lengths, strict=False))
            ],
        )

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Return (G, 1, T, T), what is added to attention scores: 0 where a token (row) sees another (column)."""
        seeing, seen = self.block[:, :, None], self.block[:, None, :]
        columns = torch.arange(self.block.shape[1], device=self.block.device)
        before = columns[:, None] >= columns
        # Padding comes last and sees itself, for a row that sees nothing would be no number.
        return added(~(before & ((seen == 0) | (seen == seeing))), dtype).unsqueeze(1)


class PromptTokeniser:
    """Turns texts, instructions and answers into token ids, with the seams the encoders have."""

    def __init__(
        self, tokenizer: PieceTokenizer, template: PromptTemplate, *, default_instruction: str = DEFAULT_INSTRUCTION
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.default_instruction = default_instruction

    def separate(
        self, texts: Sequence[str], instructions: Sequence[str], *, room: int | None = None
    ) -> SeparatePrompts:
        """Return the prompt of every text under the instruction beside it.

        ``room`` is the most tokens a prompt may have; a text is cut to it, an instruction never is.

        Raises:
            UsageError: an instruction is too long.
        """
        rows = []
        for ids, instruction in zip(self.tokenizer.texts(texts), instructions, strict=True):
            pieces = prompt_pieces(self.tokenizer, self.template, [self._resolved(instruction)])
            left = len(ids) if room is None else max(0, room - len(pieces.before) - len(pieces.shared))
            rows.append([*pieces.before, *ids[:left], *pieces.shared])
        return SeparatePrompts(rows)

    def shared(self, texts: Sequence[str], instructions: Sequence[Sequence[str]]) -> SharedPrompts:
        """Return every text with the instructions it is asked under, to be read together; the template has it first.

        Raises:
            UsageError: an instruction is too long.
        """
        groups = []
        for ids, questions in zip(self.tokenizer.texts(texts), instructions, strict=True):
            pieces = prompt_pieces(self.tokenizer, self.template, [self._resolved(question) for question in questions])
            alone = len(questions) == 1  # then what follows the text is all "shared"
            trunk = [*pieces.before, *ids] if alone else [*pieces.before, *ids, *pieces.shared]
            groups.append(PromptGroup(trunk, [pieces.shared] if alone else pieces.rests))
        return SharedPrompts(groups)

    def answers(self, answers: Sequence[str], *, end: bool = False) -> list[list[int]]:
        """Return the token ids of every answer with its leading space, cut like a text.

        With ``end`` the token that ends an answer follows, where the tokenizer has one.
        """
        closing = self.tokenizer.stop_id
        suffix = [closing] if end and closing is not None else []
        limit = self.tokenizer.max_text_tokens
        return [[*self.tokenizer.piece(" " + answer.strip())[:limit], *suffix] for answer in answers]

    def length(self, text: str) -> int:
        """Count the tokens of a text that are read."""
        return min(self.tokenizer.count([text])[0], self.tokenizer.max_text_tokens)

    def length_around(self, instruction: str) -> int:
        """Count the tokens that a prompt has beside its text."""
        return prompt_pieces(self.tokenizer, self.template, [self._resolved(instruction)]).overhead

    def _resolved(self, instruction: str) -> str:
        return instruction.strip() or self.default_instruction
