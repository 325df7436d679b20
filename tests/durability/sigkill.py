"""A random walk over an index whose every step is killed: a child runs a command, the parent sends SIGKILL at a random
time, opens what is left, judges it, and does the command again.

The walk goes on in the same folder, so damage that nobody noticed would pile up.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from disk import unflushed
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder
from interruptions import LostError, Recording, judge_there
from operations import INDEX, SMALL, Operation, legal_states, state_of
from replay import read_tree, write_tree

from retriever.core.errors import InputError
from retriever.core.types import Document, Encoded
from retriever.index.generations import IndexType
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

DOCUMENTS = 24
PAUSE = 0.005  # seconds of an encoder's call: without it the time to be killed in would be all bookkeeping
COMMANDS = {"index": 6, "sync": 2, "delete": 3, "compact": 2, "complete": 2, "search": 2, "save": 1, "drop": 1}
"""How often a command is drawn, out of the sum."""

Run = Callable[[Index], Any]


@dataclass
class Walk:
    """The outcome of the walk.

    Attributes:
        killed: runs that were killed on the way, by command.
        ended: runs that had ended when the signal came.
        lost: what was lost, and where.
    """

    killed: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    lost: list[str] = field(default_factory=list)


def walk(folder: Path, kills: int, seed: int = 0) -> Walk:
    """Walk until so many runs were killed before their end.

    Args:
        folder: is made; holds the index and what is needed beside it.
        kills: how many.
        seed: of commands, documents and times.
    """
    chance = random.Random(seed)
    found = Walk()
    lasts: dict[str, float] = {}
    root = folder / "walk"
    root.mkdir(parents=True)
    while sum(found.killed.values()) < kills:
        name, run, halfway = _draw(chance, exists=(root / INDEX).exists())
        recording = _expected(run, halfway, root, folder / "expected")
        began = time.perf_counter()
        killed = killed_in_child(partial(_run, run, root), chance.random() * lasts.get(name, 0.1))
        took = time.perf_counter() - began
        lasts[name] = max(lasts.get(name, 0.1), took) * 1.1 if killed else took  # nearer to how long it runs
        found.killed[name] = found.killed.get(name, 0) + killed
        found.ended += not killed
        try:
            with unflushed():
                judge_there(recording, root)
        except LostError as error:
            found.lost.append(f"run {found.ended + sum(found.killed.values())}, {name}: {error}")
    return found


def _draw(chance: random.Random, *, exists: bool) -> tuple[str, Run, Run]:
    """Draw a command, the first one indexes; and what it does before its last transaction, other than embedding."""
    name = chance.choices(list(COMMANDS), list(COMMANDS.values()))[0] if exists else "index"
    some = chance.sample(range(DOCUMENTS), chance.randint(1, 10))
    documents = [document_of(row, chance.randint(0, 2)) for row in some]
    instruction = chance.choice((MOOD, FAULT))
    runs: dict[str, Run] = {
        "index": lambda index: index.add(documents, instructions=[instruction], options=SMALL),
        "sync": lambda index: index.add(documents, options=IndexingOptions(sync=True, batch=4)),
        "delete": lambda index: index.delete([one.id for one in documents]),
        "compact": lambda index: index.upkeep.repair(IndexType()),
        "complete": lambda index: index.upkeep.complete([instruction], options=SMALL),
        "search": lambda index: index.search("hot kettle", instruction=instruction),
        "save": lambda index: _save(index, str(some[0])),
        "drop": lambda index: _drop(index, instruction),
    }
    halfway = {"sync": lambda index: index.add(documents, options=SMALL)}.get(name, lambda index: None)
    return name, runs[name], halfway


def document_of(row: int, version: int) -> Document:
    """Return a document of the walk, in one of its versions."""
    words = (ALL_WORDS[row], ALL_WORDS[-row], ALL_WORDS[(7 * row + version) % len(ALL_WORDS)])
    return Document(f"d{row:02}", " ".join(words), {"row": row, "version": version})


def _save(index: Index, name: str) -> None:
    """Save a clustering, unless the run that was killed has done so."""
    if name not in index._opened.store.clusterings.names() and len(index._opened.store.documents):
        index.clusterings.save(name, index.cluster(k=1))


def _drop(index: Index, instruction: str) -> None:
    with suppress(InputError):  # there is no such view
        index.upkeep.drop_views([instruction])


def _operation(run: Run, before: Callable[[Path], None], reads: int) -> Operation:
    def execute(root: Path, encoder: FakeEncoder) -> None:
        with Index(root / INDEX, encoder=encoder) as index:
            run(index)

    return Operation(before, execute, lambda root: state_of(root / INDEX), reads)


def _expected(run: Run, halfway: Run, root: Path, folder: Path) -> Recording:
    """Run a command on copies of the index, undisturbed and stopped, and return what a kill may leave."""
    tree = read_tree(root)

    def prepare(place: Path) -> None:
        write_tree(place, tree)

    def prepared(place: Path) -> Path:
        prepare(place)
        return place

    with unflushed():
        encoder = FakeEncoder()
        _operation(run, prepare, 0).run(prepared(folder / "whole"), encoder)
        operation = _operation(run, prepare, len(encoder.passes))
        legal = legal_states(operation, folder / "legal")
        _operation(halfway, prepare, 0).run(prepared(folder / "halfway"), FakeEncoder())
        legal.insert(0, operation.state(folder / "halfway"))
    shutil.rmtree(folder)
    return Recording(operation, tree, [], legal, legal[-1])


class SlowEncoder(FakeEncoder):
    """A `FakeEncoder` that takes a moment to read."""

    def encode_views(self, texts: Sequence[str], instructions: Sequence[str], **options: Any) -> list[Encoded]:
        time.sleep(PAUSE if options.get("words") else 0)
        return super().encode_views(texts, instructions, **options)


def _run(run: Run, root: Path) -> None:
    with Index(root / INDEX, encoder=SlowEncoder()) as index:
        run(index)


def killed_in_child(call: Callable[[], object], delay: float) -> bool:
    """Run something in a child and kill it after a while; return whether it was still at work."""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.write(tell, b"!")
            call()
        os._exit(0)
    os.close(tell)
    os.read(ready, 1)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(ready)
    return os.WIFSIGNALED(status)
