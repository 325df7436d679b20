import json

import evaluation_fakes
import numpy as np
import pytest
from index_fakes import FakeEncoder, RichEncoder

from retriever.core.errors import InputError, UsageError
from retriever.evaluation.run import evaluating
from retriever.evaluation.run.evaluating import EvaluationRequest, document, evaluate, requests
from retriever.evaluation.run.results import Evaluation, compare, score_from_file


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    return evaluation_fakes.register(monkeypatch, tmp_path / "data")


def ran():
    names = list(evaluation_fakes.RAN)
    evaluation_fakes.RAN.clear()
    return names


def values(evaluation):
    return {(score.task, score.metric): score.value for score in evaluation.scores}


def test_scores_of_all_tasks_with_what_is_needed_to_repeat_them(data):
    encoder = RichEncoder()
    found = evaluate(EvaluationRequest("toys", data, command="retriever eval toys"), encoder)
    assert values(found) == {
        ("kettles", "half"): 0.25,
        ("kettles", "share"): 50,
        ("kettles", "unit share"): 0.5,
        ("first-hit", "P@1"): 100,
    }
    assert found.mean == pytest.approx((50 + 0.5 + 100) / 3)
    assert found.encoder["fingerprint"] == encoder.fingerprint
    assert (found.suite, found.seed, found.limit, found.command) == ("toys", 0, None, "retriever eval toys")
    assert list(found.data) == ["words.jsonl"]
    assert found.versions["retriever"]
    assert set(found.seconds) == {"kettles", "first-hit"}
    assert ran() == ["kettles", "first-hit"]


def test_a_second_run_measures_and_embeds_nothing(data):
    first = evaluate(EvaluationRequest("toys", data), RichEncoder())
    ran()
    again = RichEncoder()
    second = evaluate(EvaluationRequest("toys", data), again)
    assert (ran(), again.calls) == ([], [])
    assert [one.to_json()["scores"] for one in (first, second)] == [first.to_json()["scores"]] * 2
    for one, other in zip(first.scores, second.scores, strict=True):
        np.testing.assert_array_equal(one.resampled, other.resampled)
    assert second.seconds == first.seconds


