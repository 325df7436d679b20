"""Texts and queries to vectors by a BERT sentence encoder: texts with torch, queries with NumPy."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tokenizers import Tokenizer

from retriever.core.contexts import one_thread
from retriever.core.protocols import OnStep, Tuning
from retriever.core.types import Embeddings, Ids
from retriever.encoders.bert.arrays import ArrayBert, plan_packs, read_weights, to_tuning, tuned_weights
from retriever.encoders.bert.layout import TOKENIZER, BertLayout
from retriever.encoders.device import check_dtype, pick_device, pick_dtype

if TYPE_CHECKING:
    from retriever.encoders.bert.tensors import TensorBert

ARRAY_TOKENS = 8192
"""Most tokens of queries that one call reads with NumPy. Torch in bfloat16, its import included, takes less processor
time from 5,500 tokens on, and less by the clock from about 11,000 on where both have two cores (MiniLM, EPYC)."""

ALONE_TOKENS = 128
"""Most tokens that NumPy reads in one thread, as many as queries have. The threads of its BLAS library go on spinning
for a while; on two cores the pass of another model that follows then takes 88 ms and not 34, and a second thread
saves a query no more than 4 ms of 11 (EPYC)."""

_ARRAY_BUDGET = 1024  # tokens that NumPy reads together; from 500 on the number makes no difference


class BertTokens:
    """Tokenises texts; safe for several threads.

    A special token spelled out in a text (``[SEP]``) is that token, as in the library the model is published for.
    ``max_tokens`` ids of a text are kept, start and end included.
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

    def knows(self, texts: Sequence[str]) -> list[bool]:
        """Return whether any token of each text is in the vocabulary; True of a text without tokens."""
        unknown = self._tokenizer.token_to_id(getattr(self._tokenizer.model, "unk_token", None) or "")
        return [not row or any(token != unknown for token in row) for row in self._encoded(texts)] if texts else []

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

    Raises:
        UsageError: there is no such device or number format.
    """

    def __init__(self, layout: BertLayout, *, device: str = "auto", dtype: str = "auto") -> None:
        if device not in ("auto", "cpu"):  # which are there always, and known without torch
            pick_device(device)
        check_dtype(dtype)
        self._layout, self._device = layout, device
        self._asked = None if dtype in ("auto", "float32") else dtype
        self._queries_with_arrays = device in ("auto", "cpu") and self._asked is None
        self._tokens = BertTokens(layout.folder / TOKENIZER, max_tokens=layout.max_tokens)
        self.count_tokens, self.knows = self._tokens.count, self._tokens.knows
        self._weights = read_weights(layout)
        self._arrays = ArrayBert(layout, self._weights)
        self._tensors: TensorBert | None = None
        self._making = threading.Lock()
        self.dim = layout.dim
        self.dtype = self._asked or "float32"
        self.max_text_tokens = self._tokens.max_text_tokens

    def read(self, prompts: Sequence[str]) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some texts and their vectors (n, dim), of any length, until all were read."""
        tensors = self._in_torch()
        for pack in plan_packs(self._tokens.ids(prompts), tensors.budget):
            yield pack.rows, tensors.read(pack)

    def read_queries(self, prompts: Sequence[str]) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some queries and their vectors (n, dim), of any length, until all were read."""
        ids = self._tokens.ids(prompts)
        tokens = sum(map(len, ids))
        if not self._queries_with_arrays or tokens > ARRAY_TOKENS:
            yield from self.read(prompts)
            return
        for pack in plan_packs(ids, _ARRAY_BUDGET):
            with one_thread if tokens <= ALONE_TOKENS else nullcontext():
                vectors = self._arrays.read(pack)
            yield pack.rows, vectors

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None) -> Tuning:
        """Fine-tune on labelled texts; arguments as for `Encoder.tune`. This encoder stays as it is."""
        from retriever.encoders.bert.tensors import tune

        ids, device = self._tokens.ids(texts), pick_device(self._device)
        return to_tuning(tune(self._layout, self._weights, ids, labels, steps=steps, device=device, on_step=on_step))

    def tuned(self, tuning: Tuning) -> Self:
        """Return this encoder as a fine-tuning makes it, sharing all else; errors as `tuned_weights`."""
        other = copy(self)
        other._weights = tuned_weights(self._weights, tuning)
        other._arrays = ArrayBert(self._layout, other._weights)
        other._tensors, other._making = None, threading.Lock()
        return other

    def _in_torch(self) -> "TensorBert":
        """Return the model in torch, made at its first use."""
        with self._making:
            if self._tensors is None:
                from retriever.encoders.bert.tensors import TensorBert, quick_dtype

                place = pick_device(self._device)
                dtype = quick_dtype(place) if self._asked is None else pick_dtype(self._asked, place)
                self._tensors = TensorBert(self._layout, self._weights, place, dtype)
            return self._tensors
