"""Text to token ids: pieces tokenised apart and joined, the text truncated and never the instruction."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from retriever.core.errors import UsageError

MAX_TEXT_TOKENS = 512
MAX_INSTRUCTION_TOKENS = 256


@dataclass(frozen=True, slots=True)
class TokenisedTexts:
    """Token ids of each text, cut to the limit, and how many texts were cut."""

    ids: list[list[int]]
    truncated: int


class PieceTokenizer:
    """Tokenises the pieces of a prompt one by one, the same way on every path.

    Control tokens spelled out in a text (``<|im_end|>`` in a review, say) stay plain characters.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        max_text_tokens: texts are cut to this many tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, max_text_tokens: int = MAX_TEXT_TOKENS) -> None:
        self.tokenizer = tokenizer
        self.max_text_tokens = max_text_tokens
        around = tokenizer("x")["input_ids"]
        bare = self.piece("x")
        split = next((i for i in range(len(around)) if around[i : i + len(bare)] == bare), 0)
        self.start = list(around[:split])  # e.g. <s> or [CLS]; empty for SmolLM2
        self.end = list(around[split + len(bare) :])  # e.g. [SEP]; used by masked models only
        self.special_ids = frozenset(tokenizer.all_special_ids)

    @property
    def mask_id(self) -> int:
        """Id of the mask token of a masked language model."""
        return int(self.tokenizer.mask_token_id)

    def piece(self, text: str) -> list[int]:
        """Return the ids of one piece, without start or end tokens."""
        return self._pieces([text])[0] if text else []

    def instruction(self, instruction: str, piece: str) -> list[int]:
        """Return the ids of a template piece that holds the instruction.

        Raises:
            UsageError: the instruction is longer than 256 tokens.
        """
        length = len(self.piece(instruction))
        if length > MAX_INSTRUCTION_TOKENS:
            raise UsageError(
                f"The instruction has {length} tokens; at most {MAX_INSTRUCTION_TOKENS} are allowed.",
                hint="Say it in a sentence or two.",
            )
        return self.piece(piece)

    def texts(self, texts: Sequence[str]) -> TokenisedTexts:
        """Return the ids of every text, cut to the limit."""
        ids = self._pieces(texts) if texts else []
        limit = self.max_text_tokens
        return TokenisedTexts([row[:limit] for row in ids], sum(len(row) > limit for row in ids))

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut."""
        return [len(row) for row in self._pieces(texts)] if texts else []

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True, verbose=False)
        rows: list[list[int]] = encoded["input_ids"]
        return rows
