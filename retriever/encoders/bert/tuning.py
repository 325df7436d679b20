"""Fine-tune a sentence encoder on a few labelled texts, in seconds: a low-rank change of every linear layer, in torch.

Every step looks at all pairs of a batch: the cosine of two texts is drawn towards 1 where they have one label, towards
0 where they have two, and either sort of pair has the same say. That is the loss of SetFit's first part (Tunstall et
al., "Efficient Few-Shot Learning Without Prompts", 2022, section 3), which reads two texts for every pair; here a text
is read once for all its pairs.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.core.encoder import OnStep
from retriever.core.types import Ids
from retriever.encoders.bert.arrays import BertWeights
from retriever.encoders.bert.layout import BertLayout
from retriever.encoders.bert.low_rank import LINEAR, Factors
from retriever.encoders.bert.packs import plan_packs
from retriever.encoders.bert.tensors import TensorBert

RANK, RATE = 8, 2e-3
BATCH = 48
"""Most texts of a step."""
MOST_TOKENS = 128
"""Most tokens of a text that are learned from."""


def tune(
    layout: BertLayout,
    weights: BertWeights,
    texts: Sequence[Sequence[int]],
    labels: Ids,
    *,
    steps: int,
    device: torch.device,
    on_step: OnStep | None = None,
) -> list[Factors]:
    """Return what is added to a model's weights, layer by layer, in the order of `LINEAR`; always the same for these.

    Args:
        layout: the model's shape.
        weights: its weights, which stay as they are.
        texts: n sequences of tokens.
        labels: (n,) theirs; of each label two texts or more.
        steps: of AdamW.
        device: where to compute.
        on_step: called after every step.
    """
    model = TensorBert(layout, weights, device, torch.float32)
    generator = torch.Generator().manual_seed(0)
    changes = [_put(layer, name, generator) for layer in model.layers for name in LINEAR]
    optimiser = torch.optim.AdamW([one for change in changes for one in (change.up, change.down)], lr=RATE)
    cut = [row[:MOST_TOKENS] for row in texts]
    for batch in _batches(labels, steps):
        pack = next(plan_packs([cut[row] for row in batch], MOST_TOKENS * BATCH))
        found = functional.normalize(model(pack))
        loss = _pair_loss(found @ found.T, torch.from_numpy(labels[batch][list(pack.rows)]).to(device))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if on_step is not None:
            on_step()
    return [Factors(one.up.detach().cpu().numpy(), one.down.detach().cpu().numpy()) for one in changes]


class _Changed(nn.Module):
    """A linear layer with a low-rank change beside it, which is nought at first."""

    def __init__(self, linear: nn.Linear, generator: torch.Generator) -> None:
        super().__init__()
        out, inner = linear.weight.shape
        self.linear = linear
        drawn = torch.randn(RANK, inner, generator=generator) / inner**0.5
        self.down = nn.Parameter(drawn.to(linear.weight.device))
        self.up = nn.Parameter(torch.zeros(out, RANK, device=linear.weight.device))

    def forward(self, states: Tensor) -> Tensor:
        """Return the layer's product and the change's."""
        product: Tensor = self.linear(states) + functional.linear(functional.linear(states, self.down), self.up)
        return product


def _put(layer: nn.Module, name: str, generator: torch.Generator) -> _Changed:
    """Put a change beside a linear layer, and return it."""
    changed = _Changed(getattr(layer, name), generator)
    setattr(layer, name, changed)
    return changed


def _batches(labels: Ids, steps: int) -> Iterator[Ids]:
    """Yield the rows of every step: all where they are few, else as many of each label as fit, drawn anew."""
    generator = np.random.default_rng(0)
    if len(labels) <= BATCH:
        yield from (np.arange(len(labels)) for _ in range(steps))
        return
    rows = [np.flatnonzero(labels == one) for one in np.unique(labels)]
    each = max(2, BATCH // len(rows))  # a label that is there once has no pair
    for _ in range(steps):
        chosen = [generator.permutation(rows[one])[:each] for one in generator.permutation(len(rows))[: BATCH // each]]
        yield np.sort(np.concatenate(chosen))


def _pair_loss(cosines: Tensor, labels: Tensor) -> Tensor:
    """Return the mean square of what pairs' cosines (n, n) are off, those of one label and those of two in halves."""
    same = labels[:, None] == labels
    others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    near, far = (1 - cosines[same & others]).square(), cosines[~same].square()
    loss: Tensor = (near.mean() + far.mean()) / 2
    return loss
