import shutil
import sqlite3
import threading

import numpy as np
import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, gives_each

from retriever.core.errors import EncoderError
from retriever.core.types import Document
from retriever.index import reading_on as drawing
from retriever.index.opened import opened
from retriever.index.reading_on import Turn
from retriever.serving.foreground import Foreground
from retriever.serving.pools import EncoderPool, IndexFolder
from retriever.serving.reading_on import IDLE_SECONDS, LOOK_SECONDS, RETRY_SECONDS, ReadingOn
from retriever.store.database import DATABASE
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.workspace import Index

WAIT = 120  # seconds; a busy machine
TEXTS = [f"a {product} {mood}" for product in KEYWORDS[PRODUCT] for mood in KEYWORDS[MOOD]]  # 256, some 10 characters


class Times:
    """The clock, the processor's time and the day, which pass where a test says so, and some with every pass."""

    def __init__(self):
        self.now, self.processor, self.day = 0.0, 0.0, "2026-11-27"
        self.quiet = True

    def takes(self, seconds):
        self.now += seconds
        self.processor += seconds


class TimedEncoder(FakeEncoder):
    """A second for ten texts, whether by the clock or of the processor; it may wait in a pass until it is let go on."""

    def __init__(self, times, name="question"):
        super().__init__(name)
        self.times = times
        self.began, self.go = threading.Event(), threading.Event()
        self.go.set()

    def _read(self, texts, instructions):
        self.began.set()
        assert self.go.wait(WAIT)
        super()._read(texts, instructions)
        self.times.takes(len(texts) / 10)


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def encoder(times):
    return TimedEncoder(times)


@pytest.fixture
def make(indexes, encoder):
    """Make an index under some questions of which five texts are read, the last one last, and return its folder."""
    used = iter(range(10, 60))

    def index(name="reviews", questions=(MOOD,), texts=TEXTS):
        with Index(indexes / name, encoder=encoder, plain=FakeEncoder("plain")) as made:
            made.add(Document(f"d{row:03}", text) for row, text in enumerate(texts))
            for question in questions:
                made.upkeep.complete([question], ids=[f"d{row:03}" for row in range(5)])
        with sqlite3.connect(indexes / name / DATABASE) as raw:
            for question in questions:
                when = f"2026-11-01T12:{next(used)}:00.000+00:00"
                raw.execute("UPDATE views SET last_used = ? WHERE instruction = ?", (when, question))
        raw.close()
        encoder.forget()
        encoder.began.clear()
        return indexes / name

    return index


@pytest.fixture
def read_on(indexes, encoder, times):
    """Read on with the indexes of the folder."""
    made = []

    def reading(minutes=1.0, quiet=lambda: times.quiet):
        pool = EncoderPool(gives_each(encoder, FakeEncoder("plain")))
        clocks = {"now": lambda: times.now, "processor": lambda: times.processor, "day": lambda: times.day}
        made.append(ReadingOn(IndexFolder(indexes), pool, quiet, minutes, **clocks))
        return made[-1]

    yield reading
    encoder.go.set()
    for each in made:
        each.close(WAIT)


def waiting(reading, folder):
    """The readings on of an index: question, texts that are read, in the order of their turns."""
    with Index(folder) as index:
        return [(each.instruction, each.read) for each in reading.of(index).questions]


def to_end(reading):
    """Let it read until it finds nothing more, and return the passes that it made."""
    steps = 0
    while not reading.step():
        steps += 1
        assert steps < 10_000
    return steps


def test_what_a_question_lacks_is_read_in_passes_of_half_a_second(make, read_on, encoder):
    folder, reading = make(), read_on()
    assert waiting(reading, folder) == [(MOOD, 5)]
    assert to_end(reading) == len(encoder.passes)
    assert sorted(text for text, _ in encoder.read) == sorted(TEXTS[5:])  # each once
    assert max(len(each.texts) for each in encoder.passes[3:]) <= 7  # five are read in half a second
    assert waiting(reading, folder) == []
    with Index(folder, encoder=encoder, plain=FakeEncoder("plain")) as index:
        found = index.search("a kettle sad", instruction=MOOD, mode="dense", k=1)
        assert (found.path, index.views()[1].coverage, index.views()[1].lazy) == ("complete", 1.0, True)
        vectors = index._opened.store.vectors.get(index.views()[1].view, [100])
        assert np.array_equal(vectors.embeddings, encoder.vectors([TEXTS[99]], MOOD))
        assert index.upkeep.verify(deep=True).whole
    assert reading.step() == IDLE_SECONDS


