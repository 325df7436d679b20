import json
import os
import shutil
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import finetune_fakes as fakes
import numpy as np
import pytest
import torch
from index_fakes import FakeEncoder
from safetensors.torch import load_file

from retriever import load_encoder
from retriever.core.errors import CheckpointError, TrainingError, TrainingInterrupted, UsageError
from retriever.core.types import Encoded
from retriever.encoders.catalog import promoted_folder
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import mean_score
from retriever.training import checkpoints
from retriever.training.config import read_config
from retriever.training.objectives.distillation import FusionObjective
from retriever.training.objectives.instemb import InstEmbObjective
from retriever.training.run import bases, finetuning, stages
from retriever.training.run.finetuning import FinetuneRequest, finetune
from retriever.training.run.report import model_card

SHORT = "[loop]\nmax_steps = 3\n[batch]\ntexts = 4\n[adapter]\nrank = 2\nlook_ahead = 1\n[objective]\nviews = []\n"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """One thread, a general score of 70, no time spent on pictures, and a user's own configuration."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(finetuning, "general_score", general())
    monkeypatch.setattr(finetuning, "draw_curves", lambda path, *data: path.write_text(""))
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    yield
    torch.set_num_threads(threads)


def general(*values):
    """Give every encoder the next of some general scores, or 70; the trained one is measured first."""
    left = list(values)

    def score(encoder, *, seed=0):
        assert encoder.encode(["x"]).shape[0] == 1
        found = mean_score("general", "mean", np.full(9, left.pop(0) if left else 70.0), seed=seed)
        return GeneralScore(found, found, found)

    return score


@pytest.fixture(scope="module")
def llama(tiny):
    return f"plain:{tiny('llama')}"


@pytest.fixture
def asked(tmp_path, llama):
    """Ask for a run of three steps over the planted rows."""

    def request(output="out", *, settings=SHORT, rows=None, **changes):
        config = tmp_path / "tune.toml"
        config.write_text(settings)
        files = [fakes.write(tmp_path / "qa.jsonl", rows or fakes.rows(24))]
        options = {"base": llama, "config": config, "device": "cpu", "dtype": "float32", "command": "retriever tune"}
        return FinetuneRequest(files, tmp_path / output, **{**options, **changes})

    return request


@pytest.fixture(scope="module")
def learned(tmp_path_factory, llama):
    """Give the folder and the report of a run that learns the planted task."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "tune.toml").write_text(fakes.FAST)
    qa = fakes.write(folder / "qa.jsonl", fakes.rows())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetuning, "general_score", general(69.5, 70))
        patch.setenv("RETRIEVER_CONFIG", str(folder / "user"))
        request = FinetuneRequest(
            [qa], folder / "out", base=llama, config=folder / "tune.toml", device="cpu", dtype="float32",
            command="retriever finetune qa.jsonl",
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is said beside the report
            report = finetune(request)
        assert promoted_folder() == (folder / "out").resolve()
    return folder / "out", report


def weights(folder):
    return {**load_file(folder / "adapter_model.safetensors"), **load_file(folder / "look_ahead.safetensors")}


def assert_equal(one, other):
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(values, theirs[name]) for name, values in ours.items())


def test_the_held_out_score_goes_up_and_the_model_becomes_the_default(learned):
    _, report = learned
    judgement = report.judgement
    assert judgement.held_out.before.value < 65
    assert judgement.held_out.after.value > 85
    assert (judgement.verdict.passed, judgement.promoted, report.status) == (True, True, "finished")
    assert "general 70.0 -> 69.5" in judgement.verdict.sentence
    assert report.step == report.steps == 30


def test_the_saved_model_is_active_and_searches_by_what_it_learned(learned, llama):
    folder, report = learned
    trained = load_encoder(str(folder), device="cpu", dtype="float32")
    untrained = load_encoder(llama, device="cpu", dtype="float32")
    texts = ["the red kettle broke", "the blue kettle is heavy", "the red lamp broke", "the blue knife is heavy"]
    by_product, by_colour = trained.encode_many(texts, [fakes.PRODUCT, fakes.COLOUR])
    assert (by_product @ by_product.T)[0].argsort()[::-1][1] == 1  # the other kettle
    assert (by_colour @ by_colour.T)[0].argsort()[::-1][1] == 2  # the other red one
    assert np.linalg.norm(by_product - untrained.encode(texts, instruction=fakes.PRODUCT), axis=1).min() > 0.5
    assert report.judgement.proof.to_base > 10 * report.judgement.proof.to_trained


