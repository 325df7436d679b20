import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from index_fakes import ALL_WORDS, KEYWORDS, MOOD, FakeEncoder, RichEncoder, found

from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.store.database import DATABASE
from retriever.workspace import Index

CORPUS = [Document(f"d{row:02}", f"{word} {ALL_WORDS[-row]}", {"row": row}) for row, word in enumerate(ALL_WORDS[:20])]
SMALL = IndexingOptions(batch=4)
RUN_AND_STALL = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from index_fakes import MOOD, RichEncoder
from test_index_resume import CORPUS, SMALL
from retriever.workspace import Index
Index(Path(sys.argv[2]), encoder=RichEncoder(stall_at=3)).add(CORPUS, instructions=[MOOD], options=SMALL)
"""


@pytest.fixture
def answers():
    """What an index answers, all of it that a stopped run must not change."""

    def ask(index):
        words = ("kettle", "hate", "leaks toy")
        searches = [index.search(one, instruction=asked, k=50) for one in words for asked in ("", MOOD)]
        views = [(view.instruction, view.vectors, view.coverage, view.tail, view.factory) for view in index.views()]
        return [(one.path, one.view, list(one.hits)) for one in searches], views

    return ask


@pytest.fixture
def unbroken(tmp_path, answers):
    with Index(tmp_path / "unbroken", encoder=RichEncoder()) as index:
        index.add(CORPUS, instructions=[MOOD], options=SMALL)
        return answers(index)


def read_twice(*encoders):
    """What was read more than once, by any of the encoders."""
    counted = Counter(one for encoder in encoders for one in encoder.read)
    return [one for one, times in counted.items() if times > 1]


@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_run_whose_encoder_falls_over_goes_on_where_it_stopped(path, answers, unbroken, call):
    broken, healed = RichEncoder(fail_at=call), RichEncoder()
    with Index(path, encoder=broken) as index:
        with pytest.raises(RuntimeError, match="fell over"):
            index.add(CORPUS, instructions=[MOOD], options=SMALL)
        kept = 4 * (call - 1)
        assert len(index._opened.store.documents) == kept
        run = index.status().runs[0]
        assert (run["status"], run["statistics"].get("read", 0)) == ("failed", kept)
    with Index(path, encoder=healed) as index:
        report = index.add(CORPUS, instructions=[MOOD], options=SMALL)
        assert (report.added, report.unchanged) == (20 - kept, kept)
        assert (len(broken.read) + len(healed.read), read_twice(broken, healed)) == (40, [])
        assert answers(index) == unbroken


def test_a_view_half_filled_is_filled_on(path, answers, unbroken):
    first, broken, healed = RichEncoder(), RichEncoder(fail_at=3), RichEncoder()
    with Index(path, encoder=first) as index:
        index.add(CORPUS, options=SMALL)
    with Index(path, encoder=broken) as index:
        with pytest.raises(RuntimeError, match="fell over"):
            index.add([], instructions=[MOOD], options=SMALL)
        assert [view.coverage for view in index.views()] == [1.0, 0.4]
        assert index.status().runs[0]["statistics"]["embedded"] == {"2": 8}  # the run tells of its batches
    with Index(path, encoder=healed) as index:
        index.add([], instructions=[MOOD], options=SMALL)
        assert read_twice(first, broken, healed) == []
        assert answers(index) == unbroken


def test_what_was_stored_before_a_fall_can_be_searched(path):
    with Index(path, encoder=FakeEncoder(fail_at=3)) as index, pytest.raises(RuntimeError):
        index.add(CORPUS, options=SMALL)
    with Index(path, encoder=FakeEncoder()) as index:
        (view,) = index.views()
        assert (view.generation, view.tail, view.vectors) == (None, 8, 8)
        first = CORPUS[0]
        assert found(index.search(first.text, mode="dense", k=1)) == [(first.id, 1)]
        assert len(index.search("kettle", mode="dense", k=50).hits) == 8


def test_a_stopped_sync_deletes_nothing(path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(CORPUS, options=SMALL)
    with Index(path, encoder=FakeEncoder(fail_at=1)) as index:
        with pytest.raises(RuntimeError):
            index.add([CORPUS[0], Document("new", "kettle lamp toy")], options=IndexingOptions(sync=True, batch=4))
        assert list(index._opened.store.documents.ids()) == [document.id for document in CORPUS]


def test_ctrl_c_is_recorded_and_frees_the_lock(path):
    with Index(path, encoder=FakeEncoder(fail_at=2, error=KeyboardInterrupt())) as index:
        with pytest.raises(KeyboardInterrupt):
            index.add(CORPUS, options=SMALL)
        run = index.status().runs[0]
        assert (run["status"], run["statistics"]["read"]) == ("interrupted", 4)
        assert run["finished"] is not None
        assert index.delete(["d00"]) == ["d00"]


def count_vectors(path):
    try:
        connection = sqlite3.connect(f"file:{path / DATABASE}?mode=ro", uri=True)
    except sqlite3.OperationalError:
        return 0
    try:
        return connection.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]
    except sqlite3.OperationalError:  # not made yet
        return 0
    finally:
        connection.close()


def test_a_killed_process_loses_no_whole_batch(path, answers, unbroken):
    command = [sys.executable, "-c", RUN_AND_STALL, str(Path(__file__).parent), str(path)]
    process = subprocess.Popen(command)
    try:
        patience = time.monotonic() + 180
        while count_vectors(path) < 16:  # two batches in two views
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < patience
            time.sleep(0.01)
        process.kill()
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL

    encoder = RichEncoder()
    with Index(path, encoder=encoder) as index:
        kept = len(index._opened.store.documents)
        assert kept == 8
        assert [view.vectors for view in index.views()] == [kept, kept]
        run = index.status().runs[0]
        assert (run["status"], run["statistics"]["read"]) == ("interrupted", kept)
        report = index.add(CORPUS, instructions=[MOOD], options=SMALL)
        assert (report.added, report.unchanged) == (20 - kept, kept)
        assert sorted(encoder.read) == sorted(
            (document.text, asked) for document in CORPUS[kept:] for asked in ("", MOOD)
        )
        assert answers(index) == unbroken
        assert json.dumps(index.status().to_json())


def test_a_generation_that_was_written_but_never_named_is_cleared_away(path, monkeypatch):
    from retriever.store.generations import Generations

    def die(*args):
        raise KeyboardInterrupt

    with Index(path, encoder=FakeEncoder()) as index:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Generations, "activate", die)
            index.add(CORPUS, options=SMALL)
        (orphan,) = path.rglob("*.faiss")
        assert index.views()[0].generation is None
        assert len(index.search("kettle", mode="dense", k=50).hits) == 20
        index.add(CORPUS, options=SMALL)
        (named,) = path.rglob("*.faiss")
        assert named != orphan
        assert index.views()[0].tail == 0


def test_the_corpus_used_here_tells_the_views_apart():
    held = [set(document.text.split()) for document in CORPUS]
    assert all(any(words & set(keywords) for words in held) for keywords in KEYWORDS.values())
    assert len({document.text for document in CORPUS}) == 20
