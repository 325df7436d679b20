"""InstEmb: look-ahead tokens behind the prompt glimpse the answer in one prefill (papers: InstEmb, section 3)."""

import hashlib

import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.types import JSON
from retriever.encoders.backbone import Backbone
from retriever.encoders.base import EncoderOptions, PromptEncoder
from retriever.encoders.pooling import LOOK_AHEAD_POOLINGS
from retriever.encoders.reading import Prompted, Reading

LOOK_AHEAD = 8
_SEED_PHRASE = " In a few words, the answer is that"


class InstEmbEncoder(PromptEncoder):
    """Reads [prompt; s_1..s_L] once and pools the last prompt state with the look-ahead states.

    Args:
        backbone: a causal model.
        options: ``look_ahead`` is L, at most the number of learned tokens; 0 is ``input-last``.
        look_ahead_embeddings: learned embeddings (L_max, d); None starts from the embeddings of a phrase that an
            answer follows, untrained.
    """

    method = "instemb"
    poolings = tuple(LOOK_AHEAD_POOLINGS)

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, look_ahead_embeddings: Tensor | None = None
    ) -> None:
        super().__init__(backbone, options)
        self.trained = look_ahead_embeddings is not None
        learned = untrained_look_ahead(backbone) if look_ahead_embeddings is None else look_ahead_embeddings
        self.look_ahead_embeddings = learned.to(backbone.device, backbone.dtype)  # (L_max, d)
        self.look_ahead = len(learned) if options.look_ahead is None else options.look_ahead
        if not 0 <= self.look_ahead <= len(learned):
            raise UsageError(f"look_ahead is {self.look_ahead}; this encoder has {len(learned)} look-ahead tokens.")
        if self.look_ahead == 0:
            self.pooling = "input-last"

    def tail(self, *, answers: bool) -> Tensor | None:
        """Return the first L look-ahead embeddings (L, d)."""
        return self.look_ahead_embeddings[: self.look_ahead] if self.look_ahead else None

    def rebuild(self, options: EncoderOptions) -> "InstEmbEncoder":
        """Return this encoder with other options, on the same model and look-ahead tokens."""
        return InstEmbEncoder(self.backbone, options, self.look_ahead_embeddings if self.trained else None)

    def identity(self) -> dict[str, JSON]:
        """Return what the fingerprint covers."""
        return {**super().identity(), "look_ahead_embeddings": tensor_digest(self.look_ahead_embeddings)}

    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Pool the batch; the words are those the model predicts at the last prompt and look-ahead positions."""
        vectors = LOOK_AHEAD_POOLINGS[self.pooling](prompted.last, prompted.tail)
        return Reading(vectors, self.next_token(prompted.last, *prompted.tail.unbind(dim=1)) if answers else None)


def untrained_look_ahead(backbone: Backbone, length: int = LOOK_AHEAD) -> Tensor:
    """Return (length, d) embeddings of a phrase that announces an answer, repeated as needed."""
    ids = backbone.tokenizer.piece(_SEED_PHRASE)
    return backbone.embed_ids([ids[i % len(ids)] for i in range(length)]).detach().clone()


def tensor_digest(tensor: Tensor) -> str:
    """Return the hex SHA-256 of a tensor's values in bfloat16."""
    values = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy()
    return hashlib.sha256(values.tobytes()).hexdigest()
