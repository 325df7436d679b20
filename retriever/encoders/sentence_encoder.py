"""Any sentence-transformers model as an encoder: the generic peer, which was not trained to follow instructions."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.errors import UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Encoded
from retriever.encoders.base import EncoderOptions
from retriever.encoders.batching import distinct
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.sources import find_source

BATCH_SIZE = 32


class SentenceEncoder(Encoder):
    """Wraps a `SentenceTransformer`; an instruction, where given, is put in front of the text.

    Args:
        source: a known wheel, a folder or a hub name.
        name: what `load_encoder` finds this encoder by.
        device: as for every encoder.
        dtype: as for every encoder, but ``auto`` means float32, which these small models are published in.
    """

    method = "st"
    pooling = "model"

    def __init__(self, source: str, *, name: str = "", device: str = "auto", dtype: str = "auto") -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        place = pick_device(device)
        number_format = pick_dtype("float32" if dtype == "auto" else dtype, place)
        self.source = find_source(source)
        self.model: Any = SentenceTransformer(
            str(self.source.folder), device=str(place), model_kwargs={"dtype": number_format}, local_files_only=True
        )
        self._spec = EncoderSpec(
            fingerprint=json_hash({"method": self.method, "backbone": self.source.digest}),
            dim=self.model.get_embedding_dimension() or 0,
            name=name,
            pooling=self.pooling,
            dtype=str(number_format).removeprefix("torch."),
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
        return [
            Encoded(self._read(unique, one.strip(), on_tokens)[positions], [[] for _ in texts]) for one in instructions
        ]

    def _read(self, texts: Sequence[str], instruction: str, on_tokens: Callable[[int], None] | None) -> Embeddings:
        """Embed (n, dim), batches of like length one after the other, as the model itself makes them."""
        prompts = [f"{instruction} {text}" for text in texts] if instruction else texts
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        order = np.argsort([-len(prompt) for prompt in prompts])
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            chosen = [prompts[row] for row in batch]
            rows[batch] = self.model.encode(chosen, batch_size=BATCH_SIZE, show_progress_bar=False)
            if on_tokens is not None:
                on_tokens(sum(self.count_tokens([texts[row] for row in batch])))
        return normalise(rows)
