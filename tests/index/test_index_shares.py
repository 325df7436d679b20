"""How much of the work is done, as it is told while views are completed."""

import pytest
from verdict_fakes import ASKED, TEXTS, Plain, Reader

from retriever.core.types import Document
from retriever.index.completing import BATCH, judging_cost
from retriever.workspace import Index


@pytest.fixture
def index(tmp_path):
    with Index(tmp_path / "index", encoder=Reader(), plain=Plain()) as made:
        made.add(Document(f"{row:03}", text) for row, text in enumerate(TEXTS))
        yield made


@pytest.fixture
def told(index):
    """Complete the view of a question, and give what was told meanwhile."""
    reports = []
    index.upkeep.complete([ASKED], progress=reports.append)
    return reports


def test_the_total_does_not_grow_when_the_judging_begins(told):
    shares = [report.share for report in told]
    reading = [report.share for report in told if not report.judging]
    assert reading[-1] == pytest.approx(len(TEXTS) / (len(TEXTS) + judging_cost(1)))
    assert shares == sorted(shares)
    assert all(report.share > reading[-1] for report in told if report.judging and report.in_hand)


def test_a_question_that_was_judged_is_not_counted_on_to_be_judged(index):
    index.upkeep.complete([ASKED], ids=[f"{row:03}" for row in range(50)])
    assert index.teaching.verdict(ASKED) is not None
    reports = []
    index.upkeep.complete([ASKED], progress=reports.append)
    assert reports[-1].share == 1.0
    assert not any(report.judging for report in reports)


def test_little_is_lost_of_a_completion_that_is_stopped(tmp_path):
    def stop(report):
        if sum(report.embedded.values()) >= BATCH:
            raise KeyboardInterrupt

    with Index(tmp_path / "many", encoder=Reader(), plain=Plain()) as made:
        made.add(Document(f"{row:03}", f"{TEXTS[row % len(TEXTS)]} {row}") for row in range(3 * BATCH))
        with pytest.raises(KeyboardInterrupt):
            made.upkeep.complete([ASKED], progress=stop)
        (view,) = (view for view in made.views() if view.instruction == ASKED)
        assert BATCH <= view.vectors < 3 * BATCH
