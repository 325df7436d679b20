"""A bare language model as an encoder: the last token's state, or the mean over the prompt."""

from retriever.encoders.base import PromptEncoder
from retriever.encoders.pooling import masked_mean
from retriever.encoders.reading import Prompted, Reading


class PlainEncoder(PromptEncoder):
    """Pools the prompt's hidden states: ``last`` (h_N) or ``mean`` (over all prompt tokens but special ones)."""

    method = "plain"
    poolings = ("last", "mean")

    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Pool the batch."""
        vectors = prompted.last if self.pooling == "last" else masked_mean(prompted.states, prompted.mask)
        return Reading(vectors, self.next_token(prompted.last) if answers else None)
