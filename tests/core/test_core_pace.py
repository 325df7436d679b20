"""How long the rest of some work takes."""

import pytest

from retriever.core.pace import LEAST_SECONDS, Pace, Rate


@pytest.fixture
def at():
    """Give the time left at a share, by a clock that is set."""
    clock = [0.0]
    pace = Pace(lambda: clock[0])

    def left(second, share):
        clock[0] = second
        return pace.left(share)

    return left


def test_the_loading_of_a_model_has_no_part_in_the_rate(at):
    assert at(0, 0.0) is None
    assert at(60, 0.1) is None  # the first report of work done
    assert at(70, 0.2) == pytest.approx(80)
    assert at(110, 0.6) == pytest.approx(40)


def test_a_rate_is_told_only_once_it_was_measured_for_seconds(at):
    at(10, 0.01)
    assert at(10 + LEAST_SECONDS * 0.9, 0.5) is None
    assert at(10 + LEAST_SECONDS, 0.51) is not None


def test_work_that_stands_still_has_no_rate(at):
    at(0, 0.5)
    assert at(100, 0.5) is None
    assert at(100, 1.0) == 0


def test_a_rate_leaves_out_the_first_piece_and_is_unknown_before_seconds_of_others():
    rate = Rate()
    rate.took(10, 60)
    rate.took(100, LEAST_SECONDS / 2)
    assert (rate.known, rate.seconds(50), rate.seconds(0)) == (False, None, 0.0)
    rate.took(100, LEAST_SECONDS / 2)
    assert rate.seconds(400) == pytest.approx(2 * LEAST_SECONDS)
