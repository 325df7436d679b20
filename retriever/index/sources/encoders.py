"""The two encoders of an index: the base encoder reads texts as they are, the other one under an instruction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from retriever.core.door import Door
from retriever.core.errors import EncoderError, UsageError
from retriever.core.protocols import Encoder, Tuning
from retriever.core.types import JSON
from retriever.index.encoding import MEMORY, Loader, belongs, described_key, load_described, view_key
from retriever.store.database import Store
from retriever.store.views import View, ViewKey

ENCODER = "encoder"
"""The setting that describes the encoder that follows instructions, and fills the base view where none else does."""

PLAIN = "base_encoder"
"""The setting that describes the encoder of the base view, where that has one of its own."""

MODEL = "model"
"""Folder of an imported index's own checkpoint."""

OWN_MODEL = f"./{MODEL}"
"""Stands for the name of that checkpoint in the setting, so that the folder can be moved."""

DEFAULT_BASE = "minilm"
"""Name of the base encoder of new indexes."""

BaseEncoder = Encoder | Literal["none"]
"""The base view's encoder: an encoder of its own, or the one that follows instructions."""

_SENTENCE_ENCODERS = "st:"  # what their names begin with
_ENDPOINTS = "http:"  # likewise


def described(store: Store, key: str = ENCODER) -> dict[str, JSON] | None:
    """Read an index's description of its encoder, or None; a checkpoint of its own is named by where it lies now."""
    stored = store.settings.get(key)
    if not isinstance(stored, dict):
        return None
    return {**stored, "name": str(store.path.parent.resolve() / MODEL)} if stored.get("name") == OWN_MODEL else stored


@dataclass(frozen=True, slots=True)
class EncoderDescriptions:
    """The encoders of an index as it describes them.

    Attributes:
        question: the one that follows instructions.
        plain: the one that fills the base view; None where ``question`` does.
    """

    question: Mapping[str, JSON]
    plain: Mapping[str, JSON] | None = None

    @classmethod
    def of_two(cls, question: Mapping[str, JSON], plain: Mapping[str, JSON] | None) -> Self:
        """Return what two descriptions say; one encoder, named twice, counts once."""
        twice = plain is not None and plain["fingerprint"] == question["fingerprint"]
        return cls(question, None if twice else plain)

    @property
    def names(self) -> tuple[str, str | None]:
        """Names of both encoders."""
        return str(self.question.get("name")), None if self.plain is None else str(self.plain.get("name"))

    def keep(self, store: Store, question: str = ENCODER, plain: str = PLAIN) -> None:
        """Keep them in settings of these names, in the caller's transaction."""
        store.settings.set(question, dict(self.question))
        if self.plain is None:
            store.settings.remove(plain)
        else:
            store.settings.set(plain, dict(self.plain))

    def of(self, instruction: str) -> Mapping[str, JSON]:
        """Return the description of the encoder that reads under an instruction."""
        return self.question if instruction or self.plain is None else self.plain

    def make(self, view: View) -> bool:
        """Whether they make the vectors of a view."""
        return belongs(view.key, self.of(view.key.instruction))


def encoder_descriptions(store: Store, question: str = ENCODER, plain: str = PLAIN) -> EncoderDescriptions | None:
    """Read an index's descriptions of its encoders, kept in settings of these names; None before there are any."""
    description = described(store, question)
    return None if description is None else EncoderDescriptions(description, described(store, plain))


def load_base(name: str = DEFAULT_BASE, *, device: str = "auto") -> Encoder:
    """Load a base encoder: a sentence-transformers model, or one behind an endpoint.

    The former is named as `retriever models list` does, or by a folder or the hub.

    An encoder of another package can be one too.

    Raises:
        EncoderError: there is no such model, or it is none of these.
    """
    from retriever.encoders import catalog

    try:
        resolved = catalog.resolve_name(name)
    except EncoderError:
        resolved = f"{_SENTENCE_ENCODERS}{name}"
    if catalog.find_encoder(resolved):
        return catalog.load_encoder(resolved, device=device)
    if not resolved.startswith((_SENTENCE_ENCODERS, _ENDPOINTS)):
        raise EncoderError(
            f"{name} cannot be the base encoder: it reads texts under an instruction.",
            hint=f"Name a sentence-transformers model, such as {DEFAULT_BASE}, http:URL#MODEL, or none.",
        )
    return catalog.load_encoder(resolved, device=device)


