"""The record that a writing command leaves in its index: when it ran, with what, and how it ended."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from retriever.core import environment
from retriever.core.types import JSON
from retriever.store.database import Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.runs import Run


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


def last_runs(store: Store, folder: Path, n: int) -> list[Run]:
    """Return an index's last n runs, newest first; one that can write no more is interrupted, whatever it recorded.

    A process that was killed, or met a full disk, leaves ``running`` behind; it has left the writer's lock too.
    """
    runs = store.runs.last(n)
    unfinished = [run.run_id for run in runs if run.status == "running"]
    if not unfinished:
        return runs
    gone = set(unfinished[1:] if WriterLock(folder / LOCK_NAME).is_held() else unfinished)  # one writer at a time
    return [replace(run, status="interrupted") if run.run_id in gone else run for run in runs]


def versions() -> dict[str, JSON]:
    """Say what a run was made with: versions, and the command line."""
    return {**environment.versions(), "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}
