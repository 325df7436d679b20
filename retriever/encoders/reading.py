"""Reading one batch of texts under several instructions: the text once, each instruction from its cache.

`EncodedBatch` and `BatchOutput` stand between this and an encoder's own `read`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.errors import EncoderError
from retriever.core.prompts import PromptTemplate
from retriever.encoders.backbone import Backbone, Cache
from retriever.encoders.tokenize import PieceTokenizer

BLOCK_TOKENS = 2048  # measured on two cores; larger blocks of activations do not fit their caches


class PromptRun:
    """Left-padded prompts of one batch. Everything after the first block is dense: the padding is all in front.

    ``rows`` are the token ids of each row's first block; a cached run keeps keys and values, so that `extend` can
    follow.
    """

    def __init__(self, backbone: Backbone, rows: Sequence[Sequence[int]], *, cached: bool) -> None:
        self.backbone = backbone
        longest = max(len(row) for row in rows)
        padding = [longest - len(row) for row in rows]
        ids = [[0] * pad + list(row) for pad, row in zip(padding, rows, strict=True)]
        self.ids = torch.tensor(ids, dtype=torch.long, device=backbone.device)  # (B, T)
        self.padding = torch.tensor(padding, device=backbone.device)  # (B,)
        self.padded = any(padding)
        self.cache: Cache | None = backbone.new_cache(longest) if cached else None
        self.length = 0

    @property
    def size(self) -> int:
        """Rows in the batch, B."""
        return self.ids.shape[0]

    def mask(self, length: int) -> Tensor:
        """Return (B, length) ones where a position holds a real token."""
        return torch.arange(length, device=self.padding.device) >= self.padding[:, None]

    def start(self, tail: Tensor | None = None) -> Tensor:
        """Read the first block, and behind it the same embeddings (L, d) for every row; return states (B, T + L, d)."""
        embeddings = self.backbone.embed(self.ids)
        if tail is not None:
            embeddings = torch.cat([embeddings, tail.expand(self.size, -1, -1)], dim=1)
        if self.cache is None:
            return self.extend(embeddings)
        # Reading on wants more rows than the processor's caches have room for, so a large block is read in columns.
        columns = max(1, BLOCK_TOKENS // self.size)
        return torch.cat([self.extend(block) for block in torch.split(embeddings, columns, dim=1)], dim=1)

    def extend(self, embeddings: Tensor) -> Tensor:
        """Read more positions, embeddings (B, S, d), and return their last hidden states (B, S, d)."""
        first, self.length = self.length, self.length + embeddings.shape[1]
        mask = positions = None
        if self.padded:
            mask = self.mask(self.length)
            counted = torch.arange(first, self.length, device=self.padding.device)
            positions = (counted - self.padding[:, None]).clamp(min=0)
        return self.backbone.forward(embeddings, mask=mask, positions=positions, cache=self.cache)

    def rewind(self, length: int) -> None:
        """Forget every position from ``length`` on."""
        if self.cache is not None and length < self.length:
            self.cache.crop(length - self.length)
        self.length = length


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts that are read together, and the token ids of each."""

    texts: Sequence[str]
    ids: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class PromptPieces:
    """Token ids around the texts of a batch, for one or more instructions.

    Attributes:
        before: start tokens and what the template puts before the text.
        shared: what follows the text under every instruction alike.
        rests: what follows `shared`, per instruction.
        start_tokens: how many ids of `before` are special tokens.
    """

    before: list[int]
    shared: list[int]
    rests: list[list[int]]
    start_tokens: int
    instructions: Sequence[str]

    @property
    def overhead(self) -> int:
        """Tokens a row has beside its text, under the longest instruction."""
        return len(self.before) + len(self.shared) + max(map(len, self.rests))


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """One batch under one instruction, read up to the last prompt token and whatever stands behind every prompt.

    Attributes:
        states: (B, N, d) hidden states of the prompt; columns of padding are noise.
        tail: (B, L, d) hidden states of what was read behind it.
        mask: (B, N) true where the prompt holds a token that is neither padding nor special.
        run: the run, from which a causal encoder can read on; None for masked models.
    """

    states: Tensor
    tail: Tensor
    mask: Tensor
    texts: Sequence[str]
    instruction: str
    run: PromptRun | None

    @property
    def last(self) -> Tensor:
        """h_N, the hidden state of the last prompt token, (B, d)."""
        return self.states[:, -1]

    def extend(self, embeddings: Tensor) -> Tensor:
        """Read one more position, embeddings (B, d), and return its hidden state (B, d).

        Raises:
            EncoderError: the model is not causal.
        """
        if self.run is None:
            raise EncoderError("A masked language model cannot read on behind its prompt.")
        return self.run.extend(embeddings.unsqueeze(1))[:, -1]


