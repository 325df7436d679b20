"""Methods by name: each makes an encoder of a backbone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from retriever.core.errors import EncoderError
from retriever.core.registry import resolve
from retriever.encoders.options import EncoderOptions

if TYPE_CHECKING:
    from torch import Tensor

    from retriever.encoders.backbone import Backbone
    from retriever.encoders.base import PromptEncoder

METHODS = {
    "plain": "retriever.encoders.plain:PlainEncoder",
    "inbedder": "retriever.encoders.inbedder:InBedderEncoder",
    "instemb": "retriever.encoders.instemb:InstEmbEncoder",
    "gircse": "retriever.encoders.gircse:GircseEncoder",
}


def encoder_class(method: str, backbone: "Backbone") -> "type[PromptEncoder]":
    """Find the class that computes a method over a backbone.

    Raises:
        EncoderError: the backbone is a masked model, and the method needs a causal one.
    """
    found = cast("type[PromptEncoder]", resolve(METHODS[method]))
    if not backbone.masked:
        return found
    if found.for_masked is None:
        raise EncoderError(
            f"{method} needs a causal model; {backbone.source.name} is a masked one.", hint="Use inbedder."
        )
    return found.for_masked


def build(
    method: str, backbone: "Backbone", options: EncoderOptions, learned: "Mapping[str, Tensor] | None" = None
) -> "PromptEncoder":
    """Make an encoder of a method on a loaded backbone.

    Args:
        method: a name of `METHODS`.
        backbone: the model.
        options: pooling, steps, look-ahead length, template, default instruction.
        learned: the method's trained tensors by name; None for untrained ones.

    Raises:
        EncoderError: the backbone is a masked model, and the method needs a causal one.
        UsageError: an option makes no sense with the method.
    """
    return encoder_class(method, backbone)(backbone, options, learned)
