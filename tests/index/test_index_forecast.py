import pytest
from verdict_fakes import ASKED, TEXTS, Plain, Reader

from retriever.core.types import Document
from retriever.index.forecast import LEAST_TEXTS
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

SLOW, FAST = 0.02, 0.002  # seconds a character
LOADING = 500.0  # seconds of the first texts
FOREIGN = "\u00df"  # texts with this letter take three times as long


class Clock:
    """Gives the time, which goes on as encoders read."""

    now = 0.0

    def __call__(self):
        return self.now


class Timed:
    """Takes its time for every text under every instruction, and once for loading."""

    def begin(self, clock, pace):
        self.clock, self.pace, self.loading, self.sizes = clock, pace, LOADING, []
        return self

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.sizes.append(len(texts))
        for text, tokens in zip(texts, self.count_tokens(texts), strict=True):
            work = (len(text) + 60) * (3 if FOREIGN in text else 1)
            self.clock.now += self.pace * work * len(instructions) + self.loading
            self.loading = 0.0
            if on_tokens is not None:
                on_tokens(tokens)
        return super().encode_views(texts, instructions, words=words)


class SlowReader(Timed, Reader):
    """Reads a text in about 2 seconds."""


class FastPlain(Timed, Plain):
    """Reads a text in about 0.2 seconds."""


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("retriever.index.forecast.clock", clock)
    return clock


@pytest.fixture
def encoders(clock):
    return SlowReader().begin(clock, SLOW), FastPlain().begin(clock, FAST)


@pytest.fixture
def made(tmp_path, encoders):
    with Index(tmp_path / "index", encoder=encoders[0], plain=encoders[1]) as index:
        yield index


@pytest.fixture
def told(clock):
    return []


@pytest.fixture
def progress(clock, told):
    """Give a function that notes what it is told, and when."""
    return lambda report: told.append((clock.now, report))


def corpus(count, change=lambda row, text: text):
    return [Document(f"{row:03}", change(row, f"{TEXTS[row % len(TEXTS)]} {row}")) for row in range(count)]


def first_forecast(told):
    """Return when the forecast was told, with its report; there is one."""
    assert len({report.forecast for _, report in told if report.forecast}) == 1
    return next((now, report) for now, report in told if report.forecast)


def check_left(told, begun, end):
    """Every time left that was told is true, to a tenth of the whole."""
    known = [(now, report.left) for now, report in told if report.left is not None]
    assert len(known) > 5
    assert known[0][0] == begun
    assert [now + left for now, left in known] == pytest.approx([end] * len(known), abs=0.1 * (end - begun))


def test_an_indexing_says_what_it_takes_with_and_without_an_instruction_before_most_is_read(
    made, clock, told, progress
):
    options = IndexingOptions(rows=400, batch=50)
    made.add(corpus(400), instructions=[ASKED], options=options, progress=progress)
    begun, first = first_forecast(told)
    assert sum(first.embedded.values()) < 200  # of 800 vectors
    assert (first.forecast.texts, first.forecast.instructions) == (400, 1)
    assert first.forecast.seconds == pytest.approx(clock.now - begun, rel=0.1)
    rows_over = max(now for now, report in told if report.expected is None)
    assert first.forecast.plain == pytest.approx(rows_over - begun, rel=0.1)
    check_left(told, begun, clock.now)
    assert {view.vectors for view in made.views()} == {400}


def test_a_corpus_that_begins_with_long_texts_is_told_no_wrong_time(made, clock, told, progress):
    made.add(corpus(300, lambda row, text: f"{text} " * (4 if row < 150 else 1)))
    made.upkeep.complete([ASKED], progress=progress)
    begun, first = first_forecast(told)
    assert (first.forecast.texts, first.forecast.plain, first.expected) == (300, None, 300)
    check_left(told, begun, clock.now)


def test_texts_are_measured_from_everywhere_in_the_corpus(made, clock, told, progress):
    made.add(corpus(300, lambda row, text: text + FOREIGN * (row < 150)))
    made.upkeep.complete([ASKED], progress=progress)
    begun, first = first_forecast(told)
    assert first.in_hand <= 50
    assert first.forecast.seconds == pytest.approx(clock.now - begun, rel=0.25)


def test_known_rows_cost_nothing_and_their_texts_are_read_under_the_instruction_all_the_same(
    made, clock, told, progress
):
    made.add(corpus(200))
    made.add(corpus(400), instructions=[ASKED], options=IndexingOptions(rows=400, batch=50), progress=progress)
    begun, first = first_forecast(told)
    assert first.forecast.texts == 400
    rows_over = max(now for now, report in told if report.expected is None)
    assert first.forecast.plain == pytest.approx(rows_over - begun, rel=0.1)
    check_left(told, begun, clock.now)


def test_where_nobody_knows_the_rows_the_time_is_told_once_they_are_over(made, told, progress):
    made.add(corpus(400), instructions=[ASKED], options=IndexingOptions(batch=50), progress=progress)
    rows = [report for _, report in told if report.expected is None]
    assert rows
    assert all(report.left is report.forecast is None for report in rows)
    assert first_forecast(told)[1].forecast.texts == 400


def test_few_texts_are_read_together(made, encoders, told, progress):
    few = LEAST_TEXTS - 1
    made.add(corpus(few), instructions=[ASKED], options=IndexingOptions(rows=few), progress=progress)
    assert all(few in encoder.sizes for encoder in encoders)
    assert told
    assert not any(report.forecast for _, report in told)
