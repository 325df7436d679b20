"""The base of all encoders over a causal model: order, duplicates, batches, prefix sharing, normalising, words.

A new encoder writes one method, `PromptEncoder.read`, which sees one batch under one instruction.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Self, cast

import numpy as np
import torch
from torch import Tensor

from retriever.core.errors import UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.prompts import PromptTemplate, get_template
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import JSON, Encoded
from retriever.encoders.backbone import Backbone
from retriever.encoders.methods import DEFAULT_TEMPLATE, EncoderOptions
from retriever.encoders.reading import BatchOutput, EncodedBatch, PromptPieces, TextBatch, prompt_pieces, read_prompts
from retriever.encoders.readout import Shares, WordReadout
from retriever.encoders.tokenize import distinct, plan_batches, token_budget


class PromptEncoder(Encoder):
    """An encoder that reads prompts with a language model.

    Args:
        backbone: the model.
        options: pooling, steps, look-ahead length, template, default instruction.
        learned: the tensors of `learned_names`, trained; None starts from untrained ones.

    Attributes:
        name: what it was loaded by; set by who loads it.
        learned: the tensors that the method learns beside the model's weights, by name, as they are used. Checkpoints
            keep each in a file of its own, and the fingerprint covers them.
    """

    method: str
    poolings: tuple[str, ...]
    reads_on = False  # whether `read` extends the run past the prompt
    exporter = "retriever.encoders.export.stock_modules:write"  # makes a folder for other programs of an encoder
    shares_text = True  # whether a text read once can serve several instructions
    learned_names: tuple[str, ...] = ()
    for_masked: "type[PromptEncoder] | None" = None
    """The class that takes this one's place over a masked model; None where the method needs a causal one."""

    def __init__(
        self, backbone: Backbone, options: EncoderOptions, learned: Mapping[str, Tensor] | None = None
    ) -> None:
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
        self.name = ""
        self.learned: Mapping[str, Tensor] = learned or {}
        self._trained = learned is not None

    @abstractmethod
    def read(self, prompted: EncodedBatch, *, answers: bool) -> BatchOutput:
        """Turn one batch into vectors, and into answer probabilities if asked."""

    def tail(self, *, answers: bool) -> Tensor | None:
        """Return embeddings (L, d) to read behind every prompt, or None; ``answers`` as for `read`."""
        return None

    def shares(self) -> Shares | None:
        """Return the pooling as weights of states, for exports; None where no weighted mean of one pass gives it."""
        return None

    def behind(self) -> Tensor:
        """Return the embeddings (L, d) of all that is read behind a prompt when no words are wanted."""
        tail = self.tail(answers=False)
        return self.backbone.embed_ids([]) if tail is None else tail

    def next_token(self, *states: Tensor) -> Tensor:
        """Return the mean of the next-token distributions (B, V) at some hidden states (B, d)."""
        total = sum(self.backbone.logits(state).softmax(dim=-1) for state in states)
        return cast("Tensor", total) / len(states)

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder."""
        return EncoderSpec(
            fingerprint=self._fingerprint,
            dim=self.dim,
            name=self.name,
            pooling=self.pooling,
            steps=self.steps,
            look_ahead=self.look_ahead,
            dtype=str(self.backbone.dtype).removeprefix("torch."),
            template=self.template.name,
            default_instruction=self.options.default_instruction,
            max_text_tokens=self.max_text_tokens,
            trained=self._trained if self.learned_names else None,
        )

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.backbone.dim

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a text that are read; what follows is cut."""
        return self.backbone.tokenizer.max_text_tokens

    @cached_property
    def _fingerprint(self) -> str:
        return json_hash(self.identity())

    def identity(self) -> dict[str, JSON]:
        """Collect the values that the fingerprint covers."""
        return {
            "method": self.method,
            "backbone": self.backbone.source.digest,
            "template": self.template.name,
            "default_instruction": self.options.default_instruction,
            **{f"{name}_embeddings": tensor_digest(values) for name, values in self.learned.items()},
        }

    def reconfigured(self, **changes: str | int | None) -> Self:
        """Give the same encoder with other options (`EncoderOptions` fields), sharing the loaded model."""
        options = replace(self.options, **changes)  # type: ignore[arg-type]
        other = type(self)(self.backbone, options, self.learned if self._trained else None)
        other.name = self.name
        return other

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text, however long."""
        return self.backbone.tokenizer.count(texts)

    @torch.inference_mode()
    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction; equal texts are read once.

        With a text-first template a text is read once and every instruction reads on from its cached keys and values;
        otherwise the passes are separate, and each counts its tokens.
        """
        unique, positions = distinct(texts)
        resolved = [instruction.strip() or self.options.default_instruction for instruction in instructions]
        ids = self.backbone.tokenizer.texts(unique)
        vectors = np.zeros((len(resolved), len(unique), self.dim), dtype=np.float32)
        said: list[list[list[str]]] = [[[] for _ in unique] for _ in resolved]
        everything = list(range(len(resolved)))
        groups = [everything] if self.shares_text and self.template.text_first else [[i] for i in everything]
        for group in filter(None, groups):
            shared = [resolved[i] for i in group]
            priors = [self._prior(instruction) if words and texts else None for instruction in shared]
            for rows, read in self._batches(unique, ids, shared, answers=words > 0):
                for view, prior, prompted in zip(group, priors, read, strict=True):
                    output = self.read(prompted, answers=words > 0)
                    vectors[view, rows] = output.vectors.float().cpu().numpy()
                    if prior is not None and output.answers is not None:
                        for row, of_row in zip(rows, self.words.read(output.answers, words, prior=prior), strict=True):
                            said[view][row] = of_row
                if on_tokens is not None:
                    on_tokens(sum(len(ids[row]) for row in rows))
        return [
            Encoded(normalise(vectors[i])[positions].reshape(-1, self.dim), [said[i][p] for p in positions])
            for i in everything
        ]

    def _prior(self, instruction: str) -> Tensor | None:
        """Compute the model's answer distribution (1, V) to an instruction without a text."""
        _, read = next(self._batches([""], [[]], [instruction], answers=True))
        return self.read(next(read), answers=True).answers

    def _batches(
        self,
        texts: Sequence[str],
        ids: list[list[int]],
        instructions: Sequence[str],
        *,
        answers: bool,
    ) -> Iterator[tuple[list[int], Iterator[EncodedBatch]]]:
        """Yield each batch's rows and, lazily, the batch as read under each instruction."""
        pieces = prompt_pieces(self.backbone.tokenizer, self.template, instructions)
        tail = self.tail(answers=answers)
        overhead = pieces.overhead + (0 if tail is None else tail.shape[0])
        shares = len(instructions) > 1
        budget = token_budget(self.backbone.device.type, reads_on=self.reads_on, shares=shares)
        for batch in plan_batches([len(row) + overhead for row in ids], budget):
            chosen = TextBatch([texts[row] for row in batch], [ids[row] for row in batch])
            yield batch, self.read_batch(chosen, pieces, tail)

    def read_batch(self, batch: TextBatch, pieces: PromptPieces, tail: Tensor | None) -> Iterator[EncodedBatch]:
        """Yield the batch as read under each of the pieces' instructions in turn."""
        return read_prompts(self.backbone, batch, pieces, tail, reads_on=self.reads_on)

    @cached_property
    def words(self) -> WordReadout:
        """The table that turns vocabulary probabilities into words."""
        tokenizer = self.backbone.tokenizer
        return WordReadout(tokenizer.vocabulary(), tokenizer.special_ids, self.backbone.device)


def tensor_digest(tensor: Tensor) -> str:
    """Return the hex SHA-256 of a tensor's values in bfloat16."""
    values = tensor.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy()
    return hashlib.sha256(values.tobytes()).hexdigest()
