"""Texts and queries to vectors by a BERT sentence encoder: texts with torch, queries with NumPy."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tokenizers import Tokenizer

from retriever.core.contexts import one_thread
from retriever.core.errors import UsageError
from retriever.core.protocols import OnStep, Tuning
from retriever.core.types import Embeddings, Ids
from retriever.encoders.bert.arrays import (
    ArrayBert,
    BertWeights,
    plan_packs,
    read_weights,
    to_tuning,
    tuned_weights,
)
from retriever.encoders.bert.layout import TOKENIZER, BertLayout
from retriever.encoders.device import check_dtype, pick_device, pick_dtype
from retriever.encoders.tokenize import MAX_INSTRUCTION_TOKENS

if TYPE_CHECKING:
    from retriever.encoders.bert.tensors import TensorBert

ARRAY_TOKENS = 8192
"""Most tokens of queries that one call reads with NumPy. Torch in bfloat16, its import included, takes less processor
time from 5,500 tokens on, and less by the clock from about 11,000 on where both have two cores (MiniLM, EPYC)."""

ALONE_TOKENS = 128
"""Most tokens that NumPy reads in one thread, as many as queries have. The threads of its BLAS library go on spinning
for a while; on two cores the pass of another model that follows then takes 88 ms and not 34, and a second thread
saves a query no more than 4 ms of 11 (EPYC)."""

_UNKNOWN, _BEFORE_WORDS = "<unk>", "\u2581"
"""Tokens of what a Unigram vocabulary lacks, and of the beginning of a word, which stands before those too."""

_ARRAY_BUDGET = 1024  # tokens that NumPy reads together; from 500 on the number makes no difference


class BertTokens:
    """Tokenises texts; safe for several threads.

    A special token spelled out in a text (``[SEP]``) is that token, as in the library the model is published for.
    ``max_tokens`` ids of a text are kept, start and end included; with a question before it, as many as there are
    ``positions`` for.
    """

    def __init__(self, file: Path, *, max_tokens: int, positions: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        around, bare = self._tokenizer.encode("x").ids, self._tokenizer.encode("x", add_special_tokens=False).ids
        split = next(i for i in range(len(around)) if around[i : i + len(bare)] == bare)
        self._start, self._end = around[:split], around[split + len(bare) :]
        self.max_text_tokens = max_tokens - len(self._start) - len(self._end)
        self._positions, self._most = positions, positions

    def limited(self, max_text_tokens: int) -> Self:
        """Return the same tokenizer with another limit to the length of texts, where that is shorter."""
        other = copy(self)
        other.max_text_tokens = min(self.max_text_tokens, max_text_tokens)
        other._most = max_text_tokens
        return other

    def ids(self, texts: Sequence[str], question: str = "") -> list[list[int]]:
        """Return the ids of each text between those of start and end, cut to the limit.

        A question stands before each, with what ends a text between them; then all places of the model are used.

        Raises:
            UsageError: the question has more than `MAX_INSTRUCTION_TOKENS`.
        """
        if not question:
            return [[*self._start, *row[: self.max_text_tokens], *self._end] for row in self._encoded(texts)]
        before = [*self._start, *self._question(question), *self._end]
        room = max(0, min(self._most, self._positions - len(before) - len(self._end)))
        return [[*before, *row[:room], *self._end] for row in self._encoded(texts)]

    def _question(self, question: str) -> list[int]:
        (row,) = self._encoded([question])
        if len(row) > MAX_INSTRUCTION_TOKENS:
            raise UsageError(
                f"The instruction has {len(row)} tokens; at most {MAX_INSTRUCTION_TOKENS} are allowed.",
                hint="Say it in a sentence or two.",
            )
        return row

    def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut, without those put around it."""
        return [len(row) for row in self._encoded(texts)]

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Return whether any token of each text is in the vocabulary; True of a text without tokens."""
        unknown = getattr(self._tokenizer.model, "unk_token", None) or _UNKNOWN
        silent = {self._tokenizer.token_to_id(token) for token in (unknown, _BEFORE_WORDS)}
        return [not row or any(token not in silent for token in row) for row in self._encoded(texts)] if texts else []

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 1:  # without threads, which a single text would only start
            return [self._tokenizer.encode(texts[0], add_special_tokens=False).ids]
        return [encoded.ids for encoded in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


class BertEncoder:
    """Reads texts with a BERT sentence encoder; safe for several threads.

    Torch reads texts, so that a text has one vector however many are read with it; NumPy reads queries, without the
    seconds that torch takes to import. The two agree to rounding: to 1e-5 where torch reads in float32, to a cosine of
    0.999 in bfloat16.

    Args:
        layout: the model.
        device: ``auto`` and ``cpu`` read queries with NumPy; ``auto`` reads texts on CUDA where there is one. On any
            other, torch reads everything.
        dtype: ``auto`` and ``float32`` leave it to the hardware what texts are read in. In any other, torch reads
            everything.

    Attributes:
        layout: the model.
        weights: in float32.
        tokens: the tokenizer.

    Raises:
        UsageError: there is no such device or number format.
    """

    def __init__(self, layout: BertLayout, *, device: str = "auto", dtype: str = "auto") -> None:
        if device not in ("auto", "cpu"):  # which are there always, and known without torch
            pick_device(device)
        check_dtype(dtype)
        self.layout, self._device = layout, device
        self._asked = None if dtype in ("auto", "float32") else dtype
        self._queries_with_arrays = device in ("auto", "cpu") and self._asked is None
        self.tokens = BertTokens(layout.folder / TOKENIZER, max_tokens=layout.max_tokens, positions=layout.positions)
        self.count_tokens, self.knows = self.tokens.count, self.tokens.knows
        self.weights = read_weights(layout)
        self._arrays = ArrayBert(layout, self.weights)
        self._tensors: TensorBert | None = None
        self._making = threading.Lock()
        self.dim = layout.dim
        self.dtype = self._asked or "float32"
        self.max_text_tokens = self.tokens.max_text_tokens

    def read(self, prompts: Sequence[str], question: str = "") -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some texts and their vectors (n, dim), of any length, until all were read.

        With a question each is read together with that.
        """
        tensors = self._in_torch()
        for pack in plan_packs(self.tokens.ids(prompts, question), tensors.budget):
            yield pack.rows, tensors.read(pack)

    def read_queries(self, prompts: Sequence[str], question: str = "") -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some queries and their vectors (n, dim), of any length, until all were read."""
        ids = self.tokens.ids(prompts, question)
        tokens = sum(map(len, ids))
        if not self._queries_with_arrays or tokens > ARRAY_TOKENS:
            yield from self.read(prompts, question)
            return
        for pack in plan_packs(ids, _ARRAY_BUDGET):
            with one_thread if tokens <= ALONE_TOKENS else nullcontext():
                vectors = self._arrays.read(pack)
            yield pack.rows, vectors

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None) -> Tuning:
        """Fine-tune on labelled texts; arguments as for `Encoder.tune`. This encoder stays as it is."""
        from retriever.encoders.bert.tensors import tune

        ids, device = self.tokens.ids(texts), pick_device(self._device)
        return to_tuning(tune(self.layout, self.weights, ids, labels, steps=steps, device=device, on_step=on_step))

    def tuned(self, tuning: Tuning) -> Self:
        """Return this encoder as a fine-tuning makes it, sharing all else; errors as `tuned_weights`."""
        return self.changed(tuned_weights(self.weights, tuning))

    def changed(self, weights: BertWeights) -> Self:
        """Return this encoder with other weights, sharing all else."""
        other = copy(self)
        other.weights = weights
        other._arrays = ArrayBert(self.layout, other.weights)
        other._tensors, other._making = None, threading.Lock()
        return other

    def _in_torch(self) -> "TensorBert":
        """Return the model in torch, made at its first use."""
        with self._making:
            if self._tensors is None:
                from retriever.encoders.bert.tensors import TensorBert, quick_dtype

                place = pick_device(self._device)
                dtype = quick_dtype(place) if self._asked is None else pick_dtype(self._asked, place)
                self._tensors = TensorBert(self.layout, self.weights, place, dtype)
            return self._tensors