def test_what_it_was_made_from_lies_beside_it(learned):
    folder, report = learned
    assert json.loads((folder / "finetune.json").read_text()) == json.loads(json.dumps(report.to_json()))
    assert read_config(folder / "finetune.toml", None, rows=1) == report.config
    losses = [json.loads(line)["loss"] for line in (folder / "instemb-losses.jsonl").read_text().splitlines()]
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert (folder / "curves.svg").read_text().count("<svg") == 1
    card = (folder / "README.md").read_text()
    data = report.data
    for part in (
        "| held-out triplets, successes | ", "| general, mean | 70.00 ", "69.50", data.files[0].sha256, "96",
        f"{len(data.train)} rows to learn from and {len(data.held_out)} held out", "retriever finetune qa.jsonl",
        "learning_rate = 0.02", "Seed 0, 30 steps", f"torch {torch.__version__}", "## Limits",
    ):  # fmt: skip
        assert part in card, part
    assert sorted(path.name for path in folder.parent.iterdir()) == ["out", "qa.jsonl", "tune.toml", "user"]


def test_the_card_shows_what_searches_find_before_and_after(learned):
    folder, report = learned
    card = (folder / "README.md").read_text()
    shown = card.partition("## Examples\n")[2].partition("## Data")[0].strip().splitlines()
    assert len(shown) == 4 + len(report.judgement.examples)
    first = report.judgement.examples[0]
    marks = ["right" if first[when][0]["right"] else "wrong" for when in ("before", "after")]
    assert marks[1] == "right"
    assert shown[4] == (
        f"| `{first['query']}` under `{first['instruction']}` | `{first['answer']}` "
        f"| {marks[0]}: `{first['before'][0]['text']}` | right: `{first['after'][0]['text']}` |"
    )


def test_a_hostile_text_does_nothing_in_the_card(learned):
    _, report = learned
    bad = "a`<b>|\x1b[31m\n# x" + "y" * 100
    found = [{"text": bad, "answer": "", "right": False}]
    example = {"query": bad, "instruction": "", "answer": bad, "before": found, "after": found}
    card = model_card(report, replace(report.judgement, examples=[example]))
    row = next(line for line in card.splitlines() if line.startswith("| `a'<b>"))
    shown = "`a'<b>\\| [31m # x" + "y" * 62 + "...`"
    assert row == f"| {shown} | {shown} | wrong: {shown} | wrong: {shown} |"


def test_a_run_in_pieces_ends_with_the_weights_of_an_unbroken_one(asked, tmp_path):
    unbroken = finetune(asked("unbroken"))
    assert (unbroken.step, unbroken.steps) == (3, 3)
    first = finetune(asked("pieces", minutes=1e-9))
    assert (first.status, first.step, first.steps, first.judgement) == ("paused", 1, 3, None)
    assert not (tmp_path / "pieces").exists()
    with pytest.raises(UsageError, match="holds a run that was stopped") as caught:
        finetune(asked("pieces"))
    assert "--resume" in caught.value.hint

    def interrupt(stage, progress):
        assert (stage, progress.step) == ("instemb", 2)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TrainingInterrupted, match="state after step 2 is saved") as stopped:
        finetune(asked("pieces", resume=True, command="retriever tune --resume"), on_progress=interrupt)
    assert (stopped.value.exit_code, stopped.value.hint) == (130, "Go on: retriever tune --resume")
    last = finetune(asked("pieces", resume=True))
    assert last.status == "finished"
    assert_equal(tmp_path / "pieces", tmp_path / "unbroken")
    assert last.judgement.held_out.after.value == unbroken.judgement.held_out.after.value


def test_another_seed_or_other_rows_do_not_go_on_with_a_run(asked):
    finetune(asked(minutes=1e-9))
    with pytest.raises(UsageError, match=r"belongs to another run: .*seed"):
        finetune(asked(resume=True, seed=1))
    with pytest.raises(UsageError, match="belongs to another run: data changed"):
        finetune(asked(resume=True, rows=fakes.rows(25)))


