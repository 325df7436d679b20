"""The seams of the package: the promises of encoders and vector indexes to everything above them.

A new kind of encoder subclasses `Encoder` and writes `spec` and `encode_views`; docs/add-an-encoder.md shows it.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol, Self

import numpy as np

from retriever.core.contexts import token_bar
from retriever.core.door import Door
from retriever.core.errors import EncoderError, UsageError
from retriever.core.roles import RolePrompts
from retriever.core.types import JSON, Embeddings, Encoded, Ids, Neighbours

CHARACTERS_PER_TOKEN = 4
"""Approximate characters per token, where an encoder does not count its own."""

TUNED = "tuned:"
"""Prefix of the fingerprint of an encoder that `Encoder.tuned` gave; it ends with that of the one before."""

OnStep = Callable[[], None]
"""Called after every step of a fine-tuning; what it raises ends that."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Description of an encoder: all that makes two encoders' vectors comparable, and what sizes their work.

    Attributes:
        fingerprint: hex digest over all that vectors depend on but the instruction and the settings below: weights,
            adapter, tokenizer, template, default instruction.
        dim: length of a vector.
        name: what `load_encoder` finds it by; empty for an object that has no such name.
        pooling: how hidden states become a vector.
        steps: K, soft or generated tokens; None where the method has none.
        look_ahead: L, look-ahead tokens; None where the method has none.
        dtype: number format of the model.
        template: name of the prompt template; None without one.
        default_instruction: what an empty instruction stands for.
        max_text_tokens: tokens of a text that are read, what follows is cut; None for all.
        trained: whether the tokens that the method learns were learned; None where it learns none.
        prompts: what stands before queries and before documents.
    """

    fingerprint: str
    dim: int
    name: str = ""
    pooling: str = ""
    steps: int | None = None
    look_ahead: int | None = None
    dtype: str = "float32"
    template: str | None = None
    default_instruction: str = ""
    max_text_tokens: int | None = None
    trained: bool | None = None
    prompts: RolePrompts = RolePrompts()  # noqa: RUF009 - it is frozen

    @property
    def label(self) -> str:
        """The name, or the fingerprint's beginning where there is none."""
        return self.name or self.fingerprint[:12]


@dataclass(frozen=True, slots=True, eq=False)
class Tuning:
    """A change that `Encoder.tune` makes to an encoder, small enough to be stored beside what it is used for.

    It holds numbers as the encoder wrote them, and a JSON description with which the encoder reads them again.
    """

    arrays: bytes
    description: Mapping[str, JSON]

    def digest(self) -> str:
        """Return a hash over it, in hex."""
        return sha256(json.dumps(self.description, sort_keys=True).encode() + b"\0" + self.arrays).hexdigest()

    def fingerprint(self, before: str) -> str:
        """Return the fingerprint of the tuned encoder, given that of the one before."""
        return f"{TUNED}{self.digest()}:{before}"


