"""Texts to token ids as the model's tokenizer.json says, whatever padding and cutting that file asks for."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer


class BertTokens:
    """Tokenises texts; safe for several threads.

    A special token spelled out in a text (``[SEP]``) is that token, as in the library the model is published for.

    Args:
        file: the tokenizer.json.
        max_tokens: ids of a text that are kept, start and end included.
    """

    def __init__(self, file: Path, *, max_tokens: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        around, bare = self._tokenizer.encode("x").ids, self._tokenizer.encode("x", add_special_tokens=False).ids
        split = next(i for i in range(len(around)) if around[i : i + len(bare)] == bare)
        self._start, self._end = around[:split], around[split + len(bare) :]
        self.max_text_tokens = max_tokens - len(self._start) - len(self._end)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text between those of start and end, cut to the limit."""
        return [[*self._start, *row[: self.max_text_tokens], *self._end] for row in self._encoded(texts)]

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut, without those put around it."""
        return [len(row) for row in self._encoded(texts)]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 1:  # without threads, which a single text would only start
            return [self._tokenizer.encode(texts[0], add_special_tokens=False).ids]
        return [one.ids for one in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