def test_an_interrupted_run_goes_on_with_the_next_task(data, monkeypatch):
    with monkeypatch.context() as patch:

        def stopped(bench):
            raise KeyboardInterrupt
            yield

        patch.setattr(evaluation_fakes, "first_hit", stopped)
        with pytest.raises(KeyboardInterrupt):
            evaluate(EvaluationRequest("toys", data), RichEncoder())
    assert ran() == ["kettles"]
    found = evaluate(EvaluationRequest("toys", data), RichEncoder())
    assert ran() == ["first-hit"]
    assert len(found.scores) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 2},
        {"seed": 1},
        {"encoder": RichEncoder("other")},
        {"encoder": RichEncoder(steps=3)},
        {"rows": evaluation_fakes.ROWS[:3]},
        {"code": "new"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_nothing_is_taken_from_a_run_that_differs(data, monkeypatch, change):
    evaluate(EvaluationRequest("toys", data), RichEncoder())
    ran()
    if "rows" in change:
        evaluation_fakes.write(data, change["rows"])
    if "code" in change:
        monkeypatch.setattr(evaluating, "_code_hash", lambda: change["code"])
    asked = {key: value for key, value in change.items() if key in ("limit", "seed")}
    evaluate(EvaluationRequest("toys", data, **asked), change.get("encoder", RichEncoder()))
    assert ran() == ["kettles", "first-hit"]


def test_a_damaged_task_file_is_measured_again(data, tmp_path):
    evaluate(EvaluationRequest("toys", data), RichEncoder())
    ran()
    [file] = (tmp_path / "cache" / "evaluation" / "runs").glob("*/task-kettles.json")
    file.write_text(file.read_text()[:50])
    evaluate(EvaluationRequest("toys", data), RichEncoder())
    assert ran() == ["kettles"]


def test_single_tasks_are_part_of_the_whole_run(data):
    one = evaluate(EvaluationRequest("toys", data, tasks=("first-hit",)), RichEncoder())
    assert values(one) == {("first-hit", "P@1"): 100}
    ran()
    evaluate(EvaluationRequest("toys", data), RichEncoder())
    assert ran() == ["kettles"]


def test_what_goes_wrong_in_a_task_is_not_caught(data):
    evaluation_fakes.write(data, [{"text": "a toy"}, {"words": "no text"}])
    with pytest.raises(InputError, match=r"words.jsonl, row 2: 'text' is missing"):
        evaluate(EvaluationRequest("toys", data), RichEncoder())


def test_progress_names_task_and_texts(data):
    told = []
    evaluate(EvaluationRequest("toys", data), FakeEncoder(), progress=told.append)
    starts = [(one.task, one.number, one.tasks) for one in told if one.embedding is None]
    assert starts == [("kettles", 1, 2), ("first-hit", 2, 2)]
    assert [(one.task, one.embedding.done, one.embedding.total) for one in told if one.embedding] == [
        ("kettles", 4, 4),
        ("kettles", 1, 1),
    ]


def test_a_run_file_holds_all_there_is(data, tmp_path):
    found = evaluate(EvaluationRequest("toys", data), RichEncoder())
    [file] = (tmp_path / "cache" / "evaluation" / "runs").glob("*/run.json")
    stored = json.loads(file.read_text())
    assert stored.pop("schema_version") == 1
    scores = [score_from_file(one) for one in stored.pop("scores")]
    assert Evaluation(**stored, scores=scores).to_json() == found.to_json()
    assert len(scores[0].resampled) == 100


JSON = [
    "schema_version", "suite", "encoder", "mean", "scores", "seconds", "seed", "limit", "data", "command", "date",
    "machine", "versions", "notes",
]  # fmt: skip


def test_the_json_is_stable_rounded_and_without_resamples(data):
    found = document([evaluate(EvaluationRequest("toys", data), RichEncoder())])
    assert list(found) == ["schema_version", "evaluations", "against", "differences"]
    [one] = json.loads(json.dumps(found))["evaluations"]
    assert (list(one), one["schema_version"]) == (JSON, 1)
    assert one["mean"] == 50.1667
    assert one["scores"][0] == {
        "task": "kettles", "metric": "half", "value": 0.25, "low": one["scores"][0]["low"],
        "high": one["scores"][0]["high"], "items": 4, "headline": False, "note": "half a share",
    }  # fmt: skip
    assert 0 <= one["scores"][0]["low"] < 0.25 < one["scores"][0]["high"] <= 0.5


class Blind(FakeEncoder):
    """Sees no difference between texts."""

    def vectors(self, texts, instruction=""):
        return np.full((len(texts), self.dim), 0.25, dtype=np.float32)


def test_differences_are_paired(data):
    ours, theirs = (evaluate(EvaluationRequest("toys", data), one) for one in (FakeEncoder(), Blind("blind")))
    pairs = {(pair.ours.task, pair.ours.metric): pair for pair in compare(ours, theirs)}
    share = pairs["kettles", "share"]
    assert share.difference.value == -50
    np.testing.assert_allclose(
        [share.difference.low, share.difference.high],
        np.percentile(share.ours.resampled - share.theirs.resampled, [2.5, 97.5]),
    )
    assert compare(ours, ours)[0].difference.certain is False
    listed = document([ours], [theirs])["differences"]
    assert [(one["task"], one["metric"], one["difference"]) for one in listed][:2] == [
        ("kettles", "half", -0.25),
        ("kettles", "share", -50),
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"suite": "toyz"}, "Unknown suite 'toyz'. Did you mean 'toys'"),
        ({"suite": "toys", "tasks": ("first-hits",)}, "has no task 'first-hits'. Did you mean 'first-hit'"),
        ({"suite": "all", "tasks": ("kettles",)}, "--task needs one suite"),
        ({"suite": "toys", "limit": 0}, "--limit is 0"),
        ({"suite": "toys", "seed": -1}, "--seed is -1"),
    ],
    ids=lambda asked: " ".join(map(str, asked.values())) if isinstance(asked, dict) else "",
)
def test_wrong_requests_are_refused_with_the_nearest_name(data, asked, message):
    with pytest.raises(UsageError) as refused:
        requests(**asked, data=data)
    assert message in str(refused.value)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no-data is not a folder"):
        requests("toys", tmp_path / "no-data")
    assert [one.suite for one in requests("bare", tmp_path / "no-data")] == ["bare"]


def test_all_is_every_suite(data):
    assert [one.suite for one in requests("all", data)] == ["toys", "bare"]
