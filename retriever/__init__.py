"""Instruction-aware vector search: one corpus, many questions.

Importing this package loads neither torch nor faiss; `load_encoder` and `open_index` do when called.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from retriever.core.protocols import Encoder
    from retriever.workspace import Index

__all__ = ["load_encoder", "open_index"]


def load_encoder(
    name_or_path: str = "default",
    *,
    device: str = "auto",
    dtype: str = "auto",
    pooling: str | None = None,
    steps: int | None = None,
    look_ahead: int | None = None,
    template: str | None = None,
) -> "Encoder":
    """Load an encoder.

    Args:
        name_or_path: a name of `retriever models list`, ``METHOD:BACKBONE`` (``gircse:/models/qwen``), or a
            checkpoint folder.
        device: ``auto`` (CUDA where there is one), ``cpu``, ``cuda``.
        dtype: ``auto`` (bfloat16 where the hardware multiplies it), ``float32``, ``bfloat16``, ``float16``.
        pooling: how hidden states become a vector; each method has its own names and default.
        steps: K, soft tokens (GIRCSE) or generated tokens (InBedder).
        look_ahead: L, look-ahead tokens (InstEmb).
        template: ``input-first`` or ``instruct-query``; None takes the checkpoint's own.

    Raises:
        EncoderError: no such encoder, or its files are missing.
        CheckpointError: its files differ from their recorded hashes.
    """
    from retriever.encoders import catalog

    options = {"pooling": pooling, "steps": steps, "look_ahead": look_ahead, "template": template}
    return catalog.load_encoder(name_or_path, device=device, dtype=dtype, **options)


def open_index(
    path: str | Path,
    *,
    encoder: "Encoder | None" = None,
    plain: "Encoder | Literal['none'] | None" = None,
    device: str = "auto",
    max_texts: int | None = None,
    max_tokens: int | None = None,
    max_minutes: float | None = None,
) -> "Index":
    """Open an index, or make a new one there on the first `add`.

    Args:
        path: the index folder.
        encoder: what follows instructions; None takes the one the index was made with, ``default`` for a new one.
        plain: what fills the base view, which searches without an instruction: an encoder, or ``none`` for ``encoder``.
            None takes what the index was made with; for a new one `minilm` where no encoder is given, else none.
        device: where loaded encoders run and vectors are searched: ``auto``, ``cpu``, ``cuda``.
        max_texts: texts that language models are asked about at most, as long as the index is open; None for any.
        max_tokens: tokens, about, that are sent to them at most.
        max_minutes: minutes, after the first call, that they are asked for at most.

    Nothing is read yet: a missing, damaged or newer index shows at the first use.
    """
    from retriever.index.asking.limits import ReadingLimits
    from retriever.workspace import Index

    limits = ReadingLimits(max_texts, max_tokens, max_minutes)
    return Index(Path(path), encoder=encoder, plain=plain, device=device, limits=limits)
