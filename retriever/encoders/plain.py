"""A bare language model as an encoder: the last token's state, or the mean over the prompt."""

from retriever.encoders.base import PromptEncoder
from retriever.encoders.pooling import Shares, masked_mean
from retriever.encoders.reading import BatchOutput, EncodedBatch


class PlainEncoder(PromptEncoder):
    """Pools the prompt's hidden states: ``last`` (h_N) or ``mean`` (over all prompt tokens but special ones)."""

    method = "plain"
    poolings = ("last", "mean")

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch."""
        vectors = prompted.last if self.pooling == "last" else masked_mean(prompted.states, prompted.mask)
        return BatchOutput(vectors, self.next_token(prompted.last) if answers else None)

    def shares(self) -> Shares:
        """Return the pooling as weights of states."""
        return Shares(1.0, others=0.0 if self.pooling == "last" else 1.0)
