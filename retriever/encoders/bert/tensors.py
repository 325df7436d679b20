"""The model in torch, as `arrays` computes it: reads texts on a CPU or a GPU, and is fine-tuned on a few examples.

Why our own: a text has one vector, bit by bit, in whatever batch it is read. SentenceTransformer takes 3.0 times as
long in float32, its default, and 1.8 times in bfloat16.

The fine-tuning learns a low-rank change of every linear layer. Every step looks at all pairs of a batch: the cosine of
two texts is drawn towards 1 where they have one label, towards 0 where they have two, and either sort of pair weighs as
much. That is the loss of SetFit's first part (Tunstall et al., "Efficient Few-Shot Learning Without Prompts", 2022,
section 3), which reads two texts for every pair; here a text is read once for all its pairs.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.core.protocols import OnStep
from retriever.core.types import Embeddings, Ids
from retriever.encoders.bert.arrays import LINEAR, Affine, BertWeights, Factors, Floats, Layer, Pack, plan_packs
from retriever.encoders.bert.layout import BertLayout
from retriever.encoders.kernels import PackedLinear, in_rows, multiplies_bfloat16, pack_linear_layers

BUDGETS: Mapping[str, int] = {"cpu": 4096, "cuda": 65_536}
"""Tokens of a pack by torch's device type; others take the CPU's."""

EVEN_ROWS = 64
"""Tokens of a pack on a CPU are filled up to a multiple: oneDNN keeps half a megabyte for every number it ever had."""


def quick_dtype(device: torch.device) -> torch.dtype:
    """Return what many texts are read in where nothing else is asked: bfloat16 on a CPU that multiplies it faster."""
    return torch.bfloat16 if device.type == "cpu" and multiplies_bfloat16() else torch.float32


class TensorBert(nn.Module):
    """Computes the pooled vectors of packs in torch.

    In any number format, embeddings are added up and states pooled in float32. A model that is ``trained`` keeps its
    weights as they are, so that a change can be put beside them.
    """

    def __init__(
        self,
        layout: BertLayout,
        weights: BertWeights,
        device: torch.device,
        dtype: torch.dtype,
        *,
        trained: bool = False,
    ) -> None:
        super().__init__()
        self._layout = layout
        self._device, self._dtype = device, dtype
        self.budget = BUDGETS.get(device.type, BUDGETS["cpu"])
        self._words, self._places = (_tensor(table).to(device) for table in (weights.words, weights.places))
        self._norm = _norm(weights.norm, layout.epsilon).to(device)
        self.layers = nn.ModuleList(_TensorLayer(layer, layout) for layer in weights.layers).to(device, dtype)
        self._even_rows = 1 if trained or device.type != "cpu" else EVEN_ROWS
        if not trained:
            pack_linear_layers(self.layers, single=True)

    @torch.inference_mode()
    def read(self, pack: Pack) -> Embeddings:
        """Return the pooled states (n, d) of a pack's texts, in the order of its rows, of any length, as float32."""
        vectors: Embeddings = self(pack).cpu().numpy()
        return vectors

    def forward(self, pack: Pack) -> Tensor:
        """Return what `read` does, as a tensor through which gradients flow."""
        ids, places = (torch.from_numpy(array).to(self._device) for array in (pack.ids, pack.places))
        states = self._norm(self._words[ids] + self._places[places]).to(self._dtype)  # (T, d)
        states = functional.pad(states, (0, 0, 0, -pack.tokens % self._even_rows))
        for layer in self.layers:
            states = layer(states, pack)
        pooled = [states[run.tokens].view(run.texts, run.length, -1).float() for run in pack.runs]  # (t, n, d) each
        vectors = [texts[:, 0] if self._layout.pooling == "cls" else texts.mean(dim=1) for texts in pooled]
        return torch.cat(vectors)


