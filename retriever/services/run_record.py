"""The record that a writing command leaves in its index: when it ran, with what, and how it ended."""

import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from retriever.core.types import JSON
from retriever.store.database import Store


@contextmanager
def recorded(store: Store, command: str) -> Iterator[int]:
    """Record the block as a run of a command; yields the run's id. The caller holds the writer's lock."""
    run_id = store.runs.start(command, versions())
    try:
        yield run_id
    except BaseException as error:
        store.runs.finish(run_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    store.runs.finish(run_id, "partial" if store.runs.quarantined(run_id) else "finished")


def versions() -> dict[str, JSON]:
    """Return what a run was made with."""
    packages: dict[str, Any] = {name: version(name) for name in ("retriever", "numpy")}
    loaded = [name for name in ("torch", "transformers", "faiss") if name in sys.modules]
    packages |= {name: getattr(sys.modules[name], "__version__", "") for name in loaded}
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {"python": platform.python_version(), **packages, "command": command}
