import intervals
import numpy as np
import pytest


@pytest.mark.parametrize("name", ["share", "difference", "impact"])
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    rng = np.random.default_rng(7)
    chosen = intervals.settings()[4::8]
    held = [intervals.simulate(one, rng) for one in chosen for _ in range(120)]
    found = [one[name] for one in held if name in one]
    assert len(found) > 0.95 * len(held)
    assert 0.93 <= np.mean(found) <= 0.97  # one standard deviation is 0.009


def test_where_nothing_differs_a_difference_is_seldom_called_one():
    rng = np.random.default_rng(1)
    assert sum(intervals.false_alarm(200, rng) for _ in range(60)) <= 7  # 3 are allowed; more than 7 once in a hundred


def test_the_figures_as_a_page():
    rows = [
        {"size": 60, "band": (0.1, 0.3), "others": "x", "group": "y", "share": rate, "difference": 0.95, "impact": 0.9}
        for rate in (0.951, 0.972)
    ]
    means = {"share": 0.96, "difference": 0.95, "impact": 0.9}
    found = {"corpora": 10, "settings": rows, "mean": means, "false_alarms": {"60": 0.01, "300": 0.02}}
    page = intervals.page(found)
    assert "| 60 | 10% to 30% | x, y | 95.1 | 95.0 | 90.0 |" in page
    assert "Between 93 and 97 are 1, 2 and 0 of the 2 settings." in page
    assert "1.0 % (60 reviews), 2.0 % (300 reviews)" in page
