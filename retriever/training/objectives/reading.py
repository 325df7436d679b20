"""Reading a batch's prompts in training: a text's questions together, texts of like length together.

A batch larger than memory is read twice, piece by piece, with the gradients of the whole (gradient caching, Gao et al.,
2021, section 3).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from retriever.encoders.readout import daap
from retriever.training.checkpoints import RandomState
from retriever.training.objectives.base import Learner
from retriever.training.passes import soft_token_states, student_states
from retriever.training.prompt_batches import PromptBatch, SeparatePrompts

Chunk = TypeVar("Chunk")
Outputs = Mapping[str, Tensor]
"""Tensors (b, ...) by name, b the rows of what was read."""


def cached_backward(
    encode: Callable[[Chunk], Outputs], chunks: Sequence[Chunk], loss: Callable[[Outputs], Tensor]
) -> Tensor:
    """Add the gradients of a loss over a whole batch to the parameters, holding one chunk's graph at a time.

    The chunks are first read without gradients, the loss is taken over all their outputs, and then each chunk is read
    again to carry the gradients on into the parameters. Random numbers are the same both times, so dropout is too, and
    afterwards stand where one plain pass over the chunks would have left them.

    Args:
        encode: one chunk to its outputs; chunks may differ in what they have.
        chunks: the batch in pieces, in order, one at least.
        loss: the outputs of all chunks, those of one name joined along their rows, to a scalar.

    Returns:
        The loss, a scalar without a graph.
    """
    outputs, states = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(RandomState.now())
            outputs.append(encode(chunk))
    leaves = {
        name: tensor.requires_grad_() if tensor.is_floating_point() else tensor
        for name, tensor in _joined(outputs).items()
    }
    value = loss(leaves)
    torch.autograd.backward(value)
    after = RandomState.now()  # the loss may have drawn numbers too
    slopes = {
        name: iter(torch.split(leaf.grad, [len(output[name]) for output in outputs if name in output]))
        for name, leaf in leaves.items()
        if leaf.grad is not None
    }
    for chunk, state in zip(chunks, states, strict=True):
        state.restore()
        pairs = [(output, next(slopes[name])) for name, output in encode(chunk).items() if name in slopes]
        learned = [pair for pair in pairs if pair[0].requires_grad]  # a teacher's states take no gradient
        if learned:
            torch.autograd.backward([output for output, _ in learned], [slope for _, slope in learned])
    after.restore()
    return value.detach()


def _joined(outputs: Sequence[Outputs]) -> dict[str, Tensor]:
    """Return the tensors of each name behind one another."""
    names = dict.fromkeys(name for output in outputs for name in output)
    return {name: torch.cat([output[name] for output in outputs if name in output]) for name in names}


PIECE_TOKENS = 2048
"""Most padded tokens of one forward pass: texts of like length share one, so that little is padding."""


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


class Part(Protocol):
    """The input of one forward pass of any model: the numbers of its rows, and its tokens with padding."""

    @property
    def rows(self) -> Sequence[int]:
        """The numbers of the rows."""
        ...

    @property
    def tokens(self) -> int:
        """The tokens that are read."""
        ...


_Read = TypeVar("_Read", bound=Part)


class Prompts:
    """The different prompts of a batch, each to be read once however many rows need it."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], int] = {}

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


