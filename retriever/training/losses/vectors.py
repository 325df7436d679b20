"""Cosines and cross entropy as the losses need them: in full precision, with gradients that stay finite."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def full_precision(tensor: Tensor) -> Tensor:
    """Return the tensor as float32; float64 stays what it is, so that derivatives can be checked in it."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def unit(vectors: Tensor) -> Tensor:
    """Return vectors (..., d) of length 1; a zero vector stays zero and its gradient stays finite."""
    vectors = full_precision(vectors)
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # (..., 1)
    return vectors / torch.where(norms > 0, norms, 1)


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of every vector (..., A, d) with every vector (..., C, d): (..., A, C).

    Autocast is off inside: it would multiply in half precision whatever comes in.
    """
    with torch.autocast(left.device.type, enabled=False):
        return unit(left) @ unit(right).transpose(-1, -2)


def paired_cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the cosine of each vector (..., d) with its partner (..., d): (...)."""
    return (unit(left) * unit(right)).sum(dim=-1)


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log P(target) over logits (C, V) and token ids (C,), 0 where there are none."""
    return cross_entropy(full_precision(logits), targets, reduction="sum") / max(len(targets), 1)