class Encoder(ABC):
    """Turns texts into vectors under an instruction; vectors of two fingerprints are never compared.

    A subclass writes `spec` and `encode_views`; the other methods are made of these.

    Attributes:
        exporter: ``module:function`` that writes such an encoder as a folder for other programs; empty for none.
        at_once: batches that are best read at the same time, from several threads: more than one where texts are sent
            to a server.
    """

    exporter = ""
    at_once = 1

    @property
    @abstractmethod
    def spec(self) -> EncoderSpec:
        """Description of this encoder; a class attribute serves where it is the same for all objects."""

    @abstractmethod
    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction, in one pass where the encoder can.

        Args:
            texts: any number of documents, which are compared with queries or with each other.
            instructions: any number of strings, one result each; an empty one stands for the default.
            words: most words of a text that the encoder answers with; 0 asks for none.
            on_tokens: called with numbers of text tokens, as they are read.

        Returns:
            For each instruction (n, dim) float32 rows of length 1 in the order of ``texts``, and n lists of words,
            empty where none were asked for or the encoder has none.
        """

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.spec.dim

    @property
    def fingerprint(self) -> str:
        """Hex digest over weights, adapter, tokenizer, template and default instruction."""
        return self.spec.fingerprint

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Embed texts: (n, dim) float32 rows of length 1, in the order of ``texts``.

        Args:
            texts: any number of strings.
            instruction: what to look for; empty for the default instruction.
            batch_size: most texts read together; by default the encoder alone decides.
            show_progress: show rate and time left on stderr.

        Raises:
            UsageError: the texts are one string, or the batch size is none.
            EncoderError: a text could not be read.
        """
        return self.encode_many(texts, [instruction], batch_size=batch_size, show_progress=show_progress)[0]

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed what is searched for: (n, dim) float32 rows of length 1, to compare with texts of that instruction.

        As texts are embedded, to rounding at least; an encoder that reads queries in another way (``spec.prompts``)
        overrides it.
        """
        return self.encode(queries, instruction=instruction)

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Embed texts under several instructions: one (n, dim) array each, from one pass where the encoder can.

        Arguments and errors are those of `encode`.
        """
        refuse_one_string(texts, instructions)
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch_size is {batch_size}.", hint="A batch holds at least 1 text.")
        # Like beside like, so that a batch has little padding.
        order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), texts[row])) if batch_size else []
        with token_bar(show_progress, lambda: sum(self._read_tokens(list(dict.fromkeys(texts))))) as on_tokens:
            if batch_size is None:
                views = self.encode_views(texts, instructions, on_tokens=on_tokens)
                return [view.embeddings for view in views]
            vectors = [np.empty((len(texts), self.dim), dtype=np.float32) for _ in instructions]
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                views = self.encode_views([texts[row] for row in rows], instructions, on_tokens=on_tokens)
                for whole, view in zip(vectors, views, strict=True):
                    whole[rows] = view.embeddings
            return vectors

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Embed texts and give, from the same pass, up to ``top`` words the model answers each with."""
        refuse_one_string(texts)
        return self.encode_views(texts, [instruction], words=top)[0]

    def through(self, door: Door) -> "Encoder":
        """Return the encoder as it sends texts through a door; itself where texts stay in this process."""
        return self

    def memory(self) -> JSON:
        """Return what an index keeps to recognise the model by; None where the fingerprint does that alone."""
        return None

    def known_as(self, description: Mapping[str, JSON]) -> "Encoder":
        """Return the encoder as an index describes it; itself where the index holds no `memory` to know it by.

        An encoder with such a memory is asked nothing yet. Whether it is still the same shows at its first vector, and
        `EncoderMismatchError` is raised where it is not.

        Raises:
            EncoderMismatchError: it is to read texts in another way.
        """
        return self

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text, however long; an estimate from its length unless overridden."""
        return [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Return whether the encoder's vocabulary has anything of each text; all of them unless overridden.

        Texts of which it has nothing have no vector by meaning: what an encoder gives for them goes by characters.
        """
        return [True for _ in texts]

    def reconfigured(self, **changes: str | int | None) -> "Encoder":
        """Give the same encoder with other settings (``steps=3``), sharing the loaded model.

        Raises:
            EncoderError: it has no such settings.
        """
        raise EncoderError(f"{self.spec.label} has no {next(iter(changes), 'setting')} to choose.")

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None = None) -> Tuning:
        """Fine-tune on a few examples, so that texts of one label come together; this encoder stays as it is.

        Args:
            texts: n of them.
            labels: (n,) small whole numbers; of each label two texts or more.
            steps: of gradient descent.
            on_step: called after every step.

        Raises:
            EncoderError: it cannot be fine-tuned so.
        """
        raise EncoderError(
            f"{self.spec.label} cannot be fine-tuned on a few examples.",
            hint="Sentence-transformers models of the BERT family can, such as minilm.",
        )

    def tuned(self, tuning: Tuning) -> "Encoder":
        """Return the encoder that a fine-tuning makes of this one, with a fingerprint of its own.

        Raises:
            EncoderError: the fine-tuning is not one of this encoder.
        """
        raise EncoderError(f"{self.spec.label} cannot be fine-tuned on a few examples.")

    def _read_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text that are read."""
        counts, limit = self.count_tokens(texts), self.spec.max_text_tokens
        return counts if limit is None else [min(count, limit) for count in counts]


class WrappedEncoder(Encoder):
    """An encoder around another, which it is but for what a subclass overrides."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def spec(self) -> EncoderSpec:
        """The wrapped encoder's."""
        return self._encoder.spec

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Ask the wrapped encoder."""
        return self._encoder.encode_views(texts, instructions, words=words, on_tokens=on_tokens)

    def encode_queries(self, queries: Sequence[str], *, instruction: str = "") -> Embeddings:
        """Embed queries as texts are embedded; the wrapped encoder does where it has prompts of its own for them."""
        if self.spec.prompts:
            return self._encoder.encode_queries(queries, instruction=instruction)
        return super().encode_queries(queries, instruction=instruction)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Ask the wrapped encoder."""
        return self._encoder.count_tokens(texts)

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Ask the wrapped encoder."""
        return self._encoder.knows(texts)

    def through(self, door: Door) -> Encoder:
        """Wrap the encoder as it sends texts through a door; this one where texts stay in this process."""
        sent = self._encoder.through(door)
        return self if sent is self._encoder else self._around(sent)

    def memory(self) -> JSON:
        """Ask the wrapped encoder."""
        return self._encoder.memory()

    def known_as(self, description: Mapping[str, JSON]) -> Encoder:
        """Wrap the encoder as an index describes it; this one where the index holds no memory of it."""
        known = self._encoder.known_as(description)
        return self if known is self._encoder else self._around(known)

    def reconfigured(self, **changes: str | int | None) -> Self:
        """Wrap the reconfigured encoder in the same way."""
        return self._around(self._encoder.reconfigured(**changes))

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None = None) -> Tuning:
        """Fine-tune the wrapped encoder."""
        return self._encoder.tune(texts, labels, steps=steps, on_step=on_step)

    def tuned(self, tuning: Tuning) -> Self:
        """Wrap the tuned encoder in the same way."""
        return self._around(self._encoder.tuned(tuning))

    def _around(self, encoder: Encoder) -> Self:
        other = copy(self)
        other._encoder = encoder
        return other


class VectorIndex(Protocol):
    """Finds the nearest vectors by cosine."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def size(self) -> int:
        """Number of vectors."""
        ...

    def search(self, queries: Embeddings, k: int, *, allowed: Ids | None = None) -> Neighbours:
        """Return the k nearest ids of each query: higher scores first, equal scores by ascending id.

        Args:
            queries: (q, dim) normalised rows.
            k: hits per query; a larger k than there are vectors is padded with id -1.
            allowed: sorted ids the search may return; None allows all.
        """
        ...


def refuse_one_string(*sequences: Sequence[str]) -> None:
    """Raise `UsageError` where one string stands for a sequence of them."""
    if any(isinstance(texts, str) for texts in sequences):
        raise UsageError("Texts and instructions are sequences of strings, not one string.")