class _TensorLayer(nn.Module):
    """One layer over packed states."""

    def __init__(self, layer: Layer, layout: BertLayout) -> None:
        super().__init__()
        self._heads = layout.heads
        self.attention, self.mixed = _linear(layer.attention), _linear(layer.mixed)
        self.up, self.down = _linear(layer.up), _linear(layer.down)
        self.attention_norm = _norm(layer.attention_norm, layout.epsilon)
        self.output_norm = _norm(layer.output_norm, layout.epsilon)

    def forward(self, states: Tensor, pack: Pack) -> Tensor:
        """Return the next states (T, d)."""
        mixed = in_rows(self._attended(in_rows(states, self.attention), pack), self.mixed)
        states = self.attention_norm(states + mixed)
        up = self.up
        inner = up.gelu(states) if isinstance(up, PackedLinear) else functional.gelu(in_rows(states, up))  # (T, m)
        out: Tensor = self.output_norm(states + in_rows(inner, self.down))
        return out

    def _attended(self, projected: Tensor, pack: Pack) -> Tensor:
        """Return what every token (T, d) takes from its own text, given queries, keys and values (T, 3d)."""
        mixed = projected.new_zeros(len(projected), projected.shape[1] // 3)
        for run in pack.runs:
            parts = projected[run.tokens].view(run.texts, run.length, 3, self._heads, -1)
            queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # (t, heads, n, width) each
            taken = _attended(queries, keys, values)
            mixed[run.tokens] = taken.transpose(1, 2).reshape(-1, mixed.shape[1])
        return mixed


def _attended(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return what queries take from values, all (t, heads, n, width).

    On a CPU the fused kernel's backward pass takes several times as long as the plain one's.
    """
    if not (torch.is_grad_enabled() and queries.requires_grad and queries.device.type == "cpu"):
        return functional.scaled_dot_product_attention(queries, keys, values)
    scores = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
    taken: Tensor = scores.softmax(dim=-1) @ values
    return taken


def _linear(affine: Affine) -> nn.Linear:
    made = nn.Linear(affine.weight.shape[1], affine.weight.shape[0], device="meta")
    made.weight, made.bias = _parameter(affine.weight), _parameter(affine.bias)
    return made


def _norm(affine: Affine, epsilon: float) -> nn.LayerNorm:
    made = nn.LayerNorm(affine.weight.shape[0], eps=epsilon, device="meta")
    made.weight, made.bias = _parameter(affine.weight), _parameter(affine.bias)
    return made


def _parameter(values: Floats) -> nn.Parameter:
    return nn.Parameter(_tensor(values), requires_grad=False)


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(values)  # the same memory


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

    ``texts`` are n sequences of tokens with labels (n,), two or more of each label; the weights stay as they are, and
    ``on_step`` is called after every step of AdamW.
    """
    model = TensorBert(layout, weights, device, torch.float32, trained=True)
    changes = put_changes(model, RANK, torch.Generator().manual_seed(0))
    optimiser = torch.optim.AdamW([factor for change in changes for factor in (change.up, change.down)], lr=RATE)
    cut = [row[:MOST_TOKENS] for row in texts]
    for batch in _batches(labels, steps):
        pack = next(plan_packs([cut[row] for row in batch], MOST_TOKENS * BATCH))
        vectors = functional.normalize(model(pack))
        loss = _pair_loss(vectors @ vectors.T, torch.from_numpy(labels[batch][list(pack.rows)]).to(device))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if on_step is not None:
            on_step()
    return [change.factors() for change in changes]


class Changed(nn.Module):
    """A linear layer with a low-rank change beside it in float32, which is nought at first."""

    def __init__(self, linear: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        out, inner = linear.weight.shape
        self.linear = linear
        drawn = torch.randn(rank, inner, generator=generator) / inner**0.5
        self.down = nn.Parameter(drawn.to(linear.weight.device))
        self.up = nn.Parameter(torch.zeros(out, rank, device=linear.weight.device))

    def forward(self, states: Tensor) -> Tensor:
        """Return the layer's product and the change's."""
        down, up = self.down.to(states.dtype), self.up.to(states.dtype)
        product: Tensor = self.linear(states) + functional.linear(functional.linear(states, down), up)
        return product

    def factors(self) -> Factors:
        """Return a copy of the change as it is now."""
        return Factors(*(side.detach().cpu().numpy().copy() for side in (self.up, self.down)))


def put_changes(model: TensorBert, rank: int, generator: torch.Generator) -> list[Changed]:
    """Put a change beside every linear layer of a model, and return them layer by layer, in the order of `LINEAR`."""
    changes = []
    for layer in model.layers:
        for name in LINEAR:
            changes.append(Changed(getattr(layer, name), rank, generator))
            setattr(layer, name, changes[-1])
    return changes


def _batches(labels: Ids, steps: int) -> Iterator[Ids]:
    """Yield the rows of every step: all where they are few, else as many of each label as fit, drawn anew."""
    generator = np.random.default_rng(0)
    if len(labels) <= BATCH:
        yield from (np.arange(len(labels)) for _ in range(steps))
        return
    rows = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    each = max(2, BATCH // len(rows))  # a label that is there once has no pair
    for _ in range(steps):
        chosen = [
            generator.permutation(rows[label])[:each] for label in generator.permutation(len(rows))[: BATCH // each]
        ]
        yield np.sort(np.concatenate(chosen))


def _pair_loss(cosines: Tensor, labels: Tensor) -> Tensor:
    """Return the mean square of what pairs' cosines (n, n) are off, those of one label and those of two in halves."""
    same = labels[:, None] == labels
    others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    near, far = (1 - cosines[same & others]).square(), cosines[~same].square()
    loss: Tensor = (near.mean() + far.mean()) / 2
    return loss