def test_another_teacher_of_the_same_name_does_not_go_on_with_a_run(asked, monkeypatch):
    def lend(name):
        monkeypatch.setattr(stages, "load_encoder", lambda asked, device: FakeEncoder(name))

    settings = SHORT + "[similarity]\nteacher = 'default'\n"
    lend("first")
    finetune(asked(settings=settings, minutes=1e-9))
    lend("second")
    with pytest.raises(UsageError, match="belongs to another run: teachers changed") as caught:
        finetune(asked(settings=settings, resume=True))
    assert "Repeat the options" in caught.value.hint
    lend("first")
    assert finetune(asked(settings=settings, resume=True)).status == "finished"


def test_an_interrupt_before_the_first_step_is_told(asked, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(finetuning, "load_base", interrupted)
    with pytest.raises(TrainingInterrupted, match="nothing was saved"):
        finetune(asked())


def test_a_model_that_got_worse_in_general_is_kept_but_not_made_the_default(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(finetuning, "general_score", general(66.5, 70))
    monkeypatch.setattr(finetuning, "held_out_task", lambda rows, seed: Rising())
    report = finetune(asked())
    assert (report.judgement.verdict.passed, report.judgement.promoted) == (False, False)
    assert "lost 3.5 points, more than 1, in general" in report.judgement.verdict.sentence
    assert "held-out 40.0 -> 60.0; general 70.0 -> 66.5" in (tmp_path / "out/README.md").read_text()
    assert json.loads((tmp_path / "out/finetune.json").read_text())["promoted"] is False
    assert promoted_folder() is None


def test_a_good_model_is_not_promoted_when_asked_not_to(asked, monkeypatch):
    monkeypatch.setattr(finetuning, "held_out_task", lambda rows, seed: Rising())
    report = finetune(asked(promote=False))
    assert (report.judgement.verdict.passed, report.judgement.promoted) == (True, False)
    assert promoted_folder() is None


class Rising:
    """A held-out score of 60, which is measured first, and of 40 before the training."""

    def __init__(self):
        self.value = 80.0

    def measure(self, encoder, *, seed):
        self.value -= 20
        return mean_score("held-out triplets", "successes", np.full(9, self.value), seed=seed)


def test_a_checkpoint_is_trained_further(learned, asked):
    folder, before = learned
    settings = fakes.FAST.replace("epochs", "max_steps").replace("rank = 4", "rank = 2")
    report = finetune(asked(base=str(folder), rows=fakes.rows(), settings=settings))
    assert "with its own rank 4 and 1 look-ahead tokens" in " ".join(report.notes)
    assert report.base["spec"] == str(folder)
    assert report.judgement.held_out.before.value == before.judgement.held_out.after.value


def test_a_checkpoint_that_is_trained_further_is_its_own_teacher_unless_told_otherwise(learned, asked, monkeypatch):
    folder, _ = learned
    loaded = []
    own = stages.load_encoder
    monkeypatch.setattr(stages, "load_encoder", lambda name, device: loaded.append(name) or own(name, device=device))
    settings = fakes.FAST.replace("epochs", "max_steps")
    finetune(asked("one", base=str(folder), rows=fakes.rows(), settings=settings))
    assert loaded == [str(folder)]
    finetune(asked("two", base=str(folder), rows=fakes.rows(), settings=settings + "[similarity]\nweight = 0.0\n"))
    assert loaded == [str(folder)]


def test_fusion_is_a_stage_of_its_own_and_similarities_are_taught(asked, tmp_path, monkeypatch):
    class Teacher(FakeEncoder):
        def vectors(self, texts, instruction=""):
            assert not instruction
            return np.eye(40, dtype=np.float32)[: len(texts)]

    loaded = []
    monkeypatch.setattr(stages, "load_encoder", lambda name, device: loaded.append(name) or Teacher())
    told = []
    report = finetune(
        asked(settings=SHORT + "[similarity]\nteacher = 'other'\n[fusion]"),
        announce=told.append,
        on_progress=lambda stage, now: told.append(f"{stage} {now.step}"),
    )
    assert loaded == ["other"]
    assert told[1].startswith("Training takes about ")
    assert told[2:7] == [
        "reading texts whose similarities are kept, before the first step",
        *(f"instemb {n}" for n in (1, 2, 3)),
        "reading every text for the fusion, before its first step",
    ]
    assert told[7] == "fusion 1"
    assert (report.step, report.steps) == (6, 6)
    rows = {
        stage: [json.loads(line) for line in (tmp_path / f"out/{stage}-losses.jsonl").read_text().splitlines()]
        for stage in ("instemb", "fusion")
    }
    assert all(row["similarity"] for row in rows["instemb"])
    assert rows["fusion"][-1]["loss"] < rows["fusion"][0]["loss"]


def test_the_targets_of_fusion_come_from_the_checkpoint_that_is_trained_further(learned, asked, monkeypatch):
    folder, _ = learned
    seen = []
    made = stages.fused_targets

    def spy(learner, texts, instructions, settings, **options):
        targets = made(learner, texts, instructions, settings, **options)
        bare = made(learner, texts, instructions, settings)
        seen.append((texts, instructions, targets.numpy(), bare.numpy()))
        return targets

    monkeypatch.setattr(stages, "fused_targets", spy)
    off = "[similarity]\nweight = 0.0\n"
    finetune(asked(base=str(folder), settings=f"{SHORT}{off}[fusion]\nnew_weight = 0.0\n"))
    ((texts, instructions, targets, bare),) = seen
    base = load_encoder(str(folder), device="cpu", dtype="float32")
    for text, instruction, target in list(zip(texts, instructions, targets, strict=True))[::9]:
        assert np.abs(target - base.encode([text], instruction=instruction)[0]).max() < 1e-5
    assert np.abs(targets - bare).max() > 0.05


def test_gircse_learns_from_the_encoder_that_its_settings_name(asked, tmp_path, monkeypatch):
    class Teacher(FakeEncoder):
        def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
            views = [np.eye(40, 16, k=len(one), dtype=np.float32)[: len(texts)] for one in instructions]
            return [Encoded(view, [[] for _ in texts]) for view in views]

    loaded = []
    monkeypatch.setattr(stages, "load_encoder", lambda name, device: loaded.append(name) or Teacher())
    settings = "[loop]\nmax_steps = 2\n[adapter]\nrank = 2\n[objective]\nteacher = 'other'\nteacher_weight = 2.0\n"
    finetune(asked(method="gircse", settings=settings))
    assert loaded == ["other"]
    rows = [json.loads(line) for line in (tmp_path / "out/gircse-losses.jsonl").read_text().splitlines()]
    assert [row["loss"] for row in rows] == pytest.approx(
        [row["contrast"] + row["refinement"] + 2 * row["taught"] for row in rows], rel=1e-4
    )
    assert all(row["taught"] > 0 for row in rows)


def test_fusion_is_resumed_too(asked, tmp_path):
    settings = SHORT.replace("max_steps = 3", "max_steps = 2") + "[fusion]\n"
    finetune(asked("unbroken", settings=settings))
    pieces = [finetune(asked("pieces", settings=settings, resume=True, minutes=1e-9)) for _ in range(3)]
    assert [one.status for one in pieces] == ["paused", "paused", "finished"]
    assert [(one.step, one.steps) for one in pieces] == [(1, 2), (3, 4), (4, 4)]
    assert_equal(tmp_path / "pieces", tmp_path / "unbroken")


def spoil(patch, kind):
    """Make the losses of an objective no numbers; return the batches that it was given."""
    batches = []
    patch.setattr(kind, "backward", lambda _, batch: batches.append(batch) or {"loss": float("nan")})
    return batches


def test_a_loss_that_is_no_number_ends_the_run_and_earlier_states_stay(asked, tmp_path, monkeypatch):
    train = finetune(asked(minutes=1e-9)).data.train
    with monkeypatch.context() as patch:
        batches = spoil(patch, InstEmbObjective)
        with pytest.raises(TrainingError, match="Step 2: the loss is nan") as caught:
            finetune(asked(resume=True))
    rows = [train[number] for number in batches[0]]
    assert f"over rows {', '.join(f'{row.file}:{row.line}' for row in rows[:8])}" in caught.value.message
    written = (tmp_path / "qa.jsonl").read_text().splitlines()
    assert json.loads(written[rows[0].line - 1])["text"] == rows[0].text
    assert [path.name for path in stages.saved_states(tmp_path / "out.training")] == ["step-00000001"]
    assert finetune(asked(resume=True)).status == "finished"


def test_a_loss_of_the_fusion_that_is_no_number_names_rows_too(asked, monkeypatch):
    seen = []
    made = stages.fused_targets
    monkeypatch.setattr(stages, "fused_targets", lambda *args, **options: seen.append(args) or made(*args, **options))
    batches = spoil(monkeypatch, FusionObjective)
    with pytest.raises(TrainingError, match="Step 1: the loss is nan") as caught:
        finetune(asked(settings=SHORT.replace("max_steps = 3", "max_steps = 1") + "[fusion]\n"))
    ((_, texts, *_),) = seen
    first = texts[batches[0][0]]
    file, line = caught.value.message.partition("over rows ")[2].split(",")[0].split(":")
    assert json.loads(Path(file).read_text().splitlines()[int(line) - 1])["text"] == first


def test_no_room_for_a_state_or_the_model_is_told_with_the_way_on(asked, tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(9, 9, 0))
        with pytest.raises(TrainingError, match="0 free"):
            finetune(asked())
    with monkeypatch.context() as patch:
        patch.setattr(bases, "save_trained", full)
        with pytest.raises(TrainingError, match=r"out cannot be written: No space left on device") as caught:
            finetune(asked())
    assert caught.value.hint.endswith("Make room, then go on: retriever tune --resume")
    assert not (tmp_path / "out").exists()
    steps = []
    report = finetune(asked(resume=True), on_progress=lambda stage, progress: steps.append(progress.step))
    assert (report.status, steps) == ("finished", [])


def test_an_adapter_that_does_nothing_is_not_passed_off_as_a_model(asked, tmp_path):
    with pytest.raises(CheckpointError, match="does nothing"):
        finetune(asked(settings=SHORT.replace("[loop]", "[loop]\nlearning_rate = 1e-12")))
    assert not (tmp_path / "out").exists()


def test_a_masked_model_learns_by_inbedder_alone(asked, tiny):
    base = f"inbedder:{tiny('roberta')}"
    settings = "[loop]\nmax_steps = 1\nlearning_rate = 0.01\n[adapter]\nrank = 2\n"
    assert finetune(asked(base=base, method="inbedder", settings=settings)).status == "finished"
    with pytest.raises(UsageError, match="masked model; instemb needs a causal one"):
        finetune(asked("other", base=base))


@pytest.mark.parametrize("section", ["fusion", "similarity"])
def test_what_a_masked_model_cannot_learn_beside_is_refused_before_training(asked, tiny, tmp_path, section):
    settings = f"[loop]\nmax_steps = 1\n[adapter]\nrank = 2\n[{section}]\n"
    with pytest.raises(UsageError, match=rf"masked model; \[{section}\] needs a causal one") as caught:
        finetune(asked(base=f"inbedder:{tiny('roberta')}", method="inbedder", settings=settings))
    assert f"[{section}]" in caught.value.hint
    assert not (tmp_path / "out.training").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"base": "st:all-minilm-l6-v2", "method": "instemb"},
            "instemb trains language models; st:all-minilm-l6-v2 is a sentence encoder",
        ),
        ({"index": "indexes/none"}, "instemb learns from no hard negatives"),
        ({"minutes": 0}, "minutes is 0; it should be greater than 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, changes, message):
    with pytest.raises(UsageError, match=message):
        finetune(asked(**changes))


def test_dicl_takes_an_index_for_rows_with_positives_only(asked, monkeypatch):
    monkeypatch.setattr(finetuning, "load_base", lambda *args, **options: pytest.fail("the model is loaded"))
    with pytest.raises(UsageError, match="for rows with positives only") as caught:
        finetune(asked(method="dicl", settings="", index="indexes/none"))
    assert "rows of query and positives" in caught.value.hint
    found = [{"query": f"kettle {place}", "positives": [f"it boils {place}"]} for place in range(24)]
    with pytest.raises(pytest.fail.Exception, match="the model is loaded"):
        finetune(asked(method="dicl", settings="", index="indexes/none", rows=found))


def test_a_folder_that_is_there_is_never_written_to(asked, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="out exists already"):
        finetune(asked())
    assert list((tmp_path / "out").iterdir()) == []
