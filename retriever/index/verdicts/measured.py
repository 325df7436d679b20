"""The model that makes a chance of a verdict's features, as `recipes/verdict.py` measured it (``measured.json``)."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from retriever.core.fingerprint import json_hash
from retriever.core.protocols import Encoder
from retriever.core.verdicts import Level
from retriever.index.verdicts.features import RULE


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of a feature: its weight per ``deviation`` by which it is above ``mean``."""

    weight: float
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A logistic model over features, and where its chances count as a yes or a no.

    Attributes:
        version: tells this measurement, with the rule of `features.by_topic`, from others.
        fingerprint: of the encoder it was measured with.
        weights: by feature.
        bias: of the logistic function.
        followed: least chance of a question that is called followed.
        not_followed: greatest chance of one that is not; between the two it is unclear.
        plain: fingerprint of the base encoder it was measured with.
    """

    version: str
    fingerprint: str
    weights: Mapping[str, Weight]
    bias: float
    followed: float
    not_followed: float
    plain: str = ""

    def is_of(self, encoder: Encoder, plain: Encoder | None) -> bool:
        """Whether these very models were measured."""
        return plain is not None and (encoder.fingerprint, plain.fingerprint) == (self.fingerprint, self.plain)

    def chance(self, features: Mapping[str, float]) -> float:
        """Return the chance, 0 to 1, that the question is followed; a feature that is not there says nothing."""
        score = self.bias
        for name, weight in self.weights.items():
            if name in features:
                score += weight.weight * (features[name] - weight.mean) / weight.deviation
        return 1 / (1 + math.exp(-score))

    def level(self, chance: float) -> Level:
        """Return what a chance is called."""
        return "followed" if chance >= self.followed else "not followed" if chance <= self.not_followed else "unclear"


def measured_of(document: Mapping[str, Any]) -> Measured:
    """Return the model of a JSON object as the benchmark writes it."""
    return Measured(
        version=json_hash({**document, "rule": RULE})[:12],
        fingerprint=document["fingerprint"],
        weights={name: Weight(**weight) for name, weight in document["weights"].items()},
        bias=document["bias"],
        followed=document["followed"],
        not_followed=document["not_followed"],
        plain=document["plain"],
    )


MEASURED = measured_of(json.loads(resources.files(__package__).joinpath("measured.json").read_text(encoding="utf-8")))
"""The measurement that ships."""
