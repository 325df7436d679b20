"""InBedder over masked language models (RoBERTa family): mask tokens stand where the answer would be."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from retriever.encoders.base import PromptEncoder
from retriever.encoders.pooling import Shares, masked_mean
from retriever.encoders.prefix import PromptPieces, PromptStates, prompt_pieces
from retriever.encoders.reading import BatchOutput, EncodedBatch

MASK_TOKENS = 3


class MaskedInBedderEncoder(PromptEncoder):
    """Appends three mask tokens to the prompt and averages their states, or only the prompt's (``avg-ppt``)."""

    method = "inbedder"
    poolings = ("masks", "avg-ppt")
    shares_text = False  # attention looks both ways: a text's states depend on the instruction

    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Pool the batch; the words are those the model puts in the masks' place."""
        if self.pooling == "masks":
            vectors = prompted.tail.float().mean(dim=1)
        else:
            vectors = masked_mean(prompted.states, prompted.mask)
        return BatchOutput(vectors, self.next_token(*prompted.tail.unbind(dim=1)) if answers else None)

    def shares(self) -> Shares:
        """Return the pooling as weights of states; the token at the end of a prompt weighs nothing."""
        return Shares(0.0, [1.0] * MASK_TOKENS) if self.pooling == "masks" else Shares(1.0, others=1.0)

    def behind(self) -> Tensor:
        """Return the embeddings of the mask tokens and of what ends a prompt."""
        tokenizer = self.backbone.tokenizer
        return self.backbone.embed_ids([*[tokenizer.mask_id] * MASK_TOKENS, *tokenizer.end])

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a text that are read under the default instruction; a longer instruction leaves room for fewer."""
        tokenizer = self.backbone.tokenizer
        pieces = prompt_pieces(tokenizer, self.template, [self.options.default_instruction])
        return max(0, min(tokenizer.max_text_tokens, self._room(pieces)))

    def _room(self, pieces: PromptPieces) -> int:
        """Compute how many tokens of a text the model has positions for."""
        around = len(pieces.before) + len(pieces.shared) + MASK_TOKENS + len(self.backbone.tokenizer.end)
        return self.backbone.positions - around

    def read_batch(
        self, texts: Sequence[Sequence[int]], pieces: PromptPieces, tail: Tensor | None
    ) -> Iterator[PromptStates]:
        """Yield the batch, padded on the right as absolute positions ask for."""
        tokenizer = self.backbone.tokenizer
        after = [*[tokenizer.mask_id] * MASK_TOKENS, *tokenizer.end]
        room = self._room(pieces)
        rows = [[*pieces.before, *ids[: max(0, room)], *pieces.shared] for ids in texts]
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width + len(after), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row) + len(after)] = torch.tensor([*row, *after])
        lengths = torch.tensor([len(row) for row in rows], device=self.backbone.device)
        columns = torch.arange(ids.shape[1], device=self.backbone.device)
        real = columns < lengths[:, None] + len(after)
        states = self.backbone.forward(
            self.backbone.embed(ids.to(self.backbone.device)), mask=real.long(), positions=None
        )
        at = lengths[:, None] + torch.arange(MASK_TOKENS, device=states.device)  # (B, 3)
        mask_states = states.gather(1, at.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (B, 3, d)
        content = (columns[:width] < lengths[:, None]) & (columns[:width] >= pieces.start_tokens)
        yield PromptStates(run=None, states=states[:, :width], tail=mask_states, content=content)
