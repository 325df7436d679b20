"""Facts that this process knows of a model behind an endpoint, and the sentences by whose vectors it is recognised."""

import base64
import threading
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from retriever.core.errors import EncoderMismatchError, IndexDamagedError
from retriever.core.fingerprint import json_hash
from retriever.core.roles import RolePrompts
from retriever.core.similarity import normalise
from retriever.core.types import JSON, Embeddings
from retriever.encoders.answers.places import ENCODERS, Place

PROBES = (
    "The river froze in January.",
    "How do I renew my passport?",
    "The battery of this drill lasts two hours.",
    "Der Zug nach Bremen hat Verspätung.",
    "def area(radius): return 3.14159 * radius ** 2",
    "She sold the painting for half of what it had cost.",
    "No.",
    "Patients over sixty received the lower dose, and their blood pressure was measured every morning.",
)
"""Sentences whose vectors tell one model from another: nobody can hash the weights of a model that is elsewhere."""

LEAST_COSINE = 0.999
"""Below this, the vector of a probe is another one: number formats and batches move a cosine by less."""

CALLS_AT_ONCE = 8
TEXTS_A_CALL = 32
"""Most texts of a call; some servers take no more."""

_ROUNDED = 2  # decimals of a probe's numbers in a fingerprint
_STORED = np.dtype("<f2")


class Served:
    """A model as this process met it; `served_at` gives every thread the same object.

    Attributes:
        lock: held by who meets the model, so that probes are asked once.
        probes: the vectors (8, dim) of `PROBES`; None until they were asked.
        own: whether a server of this package serves it, which takes instructions beside the texts.
        texts: most texts of a call, as far as is known.
        slots: for calls in flight.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.probes: Embeddings | None = None
        self.own = False
        self.texts = TEXTS_A_CALL
        self.slots = threading.BoundedSemaphore(CALLS_AT_ONCE)

    @property
    def settled(self) -> bool:
        """Whether it has answered in this process."""
        return self.probes is not None


_served: dict[tuple[str, str, int | None], Served] = {}
_lock = threading.Lock()


def served_at(place: Place, dimensions: int | None) -> Served:
    """Return what this process knows of a model that is asked for so many numbers of a vector, None for all."""
    with _lock:
        return _served.setdefault((place.url, place.model, dimensions), Served())


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """The facts that vectors of a model depend on, as far as anybody can tell from elsewhere; an index keeps them.

    Attributes:
        fingerprint: hex digest over model, prompts and the rounded probes.
        probes: the vectors (8, dim) of `PROBES`.
        prompts: what stands before queries and documents.
        own: whether instructions are sent beside the texts.
    """

    fingerprint: str
    probes: Embeddings
    prompts: RolePrompts
    own: bool

    @classmethod
    def of(cls, place: Place, probes: Embeddings, prompts: RolePrompts, *, own: bool) -> Self:
        """Return the identity of a model by the vectors of its probes."""
        said: dict[str, JSON] = {
            "method": ENCODERS,
            "model": place.model,
            "prompts": [prompts.query, prompts.document, prompts.default_instruction],
            "instructions_beside": own,
            "probes": (np.round(probes, _ROUNDED) + 0.0).tolist(),
        }
        return cls(json_hash(said), probes, prompts, own)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.probes.shape[1])

    def to_json(self) -> dict[str, JSON]:
        """Return what `from_description` reads, but for the fingerprint."""
        prompts = self.prompts
        return {
            "probes": base64.b64encode(self.probes.astype(_STORED).tobytes()).decode("ascii"),
            "prompts": [prompts.query, prompts.document, prompts.default_instruction, prompts.origin],
            "instructions_beside": self.own,
        }

    @classmethod
    def from_description(cls, fingerprint: str, stored: Any) -> Self:  # noqa: ANN401 - JSON
        """Read what `to_json` wrote.

        Raises:
            IndexDamagedError: it is something else.
        """
        try:
            numbers = np.frombuffer(base64.b64decode(stored["probes"]), dtype=_STORED)
            prompts = RolePrompts(*stored["prompts"])
            return cls(fingerprint, normalise(numbers.reshape(len(PROBES), -1)), prompts, stored["instructions_beside"])
        except (KeyError, TypeError, ValueError) as error:
            raise IndexDamagedError(f"What the index holds of its endpoint cannot be read ({error}).") from error

    def differs(self, probes: Embeddings) -> str:
        """Return what has changed where vectors (8, dim') of `PROBES` are of another model, in words; else nothing."""
        if probes.shape[1] != self.dim:
            return f"its vectors have {probes.shape[1]} numbers now, and had {self.dim}"
        cosines = (self.probes * probes).sum(axis=1)
        worst = int(np.argmin(cosines))
        if cosines[worst] >= LEAST_COSINE:
            return ""
        return f"its vector of {PROBES[worst]!r} has a cosine of {cosines[worst]:.3f} with the one that the index holds"

    def require(self, probes: Embeddings, place: Place) -> None:
        """Refuse a model whose probes have other vectors.

        Raises:
            EncoderMismatchError: it is one.
        """
        if changed := self.differs(probes):
            raise EncoderMismatchError(
                f"{place.model} at {place.host} is not the model that the index was made with: {changed}.",
                hint="Serve the model again that it was made with, or `retriever reembed` with the one of today.",
            )
