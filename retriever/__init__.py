"""Instruction-aware vector search: one corpus, many questions.

Importing this package loads neither torch nor faiss; `load_encoder` and `open_index` do when called. All other names
are loaded when they are first used.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from retriever.core.errors import (
        BusyError,
        ConsentError,
        EncoderError,
        EncoderMismatchError,
        EndpointError,
        FilterError,
        IndexDamagedError,
        IndexLockedError,
        IndexNotFoundError,
        InputError,
        OutputError,
        ReadingLimitError,
        RetrieverError,
        SchemaError,
        TrainingError,
        UsageError,
    )
    from retriever.core.protocols import Encoder
    from retriever.core.requests import SearchRequest
    from retriever.core.types import Document
    from retriever.corpus.readers import read_documents
    from retriever.workspace import Index

    __version__: str

__all__ = [
    "BusyError",
    "ConsentError",
    "Document",
    "Encoder",
    "EncoderError",
    "EncoderMismatchError",
    "EndpointError",
    "FilterError",
    "Index",
    "IndexDamagedError",
    "IndexLockedError",
    "IndexNotFoundError",
    "InputError",
    "OutputError",
    "ReadingLimitError",
    "RetrieverError",
    "SchemaError",
    "SearchRequest",
    "TrainingError",
    "UsageError",
    "__version__",
    "load_encoder",
    "open_index",
    "read_documents",
]

_MODULES = {
    "Document": "core.types",
    "Encoder": "core.protocols",
    "Index": "workspace",
    "SearchRequest": "core.requests",
    "read_documents": "corpus.readers",
}
"""Where a name is that is loaded on first use; all others are errors."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of several types
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from retriever.core.environment import own_version

        value: Any = own_version()
    else:
        value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'core.errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_encoder(
    name_or_path: str | Path = "default",
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
        UsageError: an argument is of another type.
        EncoderError: no such encoder, or its files are missing.
        CheckpointError: its files differ from their recorded hashes.
    """
    from retriever.core.arguments import require
    from retriever.encoders import catalog

    require(str, device=device, dtype=dtype)
    require(str | Path, name_or_path=name_or_path)
    require(str | None, pooling=pooling, template=template)
    require(int | None, steps=steps, look_ahead=look_ahead)

    options = {"pooling": pooling, "steps": steps, "look_ahead": look_ahead, "template": template}
    return catalog.load_encoder(str(name_or_path), device=device, dtype=dtype, **options)


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

    Raises:
        UsageError: an argument is of another type.
    """
    from retriever.core.arguments import require
    from retriever.index.asking.limits import ReadingLimits
    from retriever.workspace import Index

    require(Path, path=path)
    require(str, device=device)
    require(int | None, max_texts=max_texts, max_tokens=max_tokens)
    require(float | None, max_minutes=max_minutes)
    limits = ReadingLimits(max_texts, max_tokens, max_minutes)
    return Index(Path(path), encoder=encoder, plain=plain, device=device, limits=limits)
