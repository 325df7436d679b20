"""The services' dealings with an encoder: which view its vectors belong to, and how an index remembers it.

`Encoder` (core.protocols) asks for three methods. What else an encoder offers is used where it is there: pooling,
steps, look_ahead and dtype name the view; `encode_many_with_words` gives several instructions and words in one pass;
`count_tokens` and `long_texts` size the work; `reconfigured` changes K for a query.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from retriever.core.errors import EncoderError, EncoderMismatchError
from retriever.core.protocols import Encoder
from retriever.core.types import JSON, Encoded
from retriever.store.views import ViewKey

WORDS = 5
CHARACTERS_PER_TOKEN = 4

VIEW_SETTINGS = ("fingerprint", "pooling", "steps", "look_ahead", "dtype")
"""What of an encoder's description makes a view besides the instruction."""

_UNSAID: Mapping[str, JSON] = {"pooling": "", "dtype": "float32"}
"""What `view_key` puts where an encoder does not say."""

Loader = Callable[[Mapping[str, JSON]], Encoder]
"""Gives the encoder of a description; errors as `load_described`."""


def view_key(encoder: Encoder, instruction: str) -> ViewKey:
    """Return the identity of the encoder's view under an instruction; empty or default is the base view."""
    asked = instruction.strip()
    default = getattr(getattr(encoder, "options", None), "default_instruction", "")
    return ViewKey(
        fingerprint=encoder.fingerprint,
        instruction="" if asked == default else asked,
        pooling=getattr(encoder, "pooling", ""),
        steps=getattr(encoder, "steps", None),
        look_ahead=getattr(encoder, "look_ahead", None),
        dtype=getattr(encoder, "dtype", "float32"),
        dim=encoder.dim,
    )


def belongs(key: ViewKey, description: Mapping[str, JSON]) -> bool:
    """Whether an encoder of this description, as `describe` gives it, makes the vectors of a view."""
    made = asdict(key)
    return all(made[name] == (description.get(name) or _UNSAID.get(name)) for name in VIEW_SETTINGS)


def encode_views(
    encoder: Encoder, texts: Sequence[str], instructions: Sequence[str], on_tokens: Callable[[int], None] | None = None
) -> list[Encoded]:
    """Return embeddings and words under every instruction, from one pass where the encoder can."""
    many = getattr(encoder, "encode_many_with_words", None)
    if many is not None:
        return cast("list[Encoded]", many(texts, instructions, top=WORDS, on_tokens=on_tokens))
    return [encoder.encode_with_words(texts, instruction=one, top=WORDS) for one in instructions]


def count_tokens(encoder: Encoder, texts: Sequence[str]) -> list[int]:
    """Return the tokens of every text, estimated from its length where the encoder cannot tell."""
    counter = getattr(encoder, "count_tokens", None)
    if counter is not None:
        return cast("list[int]", counter(texts))
    return [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]


def token_limit(encoder: Encoder) -> int | None:
    """Return how many tokens of a text the encoder reads, or None for all."""
    return getattr(encoder, "max_text_tokens", None)


def with_steps(encoder: Encoder, steps: int | None) -> Encoder:
    """Return the encoder with K steps for a query.

    Raises:
        EncoderError: the encoder has no such knob.
    """
    if steps is None:
        return encoder
    if getattr(encoder, "steps", None) is None:
        raise EncoderError("This index's encoder has no steps.", hint="--steps is for GIRCSE encoders.")
    return cast("Encoder", cast("Any", encoder).reconfigured(steps=steps))


def describe(encoder: Encoder) -> dict[str, JSON]:
    """Return what an index stores of its encoder: enough to load it again and to recognise it."""
    return {
        "name": getattr(encoder, "spec", ""),
        "fingerprint": encoder.fingerprint,
        "pooling": getattr(encoder, "pooling", None),
        "steps": getattr(encoder, "steps", None),
        "look_ahead": getattr(encoder, "look_ahead", None),
        "template": getattr(getattr(encoder, "template", None), "name", None),
        "dtype": getattr(encoder, "dtype", None),
    }


def card(encoder: Encoder) -> dict[str, JSON]:
    """Return what `retriever models show` tells of an encoder."""
    trained = getattr(encoder, "trained", None)
    look_ahead = {} if trained is None else {"look_ahead_trained": trained}
    limit = token_limit(encoder)
    return {
        **describe(encoder),
        "dim": encoder.dim,
        "max_text_tokens": limit,
        "default_instruction": getattr(getattr(encoder, "options", None), "default_instruction", None),
        **look_ahead,
    }


def described_encoder(description: Mapping[str, JSON], given: Encoder | None, load: Loader) -> Encoder:
    """Return the encoder an index was made with: the given one if it is that, else what ``load`` gives.

    Raises:
        EncoderMismatchError: the given one, or what the name loads today, is another.
        EncoderError: none is given, and the index's has no name to load it by.
    """
    if given is None:
        return load(description)
    check_fingerprint(given, description)
    return given


def load_described(description: Mapping[str, JSON], *, device: str = "auto") -> Encoder:
    """Load the encoder an index was made with.

    Raises:
        EncoderError: it was made by an object that has no name to load it by.
        EncoderMismatchError: what that name loads today is another encoder.
    """
    from retriever import load_encoder

    name = str(description["name"])
    if not name:
        raise EncoderError(
            "This index was made with an encoder that has no name.", hint="Pass it: open_index(path, encoder=...)."
        )
    # The number format is part of a view: on hardware without bfloat16 an index made in it is still read in it.
    asked: dict[str, Any] = {key: description[key] for key in ("pooling", "steps", "look_ahead", "template", "dtype")}
    encoder = load_encoder(name, device=device, **asked)
    check_fingerprint(encoder, description)
    return encoder


def check_fingerprint(encoder: Encoder, description: Mapping[str, JSON]) -> None:
    """Refuse an encoder other than the one the index was made with.

    Raises:
        EncoderMismatchError: the fingerprints differ.
    """
    if encoder.fingerprint != description["fingerprint"]:
        raise EncoderMismatchError(
            f"The index was made by {description['name'] or 'an unnamed encoder'} "
            f"(fingerprint {str(description['fingerprint'])[:12]}), not by "
            f"{getattr(encoder, 'spec', '') or 'this one'} ({encoder.fingerprint[:12]}).",
            hint=_after_a_mismatch(encoder, description),
        )
    own = describe(encoder)
    for setting in ("pooling", "steps", "look_ahead", "dtype"):
        if own[setting] != description.get(setting):
            raise EncoderMismatchError(
                f"The index was made with {setting} {description.get(setting)}, not {own[setting]}.",
                hint="Load the encoder with the index's settings, or open the index without one.",
            )


def _after_a_mismatch(encoder: Encoder, description: Mapping[str, JSON]) -> str:
    """Return what to do about another fingerprint: under the same name it is the model that changed."""
    again = "`retriever reembed --encoder NAME` embeds the index with another"
    name = str(description["name"])
    if name != getattr(encoder, "spec", ""):
        return f"Open it with its own encoder, or {again}."
    if name.startswith("pretrained:"):
        return f"This version of retriever ships a newer model: {again}, or install the version it was made with."
    return f"The model behind that name has changed: put back what it was, or {again}."
