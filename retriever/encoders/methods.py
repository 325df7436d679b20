"""Methods by name, and the settings of an encoder. Importing this loads no model library."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from retriever.core.errors import EncoderError
from retriever.core.registry import resolve

if TYPE_CHECKING:
    from torch import Tensor

    from retriever.encoders.backbone import Backbone
    from retriever.encoders.base import PromptEncoder


DEFAULT_TEMPLATE = "input-first"
DEFAULT_INSTRUCTION = "Represent the meaning of the text."


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """Settings of an encoder that can be changed once it is loaded, without loading it again.

    Attributes:
        pooling: how hidden states become one vector; None takes the method's default.
        steps: K, soft tokens (GIRCSE) or generated tokens (InBedder).
        look_ahead: L, look-ahead tokens (InstEmb).
        template: name of the prompt template; None for ``input-first``.
        default_instruction: what an empty instruction stands for.
    """

    pooling: str | None = None
    steps: int | None = None
    look_ahead: int | None = None
    template: str | None = None
    default_instruction: str = DEFAULT_INSTRUCTION


METHODS = {
    "plain": "retriever.encoders.inbedder:PlainEncoder",
    "inbedder": "retriever.encoders.inbedder:InBedderEncoder",
    "instemb": "retriever.encoders.behind_prompt:InstEmbEncoder",
    "gircse": "retriever.encoders.behind_prompt:GircseEncoder",
}

"""Methods over a language model, by the class that computes each."""

SENTENCE_METHODS = {
    "st": "retriever.encoders.sentence_encoder:load",
    "instructor": "retriever.encoders.instructor:load",
}
"""Methods over a sentence encoder, by the function that loads each."""

ENDPOINT_ENCODER = "retriever.encoders.remote.encoder:load"
"""The function that loads an encoder behind an endpoint."""


def encoder_class(method: str, backbone: "Backbone") -> "type[PromptEncoder]":
    """Find the class that computes a method over a backbone.

    Raises:
        EncoderError: the backbone is a masked model, and the method needs a causal one.
    """
    kind = cast("type[PromptEncoder]", resolve(METHODS[method]))
    if not backbone.masked:
        return kind
    if kind.for_masked is None:
        raise EncoderError(
            f"{method} needs a causal model; {backbone.source.name} is a masked one.", hint="Use inbedder."
        )
    return kind.for_masked


def build(
    method: str, backbone: "Backbone", options: EncoderOptions, learned: "Mapping[str, Tensor] | None" = None
) -> "PromptEncoder":
    """Make an encoder of a method on a loaded backbone.

    ``learned`` are the method's trained tensors by name; None for untrained ones.

    Raises:
        EncoderError: the backbone is a masked model, and the method needs a causal one.
        UsageError: an option makes no sense with the method.
    """
    return encoder_class(method, backbone)(backbone, options, learned)
