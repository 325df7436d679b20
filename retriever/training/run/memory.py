"""How much memory a training takes, worked out before it begins, and batches that fit into what is free.

That is for the processor. Elsewhere a device without memory is an error of its own, and nothing is ended.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from retriever.core.errors import TrainingError
from retriever.training.config import FinetuneConfig
from retriever.training.objectives.base import Measured
from retriever.training.objectives.reading import PIECE_TOKENS
from retriever.training.rows import TrainingRow
from retriever.training.run.bases import Base

MARGIN = 1.3
"""Factor on the memory that is worked out: gradients on their way back, and copies in other number formats."""

LIBRARIES = 700_000_000
"""Bytes of kernels that oneDNN makes for every new length, and of memory freed in pieces: on the example rows a process
grows by 0.6 GB from the first step to the twelfth, each less than the one before, and by 0.3 GB with 32 kernels."""

_CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Fit:
    """Settings whose batches fit into free memory, and a sentence on what they take; empty where that is not known."""

    config: FinetuneConfig
    sentence: str = ""


def fit(base: Base, config: FinetuneConfig, rows: Sequence[TrainingRow]) -> Fit:
    """Work out what training on rows takes, and lower ``held_tokens`` where less memory is free.

    That is known of `Measured` objectives over models that are read by code of our own.

    Raises:
        TrainingError: one piece of a batch at a time would not fit either.
    """
    objective = config.method.make_objective(base.learner, rows, config.objective, config.batch)
    footprint = base.learner.adapted.footprint
    if base.place[0].type != "cpu" or footprint is None or not isinstance(objective, Measured):
        return Fit(config)
    read = [objective.lengths(batch) for batch in objective.batches(0)]
    if not all(read):
        return Fit(config)
    batches = [(sum(lengths), footprint.kept(lengths)) for lengths in read]  # tokens, and bytes kept of them
    longest = max(map(max, read))
    piece = footprint.kept([longest] * max(1, PIECE_TOKENS // longest))
    used, free = psutil.Process().memory_info().rss, free_memory()
    beyond = LIBRARIES + MARGIN * footprint.fixed
    room = (free - beyond) / MARGIN
    if piece > room:
        raise TrainingError(
            f"Training takes {_size(beyond + MARGIN * piece)} of memory beside the {_size(used)} in use, "
            f"and {_size(free)} are free.",
            hint=f"End other programs, or cut texts, the longest of which is read as {longest} tokens: max_text_tokens "
            "in [data] of --config.",
        )
    wanted = config.batch.held_tokens
    held = min([wanted, *(tokens - 1 for tokens, size in batches if size > room)])
    most = max(size if tokens <= held else piece for tokens, size in batches)
    sentence = (
        f"Training takes about {_size(used + beyond + MARGIN * most)} of memory at most; {_size(used)} are "
        f"in use and {_size(free)} free."
    )
    if held < wanted:
        sentence += f" Batches of more than {held} tokens are read in pieces, which takes longer."
    return Fit(replace(config, batch=replace(config.batch, held_tokens=held)), sentence)


def free_memory() -> int:
    """Return the bytes that this process can still take, within the limit of its container."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no container of this kind, or "max", which is no limit
        pages = dict(line.split() for line in (_CONTAINER / "memory.stat").read_text().splitlines())
        limit, taken = (int((_CONTAINER / f"memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, limit - taken + int(pages["inactive_file"]))
    return free


def give_back() -> None:
    """Give freed memory back to the system, where the C library keeps it for this process (glibc)."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB"
