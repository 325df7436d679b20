"""Embedding on a Ray of this machine: one Ray a test, since each run starts and ends its own."""

import os
import re
import signal
import subprocess
from collections import Counter

import pytest
from test_index_workers import has_ended, held, make, processes, read, start, until
from worker_run import PIECE, run

from retriever.core.errors import RetrieverError
from retriever.index.workers.embedder import Workers
from retriever.index.workers.spool import FOLDER

pytest.importorskip("ray", reason="ray is not installed")
__all__ = ["make"]
ROWS = 45
OWNER = re.compile(r"pid=(\d+)")


def listening(parent):
    """Addresses that processes below one listen on."""
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    ours = {pid for pid, _ in processes(parent)}
    return [line.split()[3] for line in listed.splitlines() if ours & {int(pid) for pid in OWNER.findall(line)}]


def test_ray_stores_what_this_process_does_listens_on_loopback_alone_and_ends(path, tmp_path, make):
    alone, together = make("alone"), make("together", seconds=0.1)
    run(tmp_path / "alone", alone, ROWS)
    process = start(path, together, ray="local")
    until(lambda: len(read(together)) > PIECE)
    addresses = listening(process.pid)
    assert addresses
    assert {one.rpartition(":")[0] for one in addresses} <= {"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"}
    ours = processes(process.pid)
    actor = next(pid for pid, name in ours if name.startswith("ray::Worker"))
    os.kill(actor, signal.SIGKILL)
    assert process.wait(240) == 0
    assert held(path) == held(tmp_path / "alone")
    assert sum(read(together).values()) - 2 * ROWS <= 2 * PIECE * 2
    assert not (path / FOLDER).exists()
    until(lambda: all(has_ended(pid) for pid, _ in ours))


@pytest.mark.parametrize("victim", ["raylet", "driver"])
def test_whatever_is_killed_the_run_goes_on_without_ray(path, tmp_path, make, victim):
    encoder = make(seconds=0.1)
    process = start(path, encoder, ray="local")
    until(lambda: sum(read(encoder).values()) >= 40)
    ours = processes(process.pid)
    pid = process.pid if victim == "driver" else next(pid for pid, name in ours if name == victim)
    os.kill(pid, signal.SIGKILL)
    assert process.wait(240) != 0 or sum(read(encoder).values()) >= 2 * ROWS  # all was read before it was noticed
    until(lambda: all(has_ended(one) for one, _ in ours))
    before = read(encoder)
    run(path, make(), ROWS)
    run(tmp_path / "alone", make("alone"), ROWS)
    assert held(path) == held(tmp_path / "alone")
    assert sum((read(encoder) - Counter(dict.fromkeys(before, 1))).values()) - (2 * ROWS - len(before)) <= 8 * PIECE


def test_a_cluster_that_is_not_there_is_told(path, make):
    with pytest.raises(RetrieverError, match=r"Ray cannot be reached at 127\.0\.0\.1:1: .*refused"):
        run(path, make(), 3, workers=1, ray="127.0.0.1:1")


def test_without_the_package_the_line_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr("retriever.index.workers.embedder.find_spec", lambda name: None)
    with pytest.raises(RetrieverError, match=r"pip install '\.\[ray\]'"):
        Workers(pool="ray", address="local")
