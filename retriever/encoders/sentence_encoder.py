"""Any sentence-transformers model as an encoder: the generic peer, which was not trained to follow instructions."""

from collections.abc import Sequence
from typing import Any

from retriever.core.errors import UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.similarity import normalise
from retriever.core.types import Embeddings, Encoded
from retriever.encoders.batching import distinct
from retriever.encoders.device import pick_device, pick_dtype
from retriever.encoders.sources import find_source

BATCH_SIZE = 32


class SentenceEncoder:
    """Wraps a `SentenceTransformer`; an instruction, where given, is put in front of the text.

    Args:
        name: a known wheel, a folder or a hub name.
        device: as for every encoder.
        dtype: as for every encoder, but ``auto`` means float32, which these small models are published in.
    """

    method = "st"
    pooling = "model"
    steps: int | None = None
    look_ahead: int | None = None
    spec = ""

    def __init__(self, name: str, *, device: str = "auto", dtype: str = "auto") -> None:
        from sentence_transformers import SentenceTransformer

        place = pick_device(device)
        number_format = pick_dtype("float32" if dtype == "auto" else dtype, place)
        self.source = find_source(name)
        self.dtype = str(number_format).removeprefix("torch.")
        self.model: Any = SentenceTransformer(
            str(self.source.folder), device=str(place), model_kwargs={"dtype": number_format}, local_files_only=True
        )

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.model.get_embedding_dimension())

    @property
    def fingerprint(self) -> str:
        """Hex digest over the model's files."""
        return json_hash({"method": self.method, "backbone": self.source.digest})

    def encode(
        self,
        texts: Sequence[str],
        *,
        instruction: str = "",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Embeddings:
        """Return (n, dim) float32 rows of length 1, in the order of ``texts``."""
        if isinstance(texts, str):
            raise UsageError("Texts are a sequence of strings, not one string.")
        unique, positions = distinct(texts)
        if not unique:
            return normalise([[0.0] * self.dim])[:0]
        asked = instruction.strip()
        prompts = [f"{asked} {text}" for text in unique] if asked else unique
        encoded = self.model.encode(prompts, batch_size=batch_size or BATCH_SIZE, show_progress_bar=show_progress)
        return normalise(encoded)[positions]

    def encode_many(
        self,
        texts: Sequence[str],
        instructions: Sequence[str],
        *,
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> list[Embeddings]:
        """Return one (n, dim) array per instruction; nothing is shared between them."""
        return [
            self.encode(texts, instruction=one, batch_size=batch_size, show_progress=show_progress)
            for one in instructions
        ]

    def encode_with_words(self, texts: Sequence[str], *, instruction: str = "", top: int = 5) -> Encoded:
        """Return the embeddings; such a model answers in no words."""
        return Encoded(self.encode(texts, instruction=instruction), [[] for _ in texts])
