"""Reading one batch of texts under several instructions: the text once, each instruction from its cache."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from retriever.core.prompts import PromptTemplate
from retriever.encoders.backbone import Backbone
from retriever.encoders.run import PromptRun
from retriever.encoders.tokenize import PieceTokenizer


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

    @property
    def overhead(self) -> int:
        """Tokens a row has beside its text, under the longest instruction."""
        return len(self.before) + len(self.shared) + max(map(len, self.rests))


@dataclass(frozen=True, slots=True)
class PromptStates:
    """A batch read under one instruction.

    Attributes:
        run: the run, from which a causal encoder can read on; None for masked models.
        states: (B, N, d) hidden states of the prompt; columns of padding are noise.
        tail: (B, L, d) hidden states of what was read behind it.
        content: (B, N) true where the prompt holds a token that is neither padding nor special.
    """

    run: PromptRun | None
    states: Tensor
    tail: Tensor
    content: Tensor


def prompt_pieces(tokenizer: PieceTokenizer, template: PromptTemplate, instructions: Sequence[str]) -> PromptPieces:
    """Tokenise what stands around the text.

    Several instructions need a text-first template; what their suffixes have in common is shared too.

    Raises:
        UsageError: an instruction is too long.
    """
    before = tokenizer.start + tokenizer.instruction(instructions[0], template.prefix(instructions[0]))
    suffixes = [tokenizer.instruction(one, template.suffix(one)) for one in instructions]
    shared = _common_prefix(suffixes) if len(suffixes) > 1 else suffixes[0]
    rests = [suffix[len(shared) :] for suffix in suffixes]
    return PromptPieces(before, shared, rests, start_tokens=len(tokenizer.start))


def read_prompts(
    backbone: Backbone, texts: Sequence[Sequence[int]], pieces: PromptPieces, tail: Tensor | None, *, reads_on: bool
) -> Iterator[PromptStates]:
    """Yield the batch under each instruction in turn; one result is valid until the next is asked for.

    Args:
        backbone: a causal model.
        texts: token ids of each text.
        pieces: what stands around them.
        tail: embeddings (L, d) read behind every prompt.
        reads_on: whether the consumer extends the run, which needs the cache.
    """
    rows = [[*pieces.before, *ids, *pieces.shared] for ids in texts]
    length = 0 if tail is None else tail.shape[0]
    several = len(pieces.rests) > 1
    run = PromptRun(backbone, rows, cached=reads_on or several)
    read = run.start(None if several else tail)  # (B, T, d)
    if not several:
        yield _states(run, read, length, pieces)
        return
    shared = run.length
    for rest in pieces.rests:
        more = backbone.embed_ids(rest)  # (S, d)
        more = more if tail is None else torch.cat([more, tail])
        states = run.extend(more.expand(run.size, -1, -1))
        yield _states(run, torch.cat([read, states], dim=1), length, pieces)
        run.rewind(shared)


def _states(run: PromptRun, read: Tensor, tail: int, pieces: PromptPieces) -> PromptStates:
    """Cut what was read (B, N + L, d) into prompt and tail."""
    end = read.shape[1] - tail
    content = torch.arange(end, device=read.device) >= run.padding[:, None] + pieces.start_tokens
    return PromptStates(run, read[:, :end], read[:, end:], content)


def _common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    """Find the longest common prefix of all rows, leaving every row at least its last token."""
    longest = min(len(row) for row in rows) - 1
    length = next((i for i in range(longest) if len({row[i] for row in rows}) > 1), longest)
    return list(rows[0][:length])
