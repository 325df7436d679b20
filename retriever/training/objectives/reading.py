"""Reading a batch's prompts in training: a text's questions together, texts of like length together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from retriever.training.grad_cache import cached_backward
from retriever.training.objectives.base import Learner
from retriever.training.prompt_batches import PromptBatch, SeparatePrompts

PIECE_TOKENS = 2048
"""Most padded tokens of one forward pass: texts of like length share one, so that little is padding."""


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """A text and the questions it is read under in one batch, with the caller's number for each question."""

    text: str
    instructions: list[str]
    rows: list[int]


@dataclass(frozen=True, slots=True)
class Piece:
    """The input of one forward pass: prompts, their rows' numbers, and its tokens with padding."""

    prompts: PromptBatch = field(repr=False)
    rows: list[int]
    tokens: int


@dataclass(frozen=True, slots=True)
class SeparatePiece(Piece):
    """The input of one forward pass, every prompt by itself."""

    prompts: SeparatePrompts = field(repr=False)


_Read = TypeVar("_Read", bound=Piece)


class Prompts:
    """The different prompts of a batch, each to be read once however many rows need it."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def place(self, text: str, instruction: str) -> int:
        """Return the number of a prompt, a new one for a text or an instruction that is new to it."""
        return self._places.setdefault((text, instruction.strip()), len(self._places))

    @property
    def texts(self) -> list[str]:
        """The text of every prompt."""
        return [text for text, _ in self._places]

    @property
    def instructions(self) -> list[str]:
        """The instruction of every prompt; empty for the default one."""
        return [instruction for _, instruction in self._places]


def together(texts: Sequence[str], instructions: Sequence[str], rows: Sequence[int]) -> list[PromptRequest]:
    """Return the rows by text, in the order of their first question."""
    found: dict[str, PromptRequest] = {}
    for text, instruction, row in zip(texts, instructions, rows, strict=True):
        one = found.setdefault(text, PromptRequest(text, [], []))
        one.instructions.append(instruction)
        one.rows.append(row)
    return list(found.values())


def pieces(learner: Learner, asked: Sequence[PromptRequest], *, tail: int) -> list[Piece]:
    """Return the prompts in forward passes of at most `PIECE_TOKENS`, or of one text, shortest texts first.

    ``tail`` tokens will stand behind every prompt.
    """
    shared = learner.shares
    widths = [_width(learner, one, tail, shared=shared) for one in asked]
    groups = _groups(widths, [1 if shared else len(one.rows) for one in asked])
    return [_piece(learner, [asked[i] for i in group], widths[group[-1]], shared=shared) for group in groups]


def separate_pieces(prompts: SeparatePrompts, *, tail: int) -> list[SeparatePiece]:
    """Return prompts, numbered from 0, in passes as `pieces` does, where a text's questions cannot be read together."""
    widths = [len(row) + tail for row in prompts.rows]
    return [
        SeparatePiece(SeparatePrompts([prompts.rows[i] for i in group]), group, widths[group[-1]] * len(group))
        for group in _groups(widths, [1] * len(widths))
    ]


def in_order(read: Sequence[Piece], outputs: Tensor) -> Tensor:
    """Return the outputs (N, ...) of all pieces, joined in the order of the pieces, in the order of the rows."""
    rows = torch.tensor([row for piece in read for row in piece.rows], device=outputs.device)  # (N,)
    return outputs[rows.argsort()]


def add_up(loss: Callable[[Piece], Tensor], read: Sequence[Piece]) -> Tensor:
    """Add the gradients of a sum of losses, one of each piece, to the parameters and return it, without a graph.

    What adds up piece by piece needs no gradient caching: each is read once, and one is held at a time.
    """
    values = []
    for piece in read:
        value = loss(piece)
        torch.autograd.backward(value)
        values.append(value.detach())
    return torch.stack(values).sum()


def backward(
    encode: Callable[[_Read], Sequence[Tensor]],
    read: Sequence[_Read],
    loss: Callable[[Sequence[Tensor]], Tensor],
    *,
    held_tokens: int,
) -> Tensor:
    """Add the gradients of a loss over all pieces to the parameters and return it, without a graph.

    Within ``held_tokens`` every piece is read once; beyond, gradient caching reads them twice and holds one at a time.
    """
    if sum(piece.tokens for piece in read) > held_tokens:
        return cached_backward(encode, read, loss)
    outputs = zip(*(encode(piece) for piece in read), strict=True)
    value = loss([torch.cat(list(parts)) for parts in outputs])
    torch.autograd.backward(value)
    return value.detach()


def _groups(widths: Sequence[int], lines: Sequence[int]) -> list[list[int]]:
    """Return the numbers of what one pass reads, group by group, the narrowest first.

    Each takes so many lines of so many tokens.
    """
    groups: list[list[int]] = []
    count = 0
    for i in sorted(range(len(widths)), key=lambda i: widths[i]):
        if groups and (count + lines[i]) * widths[i] <= PIECE_TOKENS:
            groups[-1].append(i)
            count += lines[i]
        else:
            groups.append([i])
            count = lines[i]
    return groups


def _piece(learner: Learner, asked: Sequence[PromptRequest], width: int, *, shared: bool) -> Piece:
    texts = [one.text for one in asked]
    rows = [row for one in asked for row in one.rows]
    if shared:
        prompts: PromptBatch = learner.tokeniser.shared(texts, [one.instructions for one in asked])
        return Piece(prompts, rows, width * len(texts))
    every = [one.text for one in asked for _ in one.rows]
    separate = learner.tokeniser.separate(every, [one for text in asked for one in text.instructions])
    return Piece(separate, rows, width * len(rows))


def _width(learner: Learner, asked: PromptRequest, tail: int, *, shared: bool) -> int:
    """Return the tokens of the line a text takes with its questions, or with the longest of them, about."""
    text = learner.tokeniser.length(asked.text)
    each = [learner.tokeniser.length_around(one) + tail for one in asked.instructions]
    return text + (sum(each) if shared else max(each))
