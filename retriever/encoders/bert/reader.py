"""Texts to vectors by a BERT sentence encoder: few tokens with NumPy, many with torch."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Self

from retriever.core.encoder import OnStep, Tuning
from retriever.core.one_thread import one_thread
from retriever.core.types import Embeddings, Ids
from retriever.encoders.bert.arrays import ArrayBert, read_weights
from retriever.encoders.bert.layout import TOKENIZER, BertLayout
from retriever.encoders.bert.low_rank import to_tuning, tuned_weights
from retriever.encoders.bert.packs import plan_packs
from retriever.encoders.bert.tokens import BertTokens
from retriever.encoders.device import check_device, check_dtype, pick_device, pick_dtype

if TYPE_CHECKING:
    from retriever.encoders.bert.tensors import TensorBert

ARRAY_TOKENS = 8192
"""Most tokens that one call reads with NumPy. Torch in bfloat16, its import included, takes less processor time from
5,500 tokens on, and less time by the clock from about 11,000 on where both have two cores (all-MiniLM-L6-v2, EPYC)."""

ALONE_TOKENS = 128
"""Most tokens that NumPy reads in one thread, as many as queries have. The threads of its BLAS library go on spinning
for a while; on two cores the pass of another model that follows then takes 88 ms and not 34, and a second thread
saves a query no more than 4 ms of 11 (EPYC)."""

_ARRAY_BUDGET = 1024  # tokens that NumPy reads together; from 500 on the number makes no difference


class BertReader:
    """Reads texts with a BERT sentence encoder (`SentenceModel`); safe for several threads.

    Whether NumPy or torch reads is decided by the number of tokens alone, so the same call gives the same vectors in
    any process. They agree to rounding: to 1e-5 where torch reads in float32, to a cosine of 0.999 in bfloat16.

    Args:
        layout: the model.
        device: ``auto`` and ``cpu`` read few tokens with NumPy; ``auto`` reads many on CUDA where there is one. On any
            other, torch reads everything.
        dtype: ``auto`` and ``float32`` leave it to the hardware what many tokens are read in. In any other, torch
            reads everything.

    Raises:
        UsageError: there is no such device or number format.
    """

    def __init__(self, layout: BertLayout, *, device: str = "auto", dtype: str = "auto") -> None:
        check_device(device)
        check_dtype(dtype)
        self._layout, self._device = layout, device
        self._asked = None if dtype in ("auto", "float32") else dtype
        self._few_with_arrays = device in ("auto", "cpu") and self._asked is None
        self._tokens = BertTokens(layout.folder / TOKENIZER, max_tokens=layout.max_tokens)
        self._weights = read_weights(layout)
        self._arrays = ArrayBert(layout, self._weights)
        self._tensors: TensorBert | None = None
        self._making = threading.Lock()
        self.dim = layout.dim
        self.dtype = self._asked or "float32"
        self.max_text_tokens = self._tokens.max_text_tokens

    def read(self, prompts: Sequence[str]) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some prompts and their vectors (n, dim), of any length, until all were read."""
        ids = self._tokens.ids(prompts)
        tokens = sum(map(len, ids))
        if self._few_with_arrays and tokens <= ARRAY_TOKENS:
            for pack in plan_packs(ids, _ARRAY_BUDGET):
                with one_thread if tokens <= ALONE_TOKENS else nullcontext():
                    found = self._arrays.read(pack)
                yield pack.rows, found
            return
        tensors = self._in_torch()
        for pack in plan_packs(ids, tensors.budget):
            yield pack.rows, tensors.read(pack)

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None) -> Tuning:
        """Fine-tune on labelled texts; arguments as for `Encoder.tune`. This reader stays as it is."""
        from retriever.encoders.bert.tuning import tune

        ids, device = self._tokens.ids(texts), pick_device(self._device)
        return to_tuning(tune(self._layout, self._weights, ids, labels, steps=steps, device=device, on_step=on_step))

    def tuned(self, tuning: Tuning) -> Self:
        """Return this reader as a fine-tuning makes it, sharing all else; errors as `tuned_weights`."""
        other = copy(self)
        other._weights = tuned_weights(self._weights, tuning)
        other._arrays = ArrayBert(self._layout, other._weights)
        other._tensors, other._making = None, threading.Lock()
        return other

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut."""
        return self._tokens.count(texts)

    def _in_torch(self) -> "TensorBert":
        """Return the model in torch, made at its first use."""
        with self._making:
            if self._tensors is None:
                from retriever.encoders.bert.tensors import TensorBert, quick_dtype

                place = pick_device(self._device)
                dtype = quick_dtype(place) if self._asked is None else pick_dtype(self._asked, place)
                self._tensors = TensorBert(self._layout, self._weights, place, dtype)
            return self._tensors
