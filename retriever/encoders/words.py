"""From probabilities over the vocabulary to the words a person would read: the model's answer, without decoding."""

import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from retriever.core.stopwords import STOPWORDS
from retriever.core.text import drop_prefixes

CANDIDATES = 64  # tokens looked at per text; enough for a handful of words after merging
_TINY = 1e-9
_NOISE = 1e-5  # a weight that rounding alone can give
_SPACES = "\u0120\u2581"  # how byte-level BPE and SentencePiece write a space
_WORD = re.compile(r"[^\W\d_][\w'-]{2,}")


class WordReader:
    """Maps tokens that begin a word to that word, in lower case; fragments, symbols and stopwords map to nothing.

    Args:
        tokens: the model's vocabulary, by id.
        special: ids of control tokens, which are no words.
        device: where the probabilities live.
    """

    def __init__(self, tokens: Sequence[str], special: Iterable[int], device: torch.device) -> None:
        self.vocabulary = [_as_word(text) for text in _token_texts(tokens, set(special))]
        self.usable = torch.tensor([word is not None for word in self.vocabulary], device=device)

    def read(self, answers: Tensor, top: int, *, prior: Tensor) -> list[list[str]]:
        """Return up to ``top`` words per text: those its answer owes to the text, not to the instruction.

        A word weighs p log(p / prior), its part of the divergence between the answer and what the model says to the
        instruction alone, so that words any text would get ("answer", "please") drop out. So does a word
        that begins a weightier one.

        Args:
            answers: probabilities (B, V).
            top: most words of a text.
            prior: probabilities (1, V) for an empty text under the same instruction.
        """
        width = min(answers.shape[1], self.usable.shape[0])
        answers, prior = answers[:, :width], prior[:, :width]
        weights = answers * (answers.clamp(min=_TINY) / prior.clamp(min=_TINY)).log()
        found = (weights * self.usable[:width]).topk(min(CANDIDATES, width), dim=1)
        rows = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [drop_prefixes(self._merge(ids, values), top) for ids, values in rows]

    def _merge(self, ids: list[int], values: list[float]) -> list[str]:
        weights: dict[str, float] = {}
        for token, value in zip(ids, values, strict=True):
            word = self.vocabulary[token]
            if word is not None and value > _NOISE:
                weights[word] = weights.get(word, 0.0) + value
        return sorted(weights, key=lambda word: (-weights[word], word))


def _token_texts(tokens: Sequence[str], special: set[int]) -> list[str]:
    """Return every token as it reads behind other text, a leading space included."""
    spaced = any(token and token[0] in _SPACES for token in tokens)
    return ["" if i in special or not token else _readable(token, spaced) for i, token in enumerate(tokens)]


def _readable(piece: str, spaced: bool) -> str:
    if not spaced:  # WordPiece writes no spaces, it marks continuations instead
        return "" if piece.startswith("##") else " " + piece
    return piece.replace(_SPACES[0], " ").replace(_SPACES[1], " ")


def _as_word(text: str) -> str | None:
    word = text.removeprefix(" ")
    begins_word = text.startswith(" ") or word[:1].isupper()
    if not begins_word or not word.isascii() or not _WORD.fullmatch(word) or word.lower() in STOPWORDS:
        return None
    return word.lower()
