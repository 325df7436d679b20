"""Reading a batch's prompts in training: a text's questions together, texts of like length together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from retriever.training.grad_cache import cached_backward
from retriever.training.objectives.base import Learner
from retriever.training.prompt_batches import PromptBatch

PIECE_TOKENS = 2048
"""Most padded tokens of one forward pass: texts of like length share one, so that little is padding."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A text and the questions it is read under in one batch.

    Attributes:
        text: the text.
        instructions: its questions.
        rows: a number for each question, the caller's.
    """

    text: str
    instructions: list[str]
    rows: list[int]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one forward pass reads.

    Attributes:
        prompts: of every row.
        rows: the rows' numbers, in the order of the prompts.
        tokens: with padding.
    """

    prompts: PromptBatch = field(repr=False)
    rows: list[int]
    tokens: int


def together(texts: Sequence[str], instructions: Sequence[str], rows: Sequence[int]) -> list[Asked]:
    """Return the rows by text, in the order of their first question."""
    found: dict[str, Asked] = {}
    for text, instruction, row in zip(texts, instructions, rows, strict=True):
        one = found.setdefault(text, Asked(text, [], []))
        one.instructions.append(instruction)
        one.rows.append(row)
    return list(found.values())


def pieces(learner: Learner, asked: Sequence[Asked], *, tail: int) -> list[Piece]:
    """Return the prompts in forward passes of at most `PIECE_TOKENS`, or of one text, shortest texts first.

    Args:
        learner: whose prompts.
        asked: texts with their questions.
        tail: tokens that will stand behind every prompt.
    """
    shared = learner.shares
    widths = [_width(learner, one, tail, shared=shared) for one in asked]
    order = sorted(range(len(asked)), key=lambda i: widths[i])
    groups: list[list[int]] = []
    count = 0
    for i in order:
        lines = 1 if shared else len(asked[i].rows)
        if groups and (count + lines) * widths[i] <= PIECE_TOKENS:
            groups[-1].append(i)
            count += lines
        else:
            groups.append([i])
            count = lines
    return [_piece(learner, [asked[i] for i in group], widths[group[-1]], shared=shared) for group in groups]


def backward(
    encode: Callable[[Piece], Sequence[Tensor]],
    read: Sequence[Piece],
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


def _piece(learner: Learner, asked: Sequence[Asked], width: int, *, shared: bool) -> Piece:
    texts = [one.text for one in asked]
    rows = [row for one in asked for row in one.rows]
    if shared:
        prompts: PromptBatch = learner.tokeniser.shared(texts, [one.instructions for one in asked])
        return Piece(prompts, rows, width * len(texts))
    every = [one.text for one in asked for _ in one.rows]
    return Piece(
        learner.tokeniser.separate(every, [one for text in asked for one in text.instructions]),
        rows,
        width * len(rows),
    )


def _width(learner: Learner, asked: Asked, tail: int, *, shared: bool) -> int:
    """Return the tokens of the line a text takes with its questions, or with the longest of them, about."""
    text = learner.tokeniser.length(asked.text)
    each = [learner.tokeniser.length_around(one) + tail for one in asked.instructions]
    return text + (sum(each) if shared else max(each))
