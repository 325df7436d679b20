"""GIRCSE's losses: contrast at every soft-token step, and a penalty on steps that do worse than the one before.

Source: "Let LLMs Speak Embedding Languages: Generative Text Embeddings via Iterative Contrastive Refinement",
section 3.3. z_k is the mean of the first k soft tokens' states.
"""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import relu

from retriever.training.losses.infonce import Negatives, infonce
from retriever.training.losses.vectors import full_precision

TEMPERATURE = 0.02

_LOWEST_LOSS = 1e-8  # what a step's loss counts as, at least, under the logarithm


@dataclass(frozen=True, slots=True)
class GircseLoss:
    """The parts of GIRCSE's objective: L_k (K,), L_reg, and lambda."""

    steps: Tensor
    refinement: Tensor
    weight: float

    @property
    def contrast(self) -> Tensor:
        """L_contrast, the sum over steps (eq. 7)."""
        return self.steps.sum()

    @property
    def total(self) -> Tensor:
        """L_contrast + lambda L_reg."""
        return self.contrast + self.weight * self.refinement


def stepwise(
    queries: Tensor,
    documents: Tensor,
    *,
    groups: Tensor | None = None,
    negatives: Negatives | None = None,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """Return the losses L_k (K,) of eq. 7, each InfoNCE of z_k^q against z_k^d (K, B, d), averaged over the batch.

    The candidates of a row are its own document, the other rows' documents and the row's hard negatives, vectors (K, B,
    H, d); ``groups`` as for `infonce`. The paper sums L_k over the steps; its released code averages instead, which has
    the same optimum at another scale.
    """
    return infonce(queries, documents, temperature=temperature, groups=groups, own=negatives).mean(dim=-1)


def refinement(steps: Tensor) -> Tensor:
    """Return L_reg of eq. 8: 1 / (K - 1) sum_k max(log L_{k+1} - log L_k, 0), and 0 for K = 1.

    Of the ``steps`` (K,) each is held at 1e-8 or more before the logarithm.
    """
    logs = full_precision(steps).clamp(min=_LOWEST_LOSS).log()  # (K,)
    return relu(logs[1:] - logs[:-1]).sum() / max(len(steps) - 1, 1)


def gircse(
    queries: Tensor,
    documents: Tensor,
    *,
    groups: Tensor | None = None,
    negatives: Negatives | None = None,
    temperature: float = TEMPERATURE,
    weight: float = 1.0,
) -> GircseLoss:
    """Return L_contrast + lambda L_reg and its parts; arguments as for `stepwise`, ``weight`` is lambda."""
    steps = stepwise(queries, documents, groups=groups, negatives=negatives, temperature=temperature)
    return GircseLoss(steps, refinement(steps), weight)