def pieces(learner: Learner, texts: Sequence[str], instructions: Sequence[str], *, tail: int) -> list[Piece]:
    """Return texts, each under the instruction beside it, in passes of at most `PIECE_TOKENS`, or of one text.

    The shortest texts come first; ``tail`` tokens will stand behind every prompt.
    """
    by_text: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(texts):
        by_text[text].append(row)
    tokeniser, shared = learner.tokeniser, learner.shares
    own = list(by_text.values())
    widths = []  # of the line that a text takes with its questions, or with the longest of them, about
    for text, rows in by_text.items():
        beside = [tokeniser.length_around(instructions[row]) + tail for row in rows]
        widths.append(tokeniser.length(text) + (sum(beside) if shared else max(beside)))
    read = []
    for group in _groups(widths, [1 if shared else len(rows) for rows in own]):
        rows, width = [row for i in group for row in own[i]], widths[group[-1]]
        if shared:
            questions = [[instructions[row] for row in own[i]] for i in group]
            prompts: PromptBatch = tokeniser.shared([texts[own[i][0]] for i in group], questions)
        else:
            prompts = tokeniser.separate([texts[row] for row in rows], [instructions[row] for row in rows])
        read.append(Piece(prompts, rows, width * len(group if shared else rows)))
    return read


def separate_pieces(prompts: SeparatePrompts, *, tail: int) -> list[SeparatePiece]:
    """Return prompts, numbered from 0, in passes as `pieces` does, where a text's questions cannot be read together."""
    widths = [len(row) + tail for row in prompts.rows]
    return [
        SeparatePiece(SeparatePrompts([prompts.rows[i] for i in group]), group, widths[group[-1]] * len(group))
        for group in _groups(widths, [1] * len(widths))
    ]


def in_order(read: Sequence[Part], outputs: Tensor) -> Tensor:
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
    encode: Callable[[_Read], Outputs],
    read: Sequence[_Read],
    loss: Callable[[Outputs], Tensor],
    *,
    held_tokens: int,
) -> Tensor:
    """Add the gradients of a loss over all pieces to the parameters and return it, without a graph.

    Within ``held_tokens`` every piece is read once; beyond, gradient caching reads them twice and holds one at a time.
    Arguments as for `cached_backward`.
    """
    if sum(piece.tokens for piece in read) > held_tokens:
        return cached_backward(encode, read, loss)
    value = loss(_joined([encode(piece) for piece in read]))
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


class VectorReader:
    """Reads prompts into vectors: GIRCSE's z_K, else InstEmb's ``daap``, else the last prompt state.

    The model is a causal one; ``steps`` is K, for a model that is to be a GIRCSE encoder. With ``every_step`` a vector
    (d,) becomes z_1 to z_K (K, d).
    """

    def __init__(self, learner: Learner, *, steps: int | None = None, every_step: bool = False) -> None:
        self._learner = learner
        self._steps = steps
        self._every_step = every_step

    def pieces(self, texts: Sequence[str], instructions: Sequence[str]) -> list[Piece]:
        """Return the prompts of texts, each under the instruction beside it, in forward passes."""
        if self._steps is not None:
            prompts = self._learner.tokeniser.separate(texts, instructions)
            return [*separate_pieces(prompts, tail=self._steps)]
        return pieces(self._learner, texts, instructions, tail=self._learner.adapted.look_ahead_length)

    def read(self, piece: Piece, *, dropout: float | None = None) -> Tensor:
        """Return the vectors (b, d) of a piece's prompts, of any length; ``dropout`` as for `student_states`."""
        adapted = self._learner.adapted
        if self._steps is not None and isinstance(piece, SeparatePiece):
            states = soft_token_states(adapted, piece.prompts, steps=self._steps, dropout=dropout)  # (b, K, d)
            return states if self._every_step else states[:, -1]
        read = student_states(adapted, piece.prompts, dropout=dropout)
        return daap(read.last, read.tail) if read.tail.shape[1] else read.last

    def backward(
        self, texts: Sequence[str], instructions: Sequence[str], loss: Callable[[Tensor], Tensor], *, held_tokens: int
    ) -> Tensor:
        """Add the gradients of a loss over the prompts' vectors (n, d), as `backward` does, and return it."""
        read = self.pieces(texts, instructions)
        return backward(
            lambda piece: {"vectors": self.read(piece)},
            read,
            lambda outputs: loss(in_order(read, outputs["vectors"])),
            held_tokens=held_tokens,
        )
