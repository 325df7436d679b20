import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from index_fakes import MOOD
from waiting import until
from worker_fakes import LOAD, LoggedEncoder
from worker_run import PIECE, corpus, run

from retriever.core.errors import EncoderError, IndexDamagedError, RetrieverError, UsageError
from retriever.core.types import Encoded
from retriever.index.indexing import IndexingOptions
from retriever.index.workers.embedder import Workers
from retriever.index.workers.spool import FOLDER, Finished, Spool
from retriever.store.views import View, ViewKey
from retriever.workspace import Index

ROWS = 45


@pytest.fixture
def make(tmp_path):
    """Write an encoder's settings, and return their path; what it reads is noted."""

    def settings(name="encoder", **more):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"log": str(tmp_path / f"{name}.log"), **more}))
        return path

    return settings


def read(encoder):
    """How often each text was read under each instruction."""
    log = Path(json.loads(encoder.read_text())["log"])
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(tuple(json.loads(line)[1:]) for line in lines)


def held(folder):
    """The contents of an index: documents, and vectors and words by text for every view."""
    with Index(folder, encoder=None) as index:
        store = index._opened.store
        documents = store.documents.get(list(store.documents.ids()))
        contents = store.documents.live_contents()
        texts = store.documents.texts(contents)
        views = {}
        for view in store.views.all():
            found = store.vectors.get(view.view_id, contents)
            rows = zip(found.content_ids.tolist(), found.embeddings, found.words, strict=True)
            views[view.key.instruction] = {texts[one]: (row.tobytes(), words) for one, row, words in rows}
        return documents, views


def start(index, encoder, workers=2, ray="", rows=ROWS):
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), str(folder.parents[1]), *sys.path])
    argv = [str(index), str(encoder), str(rows), str(workers), ray]
    return subprocess.Popen(
        [sys.executable, str(folder / "worker_run.py"), *argv], env={**os.environ, "PYTHONPATH": path}
    )


def processes(parent):
    """Every process below one, as (number, name)."""
    rows = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            named, _, rest = stat.read_text().rpartition(")")
            pid, _, name = named.partition(" (")
            rows.append((int(pid), int(rest.split()[1]), name))
    found, below = [], {parent}
    while below:
        here = [(pid, name) for pid, above, name in rows if above in below]
        found, below = found + here, {pid for pid, _ in here}
    return found