def paired(question: Encoder | None, base: BaseEncoder | None) -> tuple[Encoder | None, BaseEncoder | None]:
    """Return the encoders that somebody chose for an index as it has them.

    One that follows instructions in queries has read the texts already where it fills the base view. So it is the only
    one, unless another follows instructions.

    Raises:
        UsageError: it is to follow instructions against the base view of another.
    """
    if question is None:
        return (base, "none") if isinstance(base, Encoder) and base.spec.prompts.instructed else (None, base)
    if not question.spec.prompts.instructed:
        return question, base
    if isinstance(base, Encoder) and base.fingerprint != question.fingerprint:
        raise UsageError(
            f"{question.spec.label} follows instructions in queries, on texts that it has read itself.",
            hint=f"Make it the base encoder: --base {question.spec.label}.",
        )
    return question, "none"


def load_encoders(
    question: str | None, plain: str | None, *, new: bool, device: str = "auto"
) -> tuple[Encoder | None, "BaseEncoder | None"]:
    """Load the encoders that somebody named for an index.

    Args:
        question: name of the instruction encoder; None for ``default`` in a new index, else for the one it has.
        plain: name of the base encoder, or ``none``; None for `DEFAULT_BASE` in a new index, else for what it has. An
            index whose instruction encoder is a sentence-transformers model needs none besides.
        new: whether the index is new.
        device: where to run.

    Raises:
        EncoderError: there is no such model.
    """
    from retriever.encoders import catalog

    base: BaseEncoder | None = "none" if plain == "none" else None
    if plain is not None and plain != "none":
        base = load_base(plain, device=device)
    chosen = catalog.load_encoder(question, device=device) if question else None
    chosen, base = paired(chosen, base)
    if not new:
        return chosen, base
    chosen = chosen or catalog.load_encoder(device=device)
    if base is None:
        alone = chosen.spec.name.startswith(_SENTENCE_ENCODERS)
        base = "none" if alone else load_base(device=device)
    return chosen, base


class Encoders:
    """The encoders of an index, each loaded when it is first needed, unless it is at hand.

    There are no descriptions where the index names no encoders, so that none can be loaded.
    """

    def __init__(
        self,
        descriptions: EncoderDescriptions | None,
        load: Loader = load_described,
        question: Encoder | None = None,
        plain: Encoder | None = None,
        door: Door | None = None,
    ) -> None:
        self.descriptions = descriptions
        self._load = load
        self._given = question, plain
        self._door = door
        self._tuned: dict[str, Encoder] = {}  # by the digests of what tuned them

    def through(self, door: Door) -> "Encoders":
        """Return the encoders as those of them that are elsewhere get texts through a door."""
        return Encoders(self.descriptions, self._load, *self._given, door)

    @property
    def elsewhere(self) -> bool:
        """Whether one of them is behind an endpoint."""
        known = self.descriptions
        return known is not None and any(MEMORY in each for each in (known.question, known.plain) if each is not None)

    def _sending(self, encoder: Encoder) -> Encoder:
        return encoder if self._door is None else encoder.through(self._door)

    @property
    def separate(self) -> bool:
        """Whether the base view has an encoder of its own."""
        return self.descriptions is not None and self.descriptions.plain is not None

    @property
    def plain_name(self) -> str | None:
        """Name of the base encoder; None where the instruction encoder is that too."""
        return None if self.descriptions is None else self.descriptions.names[1]

    @cached_property
    def question(self) -> Encoder:
        """The instruction encoder."""
        if self.descriptions is None:
            raise EncoderError("The index names no encoder.")
        return self._sending(self._given[0] or self._load(self.descriptions.question))

    @cached_property
    def base(self) -> Encoder:
        """The base encoder, which fills the base view: the instruction encoder where that has none of its own."""
        if self.descriptions is None or self.descriptions.plain is None:
            return self.question
        return self._sending(self._given[1] or self._load(self.descriptions.plain))

    @property
    def plain(self) -> Encoder | None:
        """The base encoder; None where the instruction encoder is that too."""
        return self.base if self.separate else None

    def of(self, instruction: str) -> Encoder:
        """Return the encoder that reads under an instruction; the base encoder where that is empty."""
        return self.question if instruction.strip() else self.base

    def tuned(self, tuning: Tuning) -> Encoder:
        """Return the base encoder as examples tuned it."""
        digest = tuning.digest()
        if digest not in self._tuned:
            self._tuned[digest] = self.base.tuned(tuning)
        return self._tuned[digest]

    def view_key(self, instruction: str) -> ViewKey:
        """Return the identity of the view of an instruction; one encoder's default one is the base view's.

        That of a question is read off the index where it is described there, and no encoder is loaded for it.
        """
        if instruction.strip() and self.descriptions is not None and self.separate and self._given[0] is None:
            key = described_key(self.descriptions.question, instruction)
            if key is not None:
                return key
        return view_key(self.of(instruction), instruction, base=not self.separate)

    def dims(self) -> Iterator[int]:
        """Yield the length of each encoder's vectors."""
        yield self.base.spec.dim
        if self.separate:
            yield self.question.spec.dim
