import json
from pathlib import Path

import numpy as np
import pytest
from verdict import COUNTS, FALSE_ALARM, FALSE_ASSURANCE, USED, Case, left_out, shipped, thresholds
from verdict_table import RESULTS, verdict_lines

from retriever.index.verdicts.measured import MEASURED, measured_of


def case(source, followed, value, asked=None):
    asked = asked if asked is not None else 80.0 if followed else 52.0
    return Case(source, "kind", "Which?", False, asked, 50.0, {count: dict.fromkeys(USED, value) for count in COUNTS})


def test_the_truth_needs_a_share_and_that_little_is_lost():
    assert case("x", True, 0, asked=60.0).followed
    assert not case("x", True, 0, asked=59.9).followed
    assert Case("x", "k", "q", False, 90.0, 95.0, {}).followed
    assert not Case("x", "k", "q", False, 90.0, 95.1, {}).followed


def test_a_chance_is_by_the_other_sources_alone():
    found = [case(f"{place}", place % 2 == 0, place % 2 + 0.01 * place) for place in range(12)]
    chances = left_out(found, 40)
    assert chances[::2].min() > chances[1::2].max()
    twisted = [*found, *(case("odd", place % 2 == 1, place % 2) for place in range(4))]
    assert left_out(twisted, 40)[-4] > left_out(twisted, 40)[-3]  # its own four would say the opposite


def test_few_are_called_what_they_are_not():
    chances = np.linspace(0.01, 1, 100)
    truth = chances > 0.5
    truth[[30, 95]] = [True, False]
    followed, hardly = thresholds(chances, truth)
    assert (~truth[chances >= followed]).mean() <= FALSE_ASSURANCE
    assert truth[chances <= hardly].mean() <= FALSE_ALARM
    assert hardly < followed < 0.7


def test_what_is_written_is_what_the_package_reads():
    found = [case(f"{place}", place % 2 == 0, float(place % 2)) for place in range(12)]
    model = measured_of(shipped(found, "f" * 64, 0.7, 0.3))
    assert (model.fingerprint, model.level(0.7), model.level(0.3)) == ("f" * 64, "followed", "hardly")
    assert model.chance(dict.fromkeys(USED, 0.0)) > 0.5 > model.chance(dict.fromkeys(USED, 1.0))


@pytest.mark.skipif(not RESULTS.is_file(), reason="nothing is measured")
def test_the_results_are_of_the_numbers_that_ship():
    results = json.loads(RESULTS.read_text())
    assert results["fingerprint"] == MEASURED.fingerprint
    assert results["thresholds"] == {"followed": MEASURED.followed, "hardly": MEASURED.hardly}
    assert set(results["auc_of_single_features"]) > set(MEASURED.weights) == set(results["used"])
    page = (Path(__file__).parents[2] / "docs/evaluation.md").read_text(encoding="utf-8")
    assert "\n".join(verdict_lines()) in page
