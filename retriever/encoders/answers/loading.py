"""Encoders by name over answers: of a chat endpoint, or of a model in this process."""

from typing import TYPE_CHECKING

from retriever.core.errors import EncoderError, UsageError
from retriever.core.registry import require_extra
from retriever.encoders.answers.encoder import POOLING, AnswerEncoder, SampledEncoder
from retriever.encoders.answers.places import METHOD
from retriever.encoders.methods import EncoderOptions

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder
    from retriever.encoders.answers.answerer import Answerer
    from retriever.encoders.answers.chat import ChatAnswerer

BASE = "all-minilm-l6-v2"
"""The sentence encoder that embeds answers."""

_WRITTEN = "It embeds written answers."


def load_answerer(name: str, fingerprint: str = "") -> "Answerer":
    """Load what answers questions for an index: ``chat:MODEL``, ``chat:URL#MODEL`` or ``inbedder:BACKBONE``.

    Args:
        name: which.
        fingerprint: of a model behind an endpoint, where it is known.

    Raises:
        EncoderError: there is no such model, or it may not be asked.
        UsageError: the name is of an encoder that writes no answers.
    """
    from retriever.encoders import catalog

    method = name.partition(":")[0]
    if method == METHOD:
        return load_chat(name, fingerprint)
    encoder = catalog.load_encoder(name, pooling=POOLING) if method == "inbedder" else None
    if not isinstance(encoder, AnswerEncoder):
        raise UsageError(
            f"{name} writes no answers.", hint="Name chat:MODEL, chat:URL#MODEL, inbedder:BACKBONE, given or default."
        )
    return encoder.answerer


def load_chat(name: str, fingerprint: str = "") -> "ChatAnswerer":
    """Load a model behind a chat endpoint, which nothing is asked yet; arguments as for `load_answerer`.

    Raises:
        EncoderError: it may not be asked.
        UsageError: the name is of none.
    """
    if not name.startswith(f"{METHOD}:"):
        raise UsageError(f"{name!r} is no model at a chat endpoint.", hint="Name chat:MODEL or chat:URL#MODEL.")
    require_extra("chat")
    from retriever.encoders.answers.chat import ChatAnswerer

    return ChatAnswerer(name, fingerprint=fingerprint)


def load_chat_encoder(name: str, source: str, options: EncoderOptions, *, device: str, dtype: str) -> AnswerEncoder:
    """Load ``chat:MODEL`` or ``chat:URL#MODEL`` as an encoder; nothing is asked of the endpoint yet.

    Raises:
        UsageError: an option was given that it does not have.
        EncoderError: the endpoint may not be used, or the sentence encoder is missing.
        RetrieverError: the packages of the extra are missing.
    """
    options.refuse(name, "steps", "look_ahead", "template", hint=_WRITTEN)
    if options.pooling not in (None, POOLING):
        raise UsageError(f"{name} has no pooling {options.pooling!r}.", hint=f"Known: {POOLING}.")
    return AnswerEncoder(load_chat(name), _base(device, dtype))


def load_local(name: str, model: str, options: EncoderOptions, *, device: str, dtype: str) -> "Encoder":
    """Load a causal model as the one that answers: greedily, or with ``steps`` sampled answers averaged.

    Raises:
        UsageError: an option was given that it does not have.
        EncoderError: a model is missing, or is none that writes.
    """
    options.refuse(name, "look_ahead", "template", hint=_WRITTEN)
    from retriever.encoders.answers.local import LocalAnswerer
    from retriever.encoders.backbone import load_backbone

    backbone = load_backbone(model, device=device, dtype=dtype)
    if backbone.masked:
        raise EncoderError(f"{POOLING} needs a causal model; {model} is a masked one.", hint="Use another pooling.")
    backbone.pack()
    answerer, base = LocalAnswerer(name, backbone), _base(device, "auto")
    if options.steps is None:
        return AnswerEncoder(answerer, base)
    return SampledEncoder(lambda draw: AnswerEncoder(answerer.drawing(draw), base), options.steps)


def _base(device: str, dtype: str) -> "Encoder":
    from retriever.encoders.sentence_encoder import SentenceEncoder

    return SentenceEncoder(BASE, device=device, dtype=dtype)
