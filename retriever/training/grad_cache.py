"""Gradient caching: a batch larger than memory, with the gradients of the whole (Gao et al., 2021, section 3)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.training.randomness import RandomState

Chunk = TypeVar("Chunk")


def cached_backward(
    encode: Callable[[Chunk], Sequence[Tensor]], chunks: Sequence[Chunk], loss: Callable[[Sequence[Tensor]], Tensor]
) -> Tensor:
    """Add the gradients of a loss over a whole batch to the parameters, holding one chunk's graph at a time.

    The chunks are first read without gradients, the loss is taken over all their outputs, and then each chunk is read
    again to carry the gradients on into the parameters. Random numbers are the same both times, so dropout is too, and
    afterwards stand where one plain pass over the chunks would have left them.

    Args:
        encode: one chunk to one or more tensors (b, ...), b the rows of the chunk; the same number for every chunk.
        chunks: the batch in pieces, in order.
        loss: the tensors of all chunks, joined along their rows, to a scalar.

    Returns:
        The loss, a scalar without a graph.

    Raises:
        UsageError: there is no chunk, or the chunks give different numbers of tensors.
    """
    if not chunks:
        raise UsageError("A batch needs at least one chunk.")
    outputs, states = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(RandomState.now())
            outputs.append(list(encode(chunk)))
    if len({len(one) for one in outputs}) != 1:
        raise UsageError("Every chunk must give the same number of tensors.")
    joined = [torch.cat(parts) for parts in zip(*outputs, strict=True)]
    leaves = [one.requires_grad_() if one.is_floating_point() else one for one in joined]
    value = loss(leaves)
    torch.autograd.backward(value)
    after = RandomState.now()  # the loss may have drawn numbers too
    sizes = [[part.shape[0] for part in parts] for parts in zip(*outputs, strict=True)]
    gradients = [_split(leaf, size) for leaf, size in zip(leaves, sizes, strict=True)]
    for i, (chunk, state) in enumerate(zip(chunks, states, strict=True)):
        state.restore()
        _carry_on(encode(chunk), [one[i] for one in gradients])
    after.restore()
    return value.detach()


def _split(leaf: Tensor, sizes: list[int]) -> Sequence[Tensor | None]:
    """Return the gradient of a joined tensor chunk by chunk; None where the loss does not depend on it."""
    return [None] * len(sizes) if leaf.grad is None else torch.split(leaf.grad, sizes)


def _carry_on(outputs: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    pairs = [
        (output, gradient)
        for output, gradient in zip(outputs, gradients, strict=True)
        if gradient is not None and output.requires_grad  # a teacher's states take no gradient
    ]
    if pairs:
        torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
