"""Any sentence-transformers model as an encoder: the generic peer, which was not trained to follow instructions."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from retriever.core.encoder import CHARACTERS_PER_TOKEN, Encoder, EncoderSpec, OnStep, Tuning
from retriever.core.errors import UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Encoded, Ids
from retriever.encoders.batching import distinct
from retriever.encoders.bert.layout import read_layout
from retriever.encoders.bert.reader import BertReader
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.options import EncoderOptions
from retriever.encoders.sources import find_source

BATCH_SIZE = 32


class SentenceModel(Protocol):
    """What makes vectors of texts."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def dtype(self) -> str:
        """Number format that its vectors agree in, to rounding."""
        ...

    @property
    def max_text_tokens(self) -> int | None:
        """Tokens of a text that are read; None where it does not tell."""
        ...

    def read(self, prompts: Sequence[str]) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions of some prompts and their vectors (n, dim), of any length, until all were read."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut."""
        ...


class SentenceEncoder(Encoder):
    """Reads each text by itself; an instruction, where given, is put in front of it.

    A BERT with mean or first-token pooling (all-MiniLM-L6-v2) is read by `BertReader`, which needs no torch for a few
    texts; any other model by its own package.

    Args:
        source: a known wheel, a folder or a hub name.
        name: what `load_encoder` finds this encoder by.
        device: as for every encoder.
        dtype: as for every encoder, but ``auto`` means float32, which these small models are published in. A
            `BertReader` reads many texts in bfloat16 all the same where the CPU multiplies it: vectors agree with
            those in float32 to a cosine of 0.999, and are of the same view.
    """

    method = "st"
    pooling = "model"

    def __init__(self, source: str, *, name: str = "", device: str = "auto", dtype: str = "auto") -> None:
        self.source = find_source(source)
        layout = read_layout(self.source.folder)
        self.model: SentenceModel = (
            StockModel(self.source.folder, device=device, dtype=dtype)
            if layout is None
            else BertReader(layout, device=device, dtype=dtype)
        )
        self._spec = EncoderSpec(
            fingerprint=json_hash({"method": self.method, "backbone": self.source.digest}),
            dim=self.model.dim,
            name=name,
            pooling=self.pooling,
            dtype=self.model.dtype,
            max_text_tokens=self.model.max_text_tokens,
        )

    @classmethod
    def load(cls, name: str, source: str, options: EncoderOptions, *, device: str, dtype: str) -> Self:
        """Load a model that was asked for with options, of which it has none.

        Raises:
            UsageError: an option was given.
            EncoderError: the model or its package is missing.
        """
        asked = {"steps": options.steps, "look_ahead": options.look_ahead, "template": options.template}
        asked["pooling"] = None if options.pooling == cls.pooling else options.pooling
        if given := [option for option, value in asked.items() if value is not None]:
            raise UsageError(
                f"{name} has no {given[0].replace('_', '-')} to choose.", hint="Its own modules fix how it pools."
            )
        return cls(source, name=name, device=device, dtype=dtype)

    @property
    def spec(self) -> EncoderSpec:
        """Description of this encoder; the fingerprint covers the model's files."""
        return self._spec

    def encode_views(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        words: int = 0,
        on_tokens: Callable[[int], None] | None = None,
    ) -> list[Encoded]:
        """Embed every text under every instruction; nothing is shared between them, and there are no words."""
        unique, positions = distinct(texts)
        lengths = [] if on_tokens is None else self._text_tokens(unique)
        views = []
        for instruction in map(str.strip, instructions):
            rows = np.zeros((len(unique), self.dim), dtype=np.float32)
            for read, vectors in self.model.read([f"{instruction} {text}" if instruction else text for text in unique]):
                rows[read] = vectors
                if on_tokens is not None:
                    on_tokens(sum(lengths[row] for row in read))
            views.append(Encoded(normalise(rows)[positions], [[] for _ in texts]))
        return views

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text, however long."""
        return self.model.count_tokens(texts)

    def tune(self, texts: Sequence[str], labels: Ids, *, steps: int, on_step: OnStep | None = None) -> Tuning:
        """Fine-tune on a few examples, where a `BertReader` reads; arguments and errors as for `Encoder.tune`."""
        if not isinstance(self.model, BertReader):
            return super().tune(texts, labels, steps=steps, on_step=on_step)
        return self.model.tune(texts, labels, steps=steps, on_step=on_step)

    def tuned(self, tuning: Tuning) -> Encoder:
        """Return this encoder as a fine-tuning makes it; errors as for `Encoder.tuned`."""
        if not isinstance(self.model, BertReader):
            return super().tuned(tuning)
        other = copy(self)
        other.model = self.model.tuned(tuning)
        other._spec = replace(self._spec, name="", fingerprint=tuning.fingerprint(self._spec.fingerprint))
        return other

    def _text_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of every text that are read."""
        limit = self.spec.max_text_tokens
        counts = self.count_tokens(texts)
        return counts if limit is None else [min(count, limit) for count in counts]


class StockModel:
    """A model read by `SentenceTransformer`, as it is.

    Args:
        folder: the model's.
        device: where to run.
        dtype: in which number format; ``auto`` means float32.

    Raises:
        UsageError: there is no such device or number format.
    """

    def __init__(self, folder: Path, *, device: str, dtype: str) -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        place = pick_device(device)
        number_format = pick_dtype("float32" if dtype == "auto" else dtype, place)
        self._model: Any = SentenceTransformer(
            str(folder), device=str(place), model_kwargs={"dtype": number_format}, local_files_only=True
        )
        self.dim: int = self._model.get_embedding_dimension() or 0
        self.dtype = str(number_format).removeprefix("torch.")
        # A model of other units than tokens (a bag of words, say) has no tokenizer that counts, and no limit.
        tokenizer: Any = getattr(self._model, "tokenizer", None)
        self._tokenizer = tokenizer if hasattr(tokenizer, "num_special_tokens_to_add") else None
        limit = self._model.max_seq_length if self._tokenizer else None
        self.max_text_tokens = max(0, limit - tokenizer.num_special_tokens_to_add()) if limit else None

    def read(self, prompts: Sequence[str]) -> Iterator[tuple[Sequence[int], Embeddings]]:
        """Yield positions and vectors of prompts of like length, longest first, as the model itself makes them."""
        order = np.argsort([-len(prompt) for prompt in prompts])
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE].tolist()
            chosen = [prompts[row] for row in batch]
            yield batch, self._model.encode(chosen, batch_size=BATCH_SIZE, show_progress_bar=False)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, uncut; estimated from its length where the model has no tokenizer to ask."""
        if not texts or self._tokenizer is None:
            return [1 + len(text) // CHARACTERS_PER_TOKEN for text in texts]
        encoded = self._tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
        return [len(row) for row in encoded["input_ids"]]
