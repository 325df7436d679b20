"""A sentence encoder in training: a low-rank change beside its weights, read as `InstructorEncoder` will read it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.encoders.bert.arrays import LINEAR, Factors, Pack, plan_packs
from retriever.encoders.bert.encoder import BertTokens
from retriever.encoders.bert.tensors import Changed, TensorBert, put_changes, quick_dtype
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.instructor import Change, InstructorEncoder
from retriever.encoders.methods import DEFAULT_INSTRUCTION
from retriever.training.adapters import AdapterSettings
from retriever.training.footprint import Footprint
from retriever.training.objectives.reading import PIECE_TOKENS, in_order
from retriever.training.trained import Trained, require_gradients


class AdaptedSentenceEncoder(Trained):
    """An encoder whose low-rank change is trained; its other weights stay as they are.

    Args:
        encoder: what training goes on from; a checkpoint keeps the rank of its change.
        settings: the rank of a new change; nothing else of it is meant for such an encoder.
        max_text_tokens: texts are cut to so many.
        seed: of what a new change starts from.

    Raises:
        UsageError: the number format is float16, in which gradients vanish.
    """

    def __init__(
        self,
        encoder: InstructorEncoder,
        settings: AdapterSettings,
        *,
        max_text_tokens: int,
        seed: int,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        self.encoder = encoder
        self.device = pick_device(device)
        self.dtype = quick_dtype(self.device) if dtype == "auto" else pick_dtype(dtype, self.device)
        require_gradients(self.dtype)
        self.tokens: BertTokens = encoder.published.tokens.limited(max_text_tokens)
        begun = None if encoder.change is None else encoder.change.factors
        rank = settings.rank if begun is None else len(begun[0].down)
        self.settings = AdapterSettings(rank=rank, alpha=rank)
        published = encoder.published
        self._model = TensorBert(published.layout, published.weights, self.device, self.dtype, trained=True)
        self._changes = put_changes(self._model, rank, torch.Generator().manual_seed(seed))
        for change, factor in zip(self._changes, begun or (), strict=begun is not None):
            _set(change, factor)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trained parameters by name, all float32, in an order that does not change."""
        named: dict[str, nn.Parameter] = {}
        for place, change in enumerate(self._changes):
            name = f"layers.{place // len(LINEAR)}.{LINEAR[place % len(LINEAR)]}"
            named |= {f"{name}.up": change.up, f"{name}.down": change.down}
        return named

    @property
    def footprint(self) -> Footprint:
        """The memory that training takes."""
        layout, weights = self.encoder.published.layout, self.encoder.published.weights
        linear = [getattr(layer, name).weight for layer in weights.layers for name in LINEAR]
        return Footprint.of(
            [weight.shape for weight in linear],
            weights=sum(array.nbytes for array in (weights.words, weights.places, *linear)),
            trained=sum(parameter.numel() for parameter in self.parameters.values()),
            heads=layout.heads * layout.layers,
            size=self.dtype.itemsize,
        )

    def packs(self, texts: Sequence[str], instructions: Sequence[str]) -> list[Pack]:
        """Return texts, each under the instruction beside it, in forward passes."""
        default = self.encoder.options.default_instruction or DEFAULT_INSTRUCTION
        asked = (instruction.strip() or default for instruction in instructions)
        ids = [self.tokens.ids([text], question)[0] for text, question in zip(texts, asked, strict=True)]
        return list(plan_packs(ids, PIECE_TOKENS))

    def vectors(self, pack: Pack) -> Tensor:
        """Return the vectors (n, d) of a pack's texts, of length 1, in the order of its rows."""
        return functional.normalize(self._model(pack))

    def read(self, texts: Sequence[str], instructions: Sequence[str]) -> Tensor:
        """Return the vectors (n, d) of texts, each under the instruction beside it, of length 1."""
        packs = self.packs(texts, instructions)
        return in_order(packs, torch.cat([self.vectors(pack) for pack in packs]))

    def trained(self, answers: Sequence[str], *, plain: bool) -> InstructorEncoder:
        """Return the encoder as the training has it now; its words are taken from its own answers and these.

        It reads texts under no question as published, unless training taught or teaches those too (``plain``).
        """
        known = dict.fromkeys([*self.encoder.answers, *answers])
        change = Change([change.factors() for change in self._changes], tuple(known))
        before = "" if self.encoder.change is None else self.encoder.options.default_instruction
        return self.encoder.changed(change, before or (DEFAULT_INSTRUCTION if plain else ""))


def _set(change: Changed, factors: Factors) -> None:
    with torch.no_grad():
        for parameter, values in ((change.up, factors.up), (change.down, factors.down)):
            parameter.copy_(torch.from_numpy(values))


@dataclass(frozen=True, slots=True)
class SentenceLearner:
    """The encoder in training; the seed is that of everything that is drawn."""

    adapted: AdaptedSentenceEncoder
    seed: int

    def published(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors (n, d) of texts as the encoder that training began with was published."""
        adapted, rows = self.adapted, torch.zeros(len(texts), self.adapted.encoder.dim)
        for read, vectors in adapted.encoder.published.read(texts):
            rows[list(read)] = torch.from_numpy(vectors)
        return functional.normalize(rows).to(adapted.device)
