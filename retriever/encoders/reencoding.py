"""InBedder's re-enc: the model answers in words, and a second encoder embeds the answers (papers: InBedder)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from retriever.core.fingerprint import content_hash
from retriever.core.protocols import Encoder
from retriever.core.types import JSON
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import EncoderOptions, PromptEncoder
from retriever.encoders.inbedder import GENERATED_TOKENS
from retriever.encoders.reading import Prompted, Reading


@dataclass(frozen=True, slots=True)
class Sampling:
    """How re-enc samples its answers (section 1 of the method notes: T = 0.6, top-p 0.9)."""

    answers: int = 4
    temperature: float = 0.6
    top_p: float = 0.9


class ReEncodingEncoder(PromptEncoder):
    """InBedder's ``re-enc``: sample answers and average a second encoder's embeddings of them.

    The random numbers of a text come from the text itself, so its answers do not depend on its neighbours.

    Args:
        backbone: a causal model.
        options: ``steps`` is the most tokens of an answer.
        second: embeds the answers.
        sampling: how many answers, and how they are drawn.
    """

    method = "inbedder"
    poolings = ("re-enc",)
    reads_on = True

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, *, second: Encoder, sampling: Sampling | None = None
    ) -> None:
        super().__init__(backbone, options)
        self.second = second
        self.sampling = sampling or Sampling()
        self.steps = GENERATED_TOKENS if options.steps is None else options.steps

    def rebuild(self, options: EncoderOptions) -> "ReEncodingEncoder":
        """Return this encoder with other options, on the same models."""
        return ReEncodingEncoder(self.backbone, options, second=self.second, sampling=self.sampling)

    @property
    def dim(self) -> int:
        """Length of the second encoder's vectors."""
        return self.second.dim

    def identity(self) -> dict[str, JSON]:
        """Return what the fingerprint covers."""
        return {**super().identity(), "second": self.second.fingerprint, "answers": self.sampling.answers}

    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Sample, embed and average; the words are the first generated token's distribution."""
        sampled = self.answers(prompted)  # answers x B
        flat = [answer for one in sampled for answer in one]
        embedded = torch.from_numpy(self.second.encode(flat)).reshape(len(sampled), len(prompted.texts), -1)
        said = self.next_token(prompted.last) if answers else None
        return Reading(embedded.mean(dim=0), said)

    def answers(self, prompted: Prompted) -> list[list[str]]:
        """Return |S_Y| sampled answers for each text of the batch: a list per sample."""
        length = prompted.run.length
        samples = []
        for sample in range(self.sampling.answers):
            uniform = torch.tensor([list(_uniform(text, sample, cast("int", self.steps))) for text in prompted.texts])
            samples.append(self._sample(prompted, uniform))
            prompted.run.rewind(length)
        return samples

    def _sample(self, prompted: Prompted, uniform: Tensor) -> list[str]:
        state = prompted.last
        rows: list[list[int]] = [[] for _ in prompted.texts]
        going = [True] * len(rows)
        ends = set(self.backbone.end_ids.tolist())
        for step in range(uniform.shape[1]):
            token = nucleus_sample(self.backbone.logits(state), uniform[:, step], self.sampling)  # (B,)
            for row, chosen in enumerate(token.tolist()):
                going[row] = going[row] and chosen not in ends
                if going[row]:
                    rows[row].append(chosen)
            state = prompted.run.extend(self.backbone.embed(token.unsqueeze(1)))[:, -1]
        decode = self.backbone.tokenizer.tokenizer.decode
        return [str(decode(row)).strip() for row in rows]


def nucleus_sample(logits: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """Return one token (B,) per row by inverse-CDF over the smallest set of tokens holding ``top_p`` of the mass.

    Args:
        logits: (B, V).
        uniform: (B,) numbers in [0, 1).
        sampling: temperature and top_p.
    """
    probabilities, order = (logits / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True)
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = torch.where(before < sampling.top_p, probabilities, 0.0)
    cumulative = kept.cumsum(dim=-1) / kept.sum(dim=-1, keepdim=True)
    chosen = torch.searchsorted(cumulative, uniform.to(logits.device, cumulative.dtype).unsqueeze(1), right=True)
    last = (kept > 0).sum(dim=-1, keepdim=True) - 1  # rounding can put a number at or above the whole mass
    return order.gather(1, chosen.minimum(last)).squeeze(1)


def _uniform(text: str, sample: int, length: int) -> Iterator[float]:
    generator = np.random.default_rng([int.from_bytes(content_hash(text)[:8], "big"), sample])
    yield from generator.random(length)
