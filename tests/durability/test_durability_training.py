from functools import partial

import pytest
from interruptions import crash_everywhere, crashed, fail_everywhere
from training_faults import (
    Trace,
    fail,
    finetuning_paused,
    finetuning_resumed,
    judge,
    laid_out,
    promotion,
    request,
    saved_states,
    surroundings,
    trace,
)

from retriever.core.errors import UsageError
from retriever.training.run.finetuning import finetune

pytestmark = pytest.mark.durability
SAMPLE = 6  # of a fine-tuning's changes; `make torture` takes them all


@pytest.fixture(scope="module", autouse=True)
def quick():
    with surroundings():
        yield


@pytest.fixture
def inside(tmp_path):
    """Judge and fail in one folder, whose name is part of what is stored."""
    root = tmp_path / "run"
    judged = lambda trace, tree, _, **rest: judge(trace, tree, root, **rest)  # noqa: E731
    failed = lambda trace, fault, _: fail(trace, fault, root)  # noqa: E731
    return (
        root,
        partial(crash_everywhere, folder=tmp_path, judge=judged),
        partial(fail_everywhere, folder=tmp_path, fail=failed),
    )


@pytest.mark.parametrize("name", ["states", "promotion"])
def test_states_and_the_default_survive_any_crash_and_any_failing_write(name, inside, tiny):
    root, crash, failing = inside
    recording = trace(saved_states() if name == "states" else promotion(tiny("llama")), root)
    for found in (crash(recording, seeds=3), failing(recording)):
        assert found.lost == []
        assert found.injected > 4


@pytest.fixture(scope="module")
def tuned(tiny, tmp_path_factory):
    root = tmp_path_factory.mktemp("tuned") / "run"
    return root, trace(finetuning_resumed(tiny("llama")), root)


def test_models_and_states_are_whole_after_a_crash_at_any_change_of_a_fine_tuning(tuned, tmp_path):
    root, recording = tuned

    def looked_at(recording, tree, _):
        judge(recording, tree, root, again=False)

    found = crash_everywhere(recording, tmp_path, judge=looked_at)
    assert found.lost == []
    assert found.injected > 100


def test_a_fine_tuning_goes_on_after_a_crash_to_the_weights_of_an_undisturbed_one(tuned, tmp_path):
    root, recording = tuned

    def resumed(recording, tree, _):
        judge(recording, tree, root)

    found = crash_everywhere(recording, tmp_path, most=SAMPLE, seeds=0, judge=resumed)
    assert found.lost == []
    assert found.injected > SAMPLE


def test_a_fine_tuning_whose_disk_fails_says_so_and_goes_on(tuned, tmp_path):
    root, recording = tuned
    found = fail_everywhere(recording, tmp_path, most=SAMPLE, fail=lambda trace, fault, _: fail(trace, fault, root))
    assert found.lost == []
    assert found.injected > SAMPLE


def test_a_state_that_a_paused_run_told_of_survives_a_loss_of_power(tiny, tmp_path):
    root = tmp_path / "run"
    recording = trace(finetuning_paused(tiny("llama")), root)
    *_, (_, tree) = crashed(recording, len(recording.changes), seeds=0)
    judge(recording, tree, root, only_final=True, again=False)


def test_a_run_that_was_killed_behind_its_last_step_names_the_command_that_is_left(tuned, tiny):
    root, recording = tuned
    written = next(at for at, change in enumerate(recording.changes) if change.target == "out") + 1
    _, (_, tree), *_ = crashed(recording, written, seeds=0)
    with laid_out(tree, root):
        with pytest.raises(UsageError, match="holds the whole model of a run that was stopped") as caught:
            finetune(request(root, tiny("llama")))
        assert f"`retriever models promote {root / 'out'}`" in caught.value.hint


def test_a_model_that_was_not_flushed_before_it_got_its_name_would_be_noticed(tuned, tmp_path):
    root, recording = tuned
    careless = Trace(recording.scenario, recording.before, [one for one in recording.changes if one.kind != "fsync"])
    found = crash_everywhere(
        careless, tmp_path, most=30, judge=lambda trace, tree, _: judge(trace, tree, root, again=False)
    )
    assert found.lost
