"""Cross entropy at chosen positions, which the InBedder losses and InstEmb's control share."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from retriever.training.losses.vectors import full_precision


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -log P(target) over C positions, 0 where there are none.

    Args:
        logits: (C, V).
        targets: (C,) token ids.
    """
    total = cross_entropy(full_precision(logits), targets, reduction="sum")
    return total / max(len(targets), 1)
