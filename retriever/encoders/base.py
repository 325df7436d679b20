"""What all encoders over a causal model share: order, duplicates, batches, prefix sharing, normalising, words.

A new encoder writes one method, `PromptEncoder.read`, which sees one batch under one instruction.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.prompts import PromptTemplate, get_template
from retriever.core.similarity import normalise
from retriever.core.types import JSON, Embeddings, Encoded
from retriever.encoders.backbone import Backbone
from retriever.encoders.batching import distinct, plan_batches, token_budget
from retriever.encoders.prefix import PromptPieces, PromptStates, prompt_pieces, read_prompts
from retriever.encoders.progress import TokenProgress
from retriever.encoders.reading import Prompted, Reading
from retriever.encoders.words import WordReader

DEFAULT_TEMPLATE = "input-first"
DEFAULT_INSTRUCTION = "Represent the meaning of the text."


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """What a loaded encoder can be asked to do differently without loading it again.

    Attributes:
        pooling: how hidden states become one vector; None takes the method's default.
        steps: K, soft tokens (GIRCSE) or generated tokens (InBedder).
        look_ahead: L, look-ahead tokens (InstEmb).
        template: name of the prompt template; None for ``input-first``.
        default_instruction: what an empty instruction stands for.
    """

    pooling: str | None = None
    steps: int | None = None
    look_ahead: int | None = None
    template: str | None = None
    default_instruction: str = DEFAULT_INSTRUCTION


@dataclass(frozen=True, slots=True)
class _BatchResult:
    """Vectors (B, dim) and words of the texts at ``rows``, under the instruction at that position."""

    instruction: int
    rows: list[int]
    vectors: NDArray[np.float32]
    words: list[list[str]]


class PromptEncoder(ABC):
    """An encoder that reads prompts with a language model; implements the `Encoder` contract.

    Args:
        backbone: the model.
        options: pooling, steps, look-ahead length, template, default instruction.
    """

    method: str
    poolings: tuple[str, ...]
    reads_on = False  # whether `read` extends the run past the prompt
    shares_text = True  # whether a text read once can serve several instructions

    def __init__(self, backbone: Backbone, options: EncoderOptions) -> None:
        self.backbone = backbone
        self.options = options
        self.template: PromptTemplate = get_template(options.template or DEFAULT_TEMPLATE)
        self.pooling = options.pooling or self.poolings[0]
        if self.pooling not in self.poolings:
            raise UsageError(
                f"{self.method} has no pooling {self.pooling!r}.", hint=f"Known: {', '.join(self.poolings)}."
            )
        self.steps: int | None = None
        self.look_ahead: int | None = None
        self.truncated = 0
        self.spec = ""  # the name it was loaded by
        self._words: WordReader | None = None

    @abstractmethod
    def read(self, prompted: Prompted, *, answers: bool) -> Reading:
        """Turn one batch into vectors, and into answer probabilities if asked."""

    def tail(self, *, answers: bool) -> Tensor | None:
        """Return embeddings (L, d) to read behind every prompt, or None; ``answers`` as for `read`."""
        return None

    def next_token(self, *states: Tensor) -> Tensor:
        """Return the mean of the next-token distributions (B, V) at some hidden states (B, d)."""
        total = sum(self.backbone.logits(state).softmax(dim=-1) for state in states)
        return cast("Tensor", total) / len(states)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.backbone.dim

    @property
    def dtype(self) -> str:
        """The number format the model runs in."""
        return str(self.backbone.dtype).removeprefix("torch.")

    @property
    def fingerprint(self) -> str:
        """Hex digest over weights, adapter, tokenizer, template and default instruction."""
        return json_hash(self.identity())

    def identity(self) -> dict[str, JSON]:
        """Return what the fingerprint covers."""
        return {
            "method": self.method,
            "backbone": self.backbone.source.digest,
            "template": self.template.name,
            "default_instruction": self.options.default_instruction,
        }

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of ``texts``.

        Args:
            texts: any number of strings; equal ones are encoded once.
            instruction: what to look for; empty for the default instruction.
            batch_size: most texts in a batch; by default a token budget alone decides.
            show_progress: print rate and time left to stderr.
        """
        progress = TokenProgress(show_progress)
        return self._encode(texts, [instruction], batch_size=batch_size, progress=progress)[0].embeddings

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction from one pass over the texts.

        With a text-first template the text is read once and every instruction reads on from its cached keys and
        values; otherwise the passes are separate.
        """
        progress = TokenProgress(show_progress)
        encoded = self._encode(texts, instructions, batch_size=batch_size, progress=progress)
        return [one.embeddings for one in encoded]

    def reconfigured(self, **changes: str | int | None) -> Self:
        """Return the same encoder with other options (`EncoderOptions` fields), sharing the loaded model."""
        other = self.rebuild(replace(self.options, **changes))  # type: ignore[arg-type]
        other.spec = self.spec
        return other

    def rebuild(self, options: EncoderOptions) -> Self:
        """Return an encoder of this kind on the same model."""
        return type(self)(self.backbone, options)

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Return the embeddings and, from the same pass, up to ``top`` words the model answers each text with."""
        return self.encode_many_with_words(texts, [instruction], top=top)[0]

    def encode_many_with_words(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        top: int = 5,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Return embeddings and words per instruction from one pass over the texts.

        Args:
            texts: any number of strings.
            instructions: one result each.
            top: most words of a text.
            on_tokens: called with the number of text tokens read, batch by batch.
        """
        return self._encode(texts, instructions, top=top, progress=TokenProgress(on_tokens=on_tokens))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of every text, however long."""
        return self.backbone.tokenizer.count(texts)

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a text that are read; what follows is cut."""
        return self.backbone.tokenizer.max_text_tokens

    @torch.inference_mode()
    def _encode(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        progress: TokenProgress,
        batch_size: int | None = None,
        top: int = 0,
    ) -> list[Encoded]:
        if isinstance(texts, str) or isinstance(instructions, str):
            raise UsageError("Texts and instructions are sequences of strings, not one string.")
        unique, positions = distinct(texts)
        resolved = [instruction.strip() or self.options.default_instruction for instruction in instructions]
        ids = self._tokenise(unique)
        vectors = np.zeros((len(resolved), len(unique), self.dim), dtype=np.float32)
        words: list[list[list[str]]] = [[[] for _ in unique] for _ in resolved]
        everything = list(range(len(resolved)))
        groups = [everything] if self.shares_text and self.template.text_first else [[i] for i in everything]
        with progress.over(sum(map(len, ids)) * len(groups)):
            for group in filter(None, groups):
                asked = [resolved[i] for i in group]
                for one in self._results(unique, ids, asked, top=top, batch_size=batch_size):
                    view = group[one.instruction]
                    vectors[view, one.rows] = one.vectors
                    for row, found in zip(one.rows, one.words, strict=True):
                        words[view][row] = found
                    if view == group[-1]:
                        progress.add(sum(len(ids[row]) for row in one.rows))
        return [
            Encoded(normalise(vectors[i])[positions].reshape(-1, self.dim), [words[i][p] for p in positions])
            for i in everything
        ]

    def _results(
        self,
        texts: Sequence[str],
        ids: list[list[int]],
        instructions: Sequence[str],
        *,
        top: int,
        batch_size: int | None,
    ) -> Iterator["_BatchResult"]:
        """Yield every batch under every instruction, batch by batch."""
        priors = [self._prior(one) if top and texts else None for one in instructions]
        for rows, read in self._batches(texts, ids, instructions, answers=top > 0, batch_size=batch_size):
            for i, prompted in enumerate(read):
                reading, prior = self.read(prompted, answers=top > 0), priors[i]
                said = (
                    None
                    if reading.answers is None or prior is None
                    else self.words.read(reading.answers, top, prior=prior)
                )
                yield _BatchResult(i, rows, reading.vectors.float().cpu().numpy(), said or [[] for _ in rows])

    def _prior(self, instruction: str) -> Tensor | None:
        """Return what the model answers (1, V) when there is an instruction and no text."""
        _, read = next(self._batches([""], [[]], [instruction], answers=True))
        return self.read(next(read), answers=True).answers

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        tokenised = self.backbone.tokenizer.texts(texts)
        self.truncated += tokenised.truncated
        return tokenised.ids

    def _batches(
        self,
        texts: Sequence[str],
        ids: list[list[int]],
        instructions: Sequence[str],
        *,
        answers: bool,
        batch_size: int | None = None,
    ) -> Iterator[tuple[list[int], Iterator[Prompted]]]:
        """Yield each batch's rows and, lazily, the batch as read under each instruction."""
        pieces = prompt_pieces(self.backbone.tokenizer, self.template, instructions)
        tail = self.tail(answers=answers)
        overhead = pieces.overhead + (0 if tail is None else tail.shape[0])
        shares = len(instructions) > 1
        budget = token_budget(self.backbone.device.type, reads_on=self.reads_on, shares=shares)
        for batch in plan_batches([len(row) + overhead for row in ids], budget, max_rows=batch_size):
            read = self.read_batch([ids[row] for row in batch], pieces, tail)
            rows = [texts[row] for row in batch]
            yield batch, (Prompted(one, rows, instruction) for one, instruction in zip(read, instructions, strict=True))

    def read_batch(
        self, texts: Sequence[Sequence[int]], pieces: PromptPieces, tail: Tensor | None
    ) -> Iterator[PromptStates]:
        """Yield the batch as read under each of the pieces' instructions in turn."""
        return read_prompts(self.backbone, texts, pieces, tail, reads_on=self.reads_on)

    @property
    def words(self) -> WordReader:
        """The table that turns vocabulary probabilities into words."""
        if self._words is None:
            self._words = WordReader(self.backbone.tokenizer.tokenizer, self.backbone.device)
        return self._words