@dataclass(frozen=True, slots=True)
class BatchOutput:
    """The output of an encoder for a batch.

    Attributes:
        vectors: (B, dim), not normalised.
        answers: (B, V) probabilities over the vocabulary of what the model would say, or None when not asked for.
    """

    vectors: Tensor
    answers: Tensor | None = None


def prompt_pieces(tokenizer: PieceTokenizer, template: PromptTemplate, instructions: Sequence[str]) -> PromptPieces:
    """Tokenise what stands around the text.

    Several instructions need a text-first template; what their suffixes have in common is shared too.

    Raises:
        UsageError: an instruction is too long.
    """
    before = tokenizer.start + tokenizer.instruction(instructions[0], template.prefix(instructions[0]))
    suffixes = [tokenizer.instruction(instruction, template.suffix(instruction)) for instruction in instructions]
    shared = _common_prefix(suffixes) if len(suffixes) > 1 else suffixes[0]
    rests = [suffix[len(shared) :] for suffix in suffixes]
    return PromptPieces(before, shared, rests, len(tokenizer.start), instructions)


def read_prompts(
    backbone: Backbone, batch: TextBatch, pieces: PromptPieces, tail: Tensor | None, *, reads_on: bool
) -> Iterator[EncodedBatch]:
    """Yield the batch under each instruction in turn; one result is valid until the next is asked for.

    The model is a causal one, ``tail`` are embeddings (L, d) read behind every prompt, and ``reads_on`` says whether
    the consumer extends the run, which needs the cache.
    """
    rows = [[*pieces.before, *ids, *pieces.shared] for ids in batch.ids]
    length = 0 if tail is None else tail.shape[0]
    several = len(pieces.rests) > 1
    run = PromptRun(backbone, rows, cached=reads_on or several)
    read = run.start(None if several else tail)  # (B, T, d)
    if not several:
        yield _encoded(batch, pieces, pieces.instructions[0], run, read, length)
        return
    shared = run.length
    for instruction, rest in zip(pieces.instructions, pieces.rests, strict=True):
        more = backbone.embed_ids(rest)  # (S, d)
        more = more if tail is None else torch.cat([more, tail])
        states = run.extend(more.expand(run.size, -1, -1))
        yield _encoded(batch, pieces, instruction, run, torch.cat([read, states], dim=1), length)
        run.rewind(shared)


def _encoded(
    batch: TextBatch, pieces: PromptPieces, instruction: str, run: PromptRun, read: Tensor, tail: int
) -> EncodedBatch:
    """Cut the states (B, N + L, d) into prompt and tail, whose length is L."""
    end = read.shape[1] - tail
    content = torch.arange(end, device=read.device) >= run.padding[:, None] + pieces.start_tokens
    return EncodedBatch(read[:, :end], read[:, end:], content, batch.texts, instruction, run)


def _common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    """Find the longest common prefix of all rows, leaving every row at least its last token."""
    longest = min(len(row) for row in rows) - 1
    length = next((i for i in range(longest) if len({row[i] for row in rows}) > 1), longest)
    return list(rows[0][:length])
