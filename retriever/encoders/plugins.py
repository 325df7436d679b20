"""Encoders of other packages: a function that is called with a name gives an `Encoder`; errors name the package."""

from retriever.core.errors import RetrieverError
from retriever.core.plugins import Plugin
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.encoders.methods import EncoderOptions


def load_plugin(plugin: Plugin, spec: str, options: EncoderOptions, *, device: str, dtype: str) -> Encoder:
    """Load an encoder by ``load(spec, model, options, device=..., dtype=...)`` of the package that brings it.

    Args:
        plugin: names the function.
        spec: ``NAME`` or ``NAME:MODEL``; the encoder's description has it as its name, and an index stores it.
        options: those that were asked for; the function refuses what it does not have.
        device: where to run.
        dtype: in which number format.

    Raises:
        EncoderError: the function is missing or fails, or an index could not work with what it gives.
    """
    load = plugin.load()
    try:
        made = load(spec, spec.partition(":")[2], options, device=device, dtype=dtype)
    except RetrieverError:
        raise
    except Exception as error:
        raise plugin.fault(f"cannot be loaded ({type(error).__name__}: {error})") from error
    if not isinstance(made, Encoder):
        raise plugin.fault(f"is of type {type(made).__name__}, which is no retriever.core.protocols.Encoder")
    if not isinstance(made.spec, EncoderSpec) or made.spec.name != spec:
        raise plugin.fault(f"has no EncoderSpec with the name {spec!r}, by which an index loads it again")
    return made
