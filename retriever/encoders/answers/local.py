"""Answers of a causal model in this process: what it says behind InBedder's prompt, up to the end of the line."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from retriever.core.fingerprint import json_hash
from retriever.core.prompts import get_template
from retriever.core.text import is_blank
from retriever.encoders.answers.answerer import Answer, Answered, AnswererSpec, OnAnswers, Unread
from retriever.encoders.answers.wire import tidied
from retriever.encoders.backbone import Backbone
from retriever.encoders.methods import DEFAULT_TEMPLATE
from retriever.encoders.reading import EncodedBatch, TextBatch, prompt_pieces, read_prompts
from retriever.encoders.tokenize import plan_batches, token_budget

ANSWER_TOKENS = 12
TEMPERATURE = 0.6
TOP_P = 0.9
_PROMPT = "inbedder-line-1"
_LINE = "\n"  # behind the prompt: chat models put their answer on a line of its own


class LocalAnswerer:
    """Lets a causal model write at most twelve tokens on one line; nothing leaves the process.

    Args:
        name: what `load_encoder` finds it by.
        backbone: the model.
        draw: which sampled answer it gives (temperature 0.6, of the likeliest tokens that make 0.9 together); the same
            text, question and draw give the same answer in any batch. None for the greedy one.
    """

    def __init__(self, name: str, backbone: Backbone, *, draw: int | None = None) -> None:
        self.spec = AnswererSpec(name, dtype=str(backbone.dtype).removeprefix("torch."))
        self.backbone = backbone
        self._draw = draw

    @cached_property
    def fingerprint(self) -> str:
        """Hex SHA-256 over weights, prompt and draw."""
        return json_hash({"backbone": self.backbone.source.digest, "prompt": _PROMPT, "draw": self._draw})

    def drawing(self, draw: int) -> "LocalAnswerer":
        """Return the answerer over the same model that gives another sampled answer."""
        return LocalAnswerer(self.spec.name, self.backbone, draw=draw)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return self.backbone.tokenizer.count(texts)

    @torch.inference_mode()
    def answer(self, texts: Sequence[str], questions: Sequence[str], *, keep: OnAnswers | None = None) -> Answered:
        """Answer every question for every text, which is read once; arguments as for `Answerer.answer`."""
        cells: list[list[str | None]] = [[None] * len(texts) for _ in questions]
        if not texts or not questions:
            return Answered(cells)
        tokenizer = self.backbone.tokenizer
        tokens, pieces = tokenizer.texts(texts).ids, prompt_pieces(tokenizer, get_template(DEFAULT_TEMPLATE), questions)
        tail = self.backbone.embed_ids(tokenizer.piece(_LINE))
        budget = token_budget(self.backbone.device.type, reads_on=True, shares=len(questions) > 1)
        for batch in plan_batches([len(ids) + pieces.overhead + 1 for ids in tokens], budget):
            chosen = TextBatch([texts[row] for row in batch], [tokens[row] for row in batch])
            answers = [
                Answer(row, question, line)
                for question, prompted in enumerate(read_prompts(self.backbone, chosen, pieces, tail, reads_on=True))
                for row, ids in zip(batch, self._written(prompted), strict=True)
                if (line := _first_line(tokenizer.tokenizer.decode(ids))) is not None
            ]
            for answer in answers:
                cells[answer.question][answer.row] = answer.answer
            if keep is not None:
                keep(answers)
        return Answered(cells)

    def _written(self, prompted: EncodedBatch) -> list[list[int]]:
        """Return the ids of each row's answer, up to the end of its line."""
        draws = None if self._draw is None else self._uniform(prompted)
        ids: list[list[int]] = [[] for _ in prompted.texts]
        going = torch.ones(len(ids), dtype=torch.bool, device=self.backbone.device)
        begun = torch.zeros_like(going)
        state = prompted.tail[:, -1]
        for step in range(ANSWER_TOKENS):
            logits = self.backbone.logits(state)  # (B, V)
            logits = logits.masked_fill(self._silent & ~begun[:, None], -torch.inf)
            token = logits.argmax(dim=-1) if draws is None else nucleus(logits, draws[:, step])  # (B,)
            going = going & ~(self._ends[token])
            begun = begun | going
            for row in going.nonzero().flatten().tolist():
                ids[row].append(int(token[row]))
            if not going.any() or step == ANSWER_TOKENS - 1:
                break
            state = prompted.extend(self.backbone.embed(token))
        return ids

    def _uniform(self, prompted: EncodedBatch) -> Tensor:
        """Return numbers (B, steps) in [0, 1) that depend on text, question and draw alone."""
        rows = []
        for text in prompted.texts:
            seed = hashlib.sha256("\0".join([text, prompted.instruction, str(self._draw)]).encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(seed[:8], "big", signed=True))
            rows.append(torch.rand(ANSWER_TOKENS, generator=generator))
        return torch.stack(rows).to(self.backbone.device)

    @cached_property
    def _ends(self) -> Tensor:
        """Which tokens (V,) end an answer: special ones, and those that hold the end of a line."""
        special = self.backbone.tokenizer.special_ids
        return self._tokens(lambda token, said: token in special or "\n" in said)

    @cached_property
    def _silent(self) -> Tensor:
        """Which tokens (V,) say nothing to be seen; an answer begins with none of them."""
        return self._ends | self._tokens(lambda _, said: is_blank(said) or "\ufffd" in said)

    @cached_property
    def _spoken(self) -> list[str]:
        tokenizer = self.backbone.tokenizer.tokenizer
        size = self.backbone.embedding_table().shape[0]
        known = tokenizer.get_vocab_size(with_added_tokens=True)
        return [*tokenizer.decode_batch([[token] for token in range(known)]), *[""] * (size - known)]

    def _tokens(self, chosen: Callable[[int, str], bool]) -> Tensor:
        marks = [chosen(token, said) for token, said in enumerate(self._spoken)]
        return torch.tensor(marks, device=self.backbone.device)


def nucleus(logits: Tensor, draws: Tensor) -> Tensor:
    """Draw a token (B,) of logits (B, V) by numbers (B,) in [0, 1): nucleus sampling (Holtzman et al., 2020)."""
    probabilities, order = (logits / TEMPERATURE).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    sums = probabilities.cumsum(dim=-1)
    kept = sums - probabilities < TOP_P  # the first is always kept
    total = torch.where(kept, probabilities, 0).sum(dim=-1, keepdim=True)
    chosen = (sums <= draws[:, None] * total).sum(dim=-1, keepdim=True)
    chosen = torch.minimum(chosen, kept.sum(dim=-1, keepdim=True) - 1)
    return order.gather(-1, chosen).squeeze(-1)


def _first_line(said: str) -> str | None:
    """Return the visible part of what was written."""
    answer = tidied(said.strip().partition("\n")[0].rstrip("\ufffd"))
    return None if isinstance(answer, Unread) else answer
