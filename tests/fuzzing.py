"""Tools of the fuzzing tests: damaged copies of good files, hostile JSON, and child processes with limits."""

import os
import random
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

MIB = 1 << 20
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
"""Whether tests run at full size: for hours instead of minutes."""


def damaged(data: bytes, seed: int) -> bytes:
    """Return a copy with one to four changes: bytes replaced, removed, doubled or put in, or the end cut off."""
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        length = chance.choice((1, 1, 4, 8, 64))
        new = chance.choice(
            (chance.randbytes(length), b"\xff" * length, bytes(length), (1 << 31).to_bytes(8, "little"))
        )
        match chance.randrange(5):
            case 0 | 1:
                changed[at : at + len(new)] = new
            case 2:
                changed[at:at] = new
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + length]
        if chance.random() < 0.05:
            del changed[at:]
    return bytes(changed)


def damages(data: bytes) -> st.SearchStrategy[bytes]:
    """Damaged copies of a file."""
    return st.integers(0, 1 << 32).map(lambda seed: damaged(data, seed))


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["\0", "\ud800", "é", "x" * 5000, 10**400, 1e308, -(1 << 70), ""]),
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
"""Values that `json.dumps` writes, among them such as JSON or SQLite cannot hold."""

HOSTILE_JSON = st.sampled_from(
    [b"[" * 60_000, b'{"a":' * 60_000, b"1" * 6000, b"1e999", b"NaN", b"-", b'"\\ud800"', b'"\xff"', b"", b"{}{}"]
)
"""Texts that break parsers."""


def limited(function: Callable[..., T], *arguments: object, memory: int, seconds: int) -> T:
    """Return what a function of a module returns in a child process that may take so much more memory and time.

    Raises:
        BrokenProcessPool: a signal ended the child: a crash, or more processor time than it was given.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_with_limits, function, arguments, memory, seconds).result()


def _with_limits(function: Callable[..., T], arguments: tuple[object, ...], memory: int, seconds: int) -> T:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + memory, held + memory))
    until = int(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (until, until))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return function(*arguments)
