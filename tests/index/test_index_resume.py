import sqlite3
import threading
from collections import Counter
from itertools import islice

import pytest
from index_fakes import ALL_WORDS, DIM, MOOD, FakeEncoder, RichEncoder, documents, found

from retriever.core.errors import EncoderError
from retriever.core.types import Document
from retriever.index.embedder import LocalEmbedder
from retriever.index.indexing import IndexingOptions
from retriever.store.database import DATABASE
from retriever.workspace import Index

CORPUS = [Document(f"d{row:02}", f"{word} {ALL_WORDS[-row]}", {"row": row}) for row, word in enumerate(ALL_WORDS[:20])]
SMALL = IndexingOptions(batch=4)


@pytest.fixture
def answers():
    """All answers of an index that a stopped run must not change."""

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
    """The texts that were read more than once, by any of the encoders."""
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


# Batches in flight.


PAIRS = IndexingOptions(batch=2)
NINE = [Document(f"d{row:02}", f"{word} {ALL_WORDS[-row]}") for row, word in enumerate(ALL_WORDS[:9])]


class Backwards:
    """Holds three batches at once and gives the last one back first."""

    def __init__(self, on_tokens):
        self._local = LocalEmbedder(lambda tokens: None)

    def embed(self, jobs):
        jobs = iter(jobs)
        while held := list(islice(jobs, 3)):
            yield from reversed(list(self._local.embed(held)))


class Awaited(FakeEncoder):
    """Lets nobody write to a database between its first and its second reading of documents."""

    def __init__(self, database):
        super().__init__()
        self._other = None
        self._database = database

    def _read(self, *call):
        if self._other is None:
            self._other = sqlite3.connect(self._database, isolation_level=None)
            self._other.execute("BEGIN IMMEDIATE")
        elif self._other.in_transaction:
            self._other.rollback()
        super()._read(*call)


class Damaged(FakeEncoder):
    """Has no number for a word."""

    def _row(self, text, keywords):
        return [float("nan")] * DIM if "rug" in text else super()._row(text, keywords)


@pytest.fixture
def threads():
    """Whoever leaves a thread behind is found out."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before  # others may have ended meanwhile


def state(index):
    """The contents of an index, whatever the order they were stored in."""
    texts = index._opened.store.documents.get(list(index._opened.store.documents.ids()))
    searches = [index.search(one.text, instruction=asked, k=50) for one in texts.values() for asked in ("", MOOD)]
    views = [(view.instruction, view.vectors, view.coverage) for view in index.views()]
    return texts, views, [(one.path, dict(found(one))) for one in searches]


def test_the_next_batch_is_embedded_while_the_last_one_is_stored(path, threads):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add([])
    with Index(path, encoder=Awaited(path / DATABASE)) as index:
        # A writer that waited for its transaction before it went on would wait for ever.
        assert index.add(documents("toy", "lamp", "rug"), options=PAIRS).added == 3


def test_batches_come_back_in_any_order_and_several_are_in_flight(tmp_path, threads, index, encoder):
    repeated = [*NINE, *(Document(f"again {one.id}", one.text) for one in NINE)]
    with Index(tmp_path / "plain", encoder=FakeEncoder()) as plain:
        plain.add(repeated, instructions=[MOOD], options=PAIRS)
        expected = state(plain)
    options = IndexingOptions(batch=2, embedder=Backwards)
    report = index.add(repeated, instructions=[MOOD], options=options)
    assert (report.added, report.read, report.in_hand) == (18, 18, 18)
    assert report.embedded == {1: 9, 2: 9}
    assert len(encoder.read) == len(set(encoder.read)) == 18
    assert state(index) == expected


def test_a_text_in_flight_is_not_embedded_again_by_the_batch_that_is_stored_first(index, encoder):
    texts = ["toy", "lamp", "toy", "rug", "toy", "mug", "toy", "pan"]
    index.add(documents(*texts), options=IndexingOptions(batch=2, embedder=Backwards))
    assert sorted(encoder.read) == sorted((text, "") for text in set(texts))
    assert index.views()[0].coverage == 1.0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError("no more rows")])
def test_an_error_of_the_rows_reaches_the_caller_and_what_is_embedded_is_stored(threads, error, index):
    def rows():
        yield from NINE[:4]
        raise error

    with pytest.raises(type(error)) as caught:
        index.add(rows(), options=PAIRS)
    assert caught.value is error
    assert len(index._opened.store.documents) == 4


def test_an_error_of_the_store_reaches_the_caller_and_the_batches_before_it_are_stored(path, threads):
    with Index(path, encoder=Damaged()) as index:
        with pytest.raises(EncoderError, match="NaN"):
            index.add(documents("toy", "lamp", "rug", "mug", "pan", "book"), options=PAIRS)
        assert list(index._opened.store.documents.ids()) == ["a", "b"]
        assert index.status().runs[0]["status"] == "failed"
        assert index.status().runs[0]["statistics"]["read"] == 2
        assert index.add(documents("toy", "lamp")).unchanged == 2


def test_rows_are_read_and_progress_is_told_in_the_callers_thread(index):
    seen = set()

    def rows():
        for document in NINE:
            seen.add(threading.current_thread())
            yield document

    index.add(rows(), options=PAIRS, progress=lambda report: seen.add(threading.current_thread()))
    assert seen == {threading.current_thread()}


def test_no_text_is_tokenised_to_be_told_that_it_is_there(path):
    counted = []

    class Counting(RichEncoder):
        def count_tokens(self, texts):
            counted.extend(texts)
            return super().count_tokens(texts)

    with Index(path, encoder=Counting()) as index:
        index.add(documents("toy", "lamp", "toy"))
        assert counted == ["toy", "lamp"]
        counted.clear()
        index.add(documents("toy", "lamp", "rug"), instructions=[], options=IndexingOptions(sync=True))
        assert counted == ["rug"]
        counted.clear()
        index.add(documents("toy", "mug"), options=IndexingOptions(on_long="skip"))
        assert counted == ["toy", "mug"]
