import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from retriever.core.errors import IndexLockedError
from retriever.store import lock
from retriever.store.lock import WriterLock

HOLD = """
import sys, time
from pathlib import Path
from retriever.store.lock import WriterLock
with WriterLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index" / "writer.lock"


@pytest.fixture
def holder(path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_writer_is_told_who_writes(path, holder):
    with pytest.raises(IndexLockedError) as caught, WriterLock(path):
        pass
    who = WriterLock(path).holder()
    assert (who.pid, who.host) == (holder.pid, socket.gethostname())
    assert caught.value.message == (
        f"Process {holder.pid} on {who.host} is writing to {path.parent} since {who.started}: -c {path}"
    )
    assert f"kill {holder.pid}" in caught.value.hint


def test_whoever_asks_is_told_whether_it_is_held(path, holder):
    asking = WriterLock(path)
    assert asking.is_held()
    holder.kill()
    holder.wait()
    assert not asking.is_held()
    with WriterLock(path):  # the question has left nothing behind
        assert asking.is_held()
    assert not WriterLock(path.with_name("never")).is_held()
    assert not path.with_name("never").exists()


def test_asking_keeps_no_writer_out(path, monkeypatch):
    """A question holds the lock for a moment; a writer looks again."""
    monkeypatch.setattr(lock, "_PATIENCE", 20 * lock._PATIENCE)
    path.parent.mkdir()
    question = FileLock(path)
    question.acquire()
    monkeypatch.setattr(time, "sleep", lambda seconds: question.release())
    with WriterLock(path) as writer:
        assert writer.holder().pid == os.getpid()


def test_the_lock_of_a_killed_writer_is_taken_over(path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    stale = WriterLock(path)
    assert stale.holder().pid == holder.pid
    with stale:
        assert stale.holder().pid == os.getpid()


def test_a_second_lock_of_the_same_process_is_refused_too(path):
    with WriterLock(path), pytest.raises(IndexLockedError, match=f"Process {os.getpid()} "), WriterLock(path):
        pass


def test_leaving_frees_the_lock_even_after_an_error(path):
    with pytest.raises(KeyError), WriterLock(path):
        raise KeyError
    with WriterLock(path) as lock:
        assert lock.holder().pid == os.getpid()
    assert WriterLock(path).holder() is None


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"pid": 1}), '{"pid": "x"}', "\x00" * 50])
def test_an_unreadable_description_does_not_hurt(path, holder, text):
    path.with_name("writer.lock.json").write_text(text)
    with pytest.raises(IndexLockedError, match=r"Another process is writing to .*index\. Run the command again"):
        WriterLock(path).__enter__()


def test_a_description_that_cannot_be_deleted_keeps_nobody_out(path, monkeypatch):
    with monkeypatch.context() as patch, WriterLock(path) as lock:
        patch.setattr(type(path), "unlink", lambda *args, **options: (_ for _ in ()).throw(OSError("I/O error")))
        lock.__exit__(None, None, None)
        patch.undo()
        with WriterLock(path):
            pass