def test_a_request_ends_it_within_the_pass_under_way_and_it_goes_on_afterwards(make, read_on, encoder, monkeypatch):
    monkeypatch.setattr("retriever.serving.foreground.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("retriever.serving.reading_on.LOOK_SECONDS", 0.0)
    looked, foreground = threading.Semaphore(0), Foreground()

    def quiet():
        looked.release()
        return foreground.rests

    make()
    encoder.go.clear()
    reading = read_on(quiet=quiet)
    reading.start()
    assert encoder.began.wait(WAIT)
    with foreground.waited_for():  # a request comes in the midst of the first pass
        while looked.acquire(blocking=False):
            pass
        encoder.go.set()
        for _ in range(5):  # it looks again and again, and reads nothing
            assert looked.acquire(timeout=WAIT)
        assert len(encoder.passes) == 1
        encoder.began.clear()
    assert encoder.began.wait(WAIT)
    reading.close(WAIT)
    assert len(encoder.passes) > 1


def test_what_was_asked_last_comes_first_also_after_a_request(make, read_on, times, encoder):
    folder = make(questions=(MOOD, FAULT))
    reading = read_on()
    assert [question for question, _ in waiting(reading, folder)] == [FAULT, MOOD]
    reading.step()
    reading.step()
    assert {question for _, question in encoder.read} == {FAULT}
    times.quiet = False
    assert reading.step() == LOOK_SECONDS
    with Index(folder, encoder=encoder, plain=FakeEncoder("plain")) as index:
        index._opened.views.note_use([view.view for view in index.views() if view.instruction == MOOD])
    encoder.forget()
    times.quiet = True
    reading.step()
    assert {question for _, question in encoder.read} == {MOOD}


def test_the_question_used_last_of_all_indexes_comes_first(make, read_on, encoder):
    make("a", questions=(FAULT,))
    make("b", questions=(MOOD,))
    reading = read_on()
    reading.step()
    assert {question for _, question in encoder.read} == {MOOD}
    to_end(reading)
    assert {question for _, question in encoder.read} == {MOOD, FAULT}


def test_another_process_goes_on_where_one_ended(make, read_on, encoder):
    folder = make()
    with read_on() as first:
        for _ in range(3):
            first.step()
    done = [text for text, _ in encoder.read]
    second = read_on()
    assert waiting(second, folder) == [(MOOD, 5 + len(done))]
    to_end(second)
    assert sorted(text for text, _ in encoder.read) == sorted(TEXTS[5:])


def test_the_minutes_of_a_day_end_it_also_over_a_restart_and_the_next_day_goes_on(make, read_on, times, encoder):
    folder = make()
    first = read_on(minutes=0.1)  # six seconds: sixty texts
    to_end(first)
    assert 60 <= len(encoder.read) < 70
    with Index(folder) as index:
        left = first.of(index)
        assert (left.minutes_left, [each.instruction for each in left.questions]) == (0.0, [MOOD])
    read = len(encoder.read)
    second = read_on(minutes=0.1)
    assert second.step() == IDLE_SECONDS
    assert len(encoder.read) == read
    times.day = "2026-11-28"
    to_end(second)
    assert 60 <= len(encoder.read) - read < 70


def test_no_minutes_are_none(make, read_on, encoder):
    folder, reading = make(), read_on(minutes=0)
    reading.start()
    reading.close(WAIT)
    with Index(folder) as index:
        assert reading.of(index) is None
    assert encoder.passes == []


def test_no_language_model_is_asked_though_it_may_be(make, read_on, encoder, monkeypatch):
    reader = loads(monkeypatch, FakeReader(KEYWORDS[MOOD]))
    folder = make(questions=(MOOD, FAULT))
    with Index(folder, encoder=encoder, plain=FakeEncoder("plain")) as index:
        index.teaching.read_by(FAULT, NAME)
        index.search("a kettle", instruction=FAULT)
    asked = len(reader.asked)
    assert asked
    reading = read_on()
    to_end(reading)
    assert len(reader.asked) == asked
    assert {question for _, question in encoder.read} == {MOOD}  # and nothing in the place of the answers


def test_a_view_that_is_dropped_stays_dropped(make, read_on, encoder):
    folder, reading = make(), read_on()
    encoder.go.clear()
    reading.start()
    assert encoder.began.wait(WAIT)  # in the midst of a pass
    with Index(folder) as index:
        index.upkeep.drop_views([MOOD])
        encoder.go.set()
        reading.close(WAIT)
        assert [view.instruction for view in index.views()] == [""]
    assert read_on().step() == IDLE_SECONDS


def test_another_process_may_write_in_the_midst_of_a_pass_and_is_left_alone_while_it_does(make, read_on, encoder):
    folder, reading = make(), read_on()
    encoder.go.clear()
    reading.start()
    assert encoder.began.wait(WAIT)
    with Index(folder, encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as other:
        assert other.add([Document("new", "a rug")]).added == 1  # neither refused nor held up
        with WriterLock(folder / LOCK_NAME):
            encoder.go.set()
            reading.close(WAIT)
            passes = len(encoder.passes)
            assert read_on().step() == IDLE_SECONDS
            assert len(encoder.passes) == passes
    assert read_on().step() == 0.0
    assert len(encoder.passes) == passes + 1


def test_the_limit_of_lazily_filled_views_holds(make, read_on, encoder):
    folder, reading = make(), read_on()
    with Index(folder) as index:
        index.upkeep.lazy_limit = 100 * 16 * 2  # of a hundred texts
        to_end(reading)
        (mood,) = [view for view in index.views() if view.instruction]
        assert 85 <= mood.vectors <= 90  # the rest is for searches
        assert waiting(reading, folder) == []


def test_an_index_that_cannot_be_read_on_holds_up_no_other_and_is_tried_again(make, read_on, times, encoder):
    make("a", questions=(FAULT,))
    make("b", questions=(MOOD,))
    read, faults = encoder._read, [EncoderError("The model fell over.")]

    def fails(texts, instructions):
        if MOOD in instructions and faults:
            raise faults.pop()
        read(texts, instructions)

    encoder._read = fails
    reading = read_on()
    to_end(reading)
    assert {question for _, question in encoder.read} == {FAULT}
    times.now += RETRY_SECONDS
    to_end(reading)
    assert {question for _, question in encoder.read} == {FAULT, MOOD}


def test_an_index_that_is_damaged_or_gone_holds_up_no_other(make, read_on, encoder, indexes):
    make("a")
    (make("b") / DATABASE).write_bytes(b"no database")
    gone = make("c", questions=(FAULT,))
    reading = read_on()
    reading.step()
    shutil.rmtree(gone)
    to_end(reading)
    assert sorted(text for text, question in encoder.read if question == MOOD) == sorted(TEXTS[5:])


def test_a_complete_index_is_not_opened_again_before_it_changes(make, read_on, encoder, monkeypatch):
    folder, reading = make(texts=TEXTS[:5]), read_on()
    reading.step()
    opened = []
    monkeypatch.setattr(reading, "_open", lambda path: opened.append(path) or Index(path))
    assert (reading.step(), opened) == (IDLE_SECONDS, [])
    with Index(folder, encoder=encoder, plain=FakeEncoder("plain")) as index:
        index.add([Document("new", "a rug")])
    monkeypatch.undo()
    to_end(reading)
    assert encoder.read == [("a rug", MOOD)]


def test_texts_are_drawn_a_few_hundred_at_a_time(make, read_on, encoder, monkeypatch):
    monkeypatch.setattr(drawing, "TURN_TEXTS", 20)
    make()
    to_end(read_on())
    assert sorted(text for text, _ in encoder.read) == sorted(TEXTS[5:])


def test_a_view_that_is_dropped_between_two_passes_is_not_made_anew(make, encoder):
    folder = make()
    with Index(folder, encoder=encoder, plain=FakeEncoder("plain")) as index:
        (mood,) = [view.view for view in index.views() if view.instruction]
        turn = Turn(opened(index), mood)
        assert turn.read(500) and not turn.over
        index.upkeep.drop_views([MOOD])
        turn.read(500)
        assert turn.over
        assert [view.instruction for view in index.views()] == [""]
        assert Turn(opened(index), mood).over
