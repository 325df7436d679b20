"""Kill a process that reads through a server again and again, and count what was asked twice, for `ask`.

The encoders of the index are those of the tests (tests/index/index_fakes.py): only answers matter here. A process dies
by SIGKILL after it has made a few calls more, drawn anew each time; then a new one goes on.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ask_data import Material
from ask_readers import asked_of, on_the_wire, replaying
from ask_search import read_all
from index_fakes import FakeEncoder
from replay_server import Model

from retriever.core.types import Document
from retriever.workspace import Index

QUESTIONS = 3
SECONDS = 0.03
"""An answer of the server takes so long."""

MOST_CALLS = 12
"""A process is killed after one to so many calls."""

PATIENCE = 300.0


@dataclass
class Tally:
    """The counts over the kills.

    Attributes:
        kills: processes that died on the way.
        asked: texts that were sent, a text under each question.
        again_though_stored: texts that were sent again although their answer was stored.
        again: texts that were sent again, their answer having been under way when the process died.
        replied: calls by kill whose reply was sent before it, and of which a text was not stored.
        open: calls by kill that waited for their reply.
    """

    kills: int = 0
    asked: int = 0
    again_though_stored: int = 0
    again: int = 0
    replied: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)


def kills(material: Material, folder: Path, count: int = 30, seed: int = 0) -> dict[str, Any]:
    """Read texts under three questions in processes that are killed, and in a last one that is not.

    Args:
        material: the corpus.
        folder: holds the index.
        count: how many kills.
        seed: of how many calls each process may make.

    Raises:
        RuntimeError: a process ended by itself before its end, with an error.
    """
    path, chance, tally = folder / "killed", random.Random(seed), Tally()
    questions = [question.question for question in material.questions[:QUESTIONS]]
    with _opened(path) as index:
        index.add([Document(text.id, text.text) for text in material.texts])
    replied: list[Mapping[str, Any]] = []

    def replying(made: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        replied.append(request)
        return made

    model = replaying(material.answers())
    model.seconds, model.always = SECONDS, replying
    texts = {text.id: text.text for text in material.texts}
    known: set[tuple[str, str]] = set()
    with on_the_wire(model) as reader:
        for number in range(count + 1):
            before, sure = len(model.requests), known
            wanted = chance.randint(1, MOST_CALLS) if number < count else None
            sent = _run([str(path), reader, *questions], model, wanted, replied)
            if wanted is not None and sent is None:
                break  # everything was read
            requests = list(model.requests[before:])
            known = _stored(path, questions, texts)
            pairs = [pair for request in requests for pair in asked_of(request) if pair[1] in questions]
            tally.asked += len(pairs)
            tally.again_though_stored += sum(pair in sure for pair in pairs)
            if sent is not None:
                lost = [request for request in requests if not known.issuperset(_of(request, questions))]
                tally.kills += 1
                tally.again += len({pair for request in lost for pair in _of(request, questions)} - known)
                tally.replied.append(sum(id(request) in sent for request in lost))
                tally.open.append(sum(id(request) not in sent for request in lost))
    whole = {(text, question) for text in texts.values() for question in questions}
    return {
        "kills": tally.kills,
        "texts": len(whole),
        "unanswered": len(whole - known),
        "sent": tally.asked,
        "sent_again_though_stored": tally.again_though_stored,
        "sent_again_since_under_way": tally.again,
        "calls_replied_and_not_stored": _spread(tally.replied),
        "calls_under_way": _spread(tally.open),
    }


def _spread(counts: Sequence[int]) -> dict[str, float]:
    return {"most": max(counts, default=0), "mean": round(sum(counts) / max(1, len(counts)), 2)}


def _of(request: Mapping[str, Any], questions: Sequence[str]) -> set[tuple[str, str]]:
    return {pair for pair in asked_of(request) if pair[1] in questions}


def _opened(path: Path) -> Index:
    return Index(path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"))


def _run(
    arguments: Sequence[str], model: Model, wanted: int | None, replied: Sequence[Mapping[str, Any]]
) -> set[int] | None:
    """Read in a process, and kill it after so many calls more; None lets it end.

    Returns:
        The `id` of the requests whose reply was sent before the kill; None where the process ended by itself.
    """
    before, began, sent = len(model.requests), time.monotonic(), None
    paths = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    )
    while process.poll() is None and time.monotonic() - began < PATIENCE:
        if wanted is not None and len(model.requests) - before >= wanted:
            time.sleep(SECONDS * random.random())
            sent = {id(reply) for reply in replied}
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    _, said = process.communicate(timeout=PATIENCE)
    while model.in_flight:
        time.sleep(SECONDS)
    if process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(said.decode())
    return sent if process.returncode else None


def _stored(path: Path, questions: Sequence[str], texts: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the texts and questions whose answer an index holds."""
    with _opened(path) as index:
        return {(texts[id], question) for question in questions for id in index.teaching.answers(question)}


if __name__ == "__main__":
    _path, _reader, *_questions = sys.argv[1:]
    with _opened(Path(_path)) as _index:
        read_all(_index, _questions, _reader)