def has_ended(pid):
    """Whether a process has ended, be it that nobody has asked for its end yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_workers_store_what_this_process_does_and_read_nothing_twice(path, tmp_path, make):
    alone, together = make("alone"), make("together")
    expected = run(tmp_path / "alone", alone, ROWS)
    report = run(path, together, ROWS, workers=2)
    assert held(path) == held(tmp_path / "alone")
    assert set(read(together).values()) == {1}
    assert read(together) == read(alone)
    counted = ("read", "in_hand", "added", "embedded", "tokens", "skipped")
    assert [getattr(report, one) for one in counted] == [getattr(expected, one) for one in counted]
    assert not (path / FOLDER).exists()
    pids = {json.loads(line)[0] for line in (tmp_path / "together.log").read_text().splitlines()}
    assert os.getpid() not in pids


def test_a_text_that_ends_its_workers_is_put_aside_with_its_place_and_all_others_are_stored(path, make):
    encoder = make(kill="n13")
    report = run(path, encoder, 22, workers=2)
    assert (report.added, report.skipped, report.read) == (21, 1, 22)
    documents, views = held(path)
    assert "d0013" not in documents
    assert [len(view) for view in views.values()] == [21, 21]
    with Index(path, encoder=LoggedEncoder(encoder)) as index:
        (bad,) = index.status().quarantined
    assert (bad["file"], bad["line"], bad["id"]) == ("corpus.jsonl", 13, "d0013")
    assert "signal 9" in bad["reason"]
    again = make()  # the same encoder, mended
    assert run(path, again, 22, workers=1).added == 1


def test_a_text_that_fills_the_memory_is_put_aside_and_said_so(path, make):
    run(path, make(full="n3"), 5, workers=1)
    with Index(path, encoder=LoggedEncoder(make())) as index:
        (bad,) = index.status().quarantined
    assert "out of memory" in bad["reason"]


def test_a_stored_text_that_ends_its_workers_is_told_and_stays(path, make):
    run(path, make(), 8)
    with Index(path, encoder=LoggedEncoder(make(kill="n3"))) as index:
        options = IndexingOptions(workers=Workers(1, load=LOAD, piece=PIECE))
        index.upkeep.complete(["What broke?"], options=options)
        assert len(index._opened.store.documents) == 8
        assert index.views()[-1].coverage == 7 / 8
        run_id = index._opened.store.runs.last(1)[0].run_id
        assert [one.id for one in index._opened.store.runs.quarantined(run_id)] == ["d0003"]


def test_workers_that_are_killed_are_replaced_and_only_their_pieces_are_read_again(path, tmp_path, make):
    encoder, killed = make(seconds=0.01), 0
    kills = {20, 40, 70}

    def kill(report):
        nonlocal killed
        if report.tokens // 3 >= min(kills, default=10**6):
            kills.remove(min(kills))
            worker = next(pid for pid, name in processes(os.getpid()) if name.startswith("python"))
            os.kill(worker, signal.SIGKILL)
            killed += 1

    options = IndexingOptions(batch=20, workers=Workers(2, load=LOAD, piece=PIECE))
    with Index(path, encoder=LoggedEncoder(encoder)) as index:
        report = index.add(corpus(90), instructions=[MOOD], options=options, progress=kill)
    assert killed == 3
    assert (report.added, report.skipped) == (90, 0)
    run(tmp_path / "alone", make("alone"), 90)
    assert held(path) == held(tmp_path / "alone")
    assert sum(read(encoder).values()) - 2 * 90 <= killed * PIECE * 2


@pytest.mark.parametrize(("workers", "number"), [(None, 9), (1, 9), (3, 9), (None, 2)])
def test_a_run_that_was_killed_goes_on_with_other_workers_or_none(path, tmp_path, make, workers, number):
    encoder = make(seconds=0.1)
    process = start(path, encoder)
    until(lambda: sum(read(encoder).values()) >= 40)
    ours = processes(process.pid)
    assert ours
    process.send_signal(number)
    assert process.wait() != 0
    until(lambda: all(has_ended(pid) for pid, _ in ours))  # its workers end with it
    run(path, make(), ROWS, workers=workers)
    run(tmp_path / "alone", make("alone"), ROWS)
    assert held(path) == held(tmp_path / "alone")
    assert not (path / FOLDER).exists()
    assert sum(read(encoder).values()) - 2 * ROWS <= 2 * PIECE * 2


def test_what_a_spool_holds_is_not_read_again_without_workers(path, make):
    encoder = make()
    run(path, encoder, 5)
    with Index(path, encoder=LoggedEncoder(encoder)) as index:
        spool, instruction = Workers(load=LOAD).spool_of(path), "What broke?"
        view = index._opened.store.views.ensure(index._opened.sources.encoders.view_key(instruction))
        texts = [one.text for one in corpus(5)]
        encoded = index._opened.sources.encoders.question.encode_views(texts, [instruction], words=5)
        spool.folder.mkdir()
        spool.finish(spool.name(texts, [view.key]), Finished(encoded, 15))
        before = read(encoder)
        index.upkeep.complete([instruction])
        assert read(encoder) == before
        assert index.views()[-1].coverage == 1
        found = index._opened.store.vectors.get(view.view_id, index._opened.store.documents.live_contents())
        np.testing.assert_array_equal(found.embeddings, encoded[0].embeddings)
        assert found.words == encoded[0].words
    assert not spool.folder.exists()


def test_an_encoder_that_cannot_be_loaded_is_told_as_it_is_here(path, make):
    encoder = make()
    run(path, encoder, 3)
    with Index(path, encoder=LoggedEncoder(encoder)) as index:
        encoder.unlink()
        with pytest.raises(EncoderError) as caught:
            index.upkeep.complete(["What broke?"], options=IndexingOptions(workers=Workers(2, load=LOAD)))
    assert caught.value.message.startswith(f"The index was made by {encoder}, which cannot be loaded.")
    assert caught.value.hint == "Put it back."


def test_workers_that_end_while_they_load_end_the_run_and_put_nothing_aside(path, make):
    encoder = make()
    run(path, encoder, 3)
    with Index(path, encoder=LoggedEncoder(make(dies=True))) as index:
        with pytest.raises(RetrieverError, match=r"3 workers in a row ended before .*signal 9"):
            index.upkeep.complete(["What broke?"], options=IndexingOptions(workers=Workers(1, load=LOAD)))
        assert index._opened.store.runs.quarantined(index._opened.store.runs.last(1)[0].run_id) == []


def test_texts_are_not_put_aside_one_after_the_other(path, make):
    with pytest.raises(RetrieverError, match="10 texts in a row ended their workers"):
        with Index(path, encoder=LoggedEncoder(make(kill="n"))) as index:
            index.add(corpus(12), options=IndexingOptions(workers=Workers(2, load=LOAD, piece=1)))
    with Index(path, encoder=LoggedEncoder(make())) as index:
        assert len(index._opened.store.documents) == 0


def test_what_an_encoder_raises_reaches_the_caller_and_no_worker_is_left(path, make):
    encoder = make(fail="n7", log="/dev/null")
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):  # what an earlier test killed and nobody waited for
            pass
    with pytest.raises(RetrieverError, match=r"A worker met ValueError: cannot read '.* n7'"):
        run(path, encoder, 30, workers=2)
    with suppress(ChildProcessError):
        assert os.waitpid(-1, os.WNOHANG) == (0, 0)


KEY = ViewKey("f" * 64, "", "", None, None, "float32", 2)


def test_a_damaged_piece_is_no_piece(tmp_path):
    spool, view = Spool(tmp_path), View(1, KEY, "", "")
    done = Finished([Encoded(np.eye(2, dtype=np.float32), [["a"], []])], 4)
    spool.finish("x", done)
    found = spool.find("x", 2, [view.key])
    np.testing.assert_array_equal(found.encoded[0].embeddings, np.eye(2))
    assert (found.encoded[0].words, found.tokens) == ([["a"], []], 4)
    assert spool.find("x", 3, [view.key]) is None
    assert spool.find("x", 2, [view.key, view.key]) is None
    assert spool.find("y", 2, [view.key]) is None
    file = tmp_path / "x.piece"
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert spool.find("x", 2, [view.key]) is None
        file.write_bytes(whole[:place])
        assert spool.find("x", 2, [view.key]) is None
    assert file.stat().st_mode & 0o077 == 0


def test_the_name_of_a_piece_says_texts_and_views():
    spool = Spool(Path("x"))
    keys = [KEY, ViewKey("f" * 64, "why", "", 2, None, "float32", 2)]
    names = {spool.name(texts, some) for texts in (["a"], ["b"], ["a", "b"], ["b", "a"]) for some in (keys, keys[:1])}
    assert len(names) == 8


def test_a_spool_behind_a_link_and_no_workers_are_refused(path, tmp_path, make):
    run(path, make(), 2)
    (path / FOLDER).symlink_to(tmp_path)
    with pytest.raises(IndexDamagedError, match="a link"):
        run(path, make(), 3, workers=1)
    with pytest.raises(UsageError, match="0 workers"):
        Workers(0)
