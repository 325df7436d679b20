"""From what a model gives to an embedding and words: poolings over hidden states, words from answer probabilities."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.text import drop_prefixes
from retriever.core.words import STOPWORDS


@dataclass(frozen=True, slots=True)
class Shares:
    """A pooling as a weighted mean of states that one pass gives; weights need not sum to 1.

    Attributes:
        last: weight of the last prompt state.
        behind: weights of the states behind the prompt, in order; those left out weigh nothing.
        others: weight of every other state of the prompt, special tokens apart.
    """

    last: float
    behind: Sequence[float] = ()
    others: float = 0.0


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, d) of states (B, N, d) where mask (B, N) is true; a row of none is zero.

    Summed in float64, so that where padding puts a row's states does not show in float32.
    """
    weights = mask.unsqueeze(-1).double()  # (B, N, 1)
    total = (states.double() * weights).sum(dim=1)  # (B, d)
    return (total / weights.sum(dim=1).clamp(min=1)).float()


def daap(last: Tensor, tail: Tensor) -> Tensor:
    """Dual-anchor alignment pooling (InstEmb, eq. 10): half the last input state, half the mean look-ahead state."""
    return (last.float() + tail.float().mean(dim=1)) / 2


LOOK_AHEAD_POOLINGS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "daap": daap,
    "input-last": lambda last, tail: last.float(),  # eq. 8
    "special-first": lambda last, tail: tail[:, 0].float(),  # eq. 6
    "special-mean": lambda last, tail: tail.float().mean(dim=1),  # eq. 7
    "all-mean": lambda last, tail: (last.float() + tail.float().sum(dim=1)) / (tail.shape[1] + 1),  # eq. 9
    "input-last+special-first": lambda last, tail: (last.float() + tail[:, 0].float()) / 2,
}
"""Poolings (B, d) of the last input state (B, d) and the L look-ahead states (B, L, d), with InstEmb's equations."""


def look_ahead_shares(pooling: str, length: int) -> Shares:
    """Return a pooling of `LOOK_AHEAD_POOLINGS` over L look-ahead states as weights."""
    one_hot = torch.eye(1 + length)  # a pooling is linear: fed with unit vectors, it gives its weights
    last, *behind = LOOK_AHEAD_POOLINGS[pooling](one_hot[:1], one_hot[1:].unsqueeze(0))[0].tolist()
    return Shares(last, behind)


CANDIDATES = 64  # tokens looked at per text; enough for a handful of words after merging
_TINY = 1e-9
_NOISE = 1e-5  # a weight that rounding alone can give
_SPACES = "\u0120\u2581"  # how byte-level BPE and SentencePiece write a space
_WORD = re.compile(r"[^\W\d_][\w'-]{2,}")


class WordReadout:
    """Maps tokens that begin a word to that word, in lower case; fragments, symbols and stopwords map to nothing.

    ``tokens`` are the model's vocabulary by id, ``special`` the ids of control tokens.
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
        best = (weights * self.usable[:width]).topk(min(CANDIDATES, width), dim=1)
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
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
