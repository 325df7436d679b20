import json
import os
import re
import shlex
import signal

import finetune_fakes as fakes
import numpy as np
import pytest
import torch

from retriever.cli import finetune as command
from retriever.cli import output
from retriever.encoders.sources import is_installed
from retriever.encoders.wheels import WHEELS
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import mean_score
from retriever.training.run import finetuning

SHORT = "[loop]\nmax_steps = 2\n[batch]\ntexts = 4\n[adapter]\nrank = 2\nlook_ahead = 1\n[objective]\nviews = []\n"
KEYS = [
    "schema_version", "status", "output", "method", "base", "command", "seed", "data", "steps", "scores", "examples",
    "verdict", "active", "promoted", "config", "versions", "notes",
]  # fmt: skip


@pytest.fixture
def general(monkeypatch):
    """Give the encoders a general score, the trained one first and then its base; 70 each by default."""

    def scores(*values):
        left = list(values)

        def score(encoder, *, seed=0):
            found = mean_score("general", "mean", np.full(9, left.pop(0) if left else 70.0), seed=seed)
            return GeneralScore(found, found, found)

        monkeypatch.setattr(finetuning, "general_score", score)

    scores()
    return scores


@pytest.fixture
def finetune(run, write, tiny, general, tmp_path, monkeypatch):
    """Run the command over the planted rows, two short steps by default."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    monkeypatch.setattr(finetuning, "draw_curves", lambda path, *data: path.write_text(""))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def command(*argv, rows=None, settings=SHORT):
        (tmp_path / "tune.toml").write_text(settings)
        fixed = ["--base", f"plain:{tiny('llama')}", "--config", "tune.toml", "--device", "cpu", "--dtype", "float32"]
        return run("finetune", write(rows or fakes.rows(24), "qa.jsonl"), "--output", "out", *fixed, *argv)

    yield command
    torch.set_num_threads(threads)


def test_a_model_that_got_better_becomes_the_default(finetune, run, tmp_path):
    ran = finetune(rows=fakes.rows(), settings=fakes.FAST)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "68 training rows, 28 held out, 0 skipped."
    assert lines[1].startswith("held-out triplets, successes: ")
    assert lines[2] == "general, mean: 70.0 [70.0, 70.0] -> 70.0 [70.0, 70.0], +0.0 [+0.0, +0.0]"
    assert re.fullmatch(r'An example: "the .*" under "what .*" \(answer: "\w+"\) finds', lines[-4])
    assert re.fullmatch(r'  before: (right|wrong): "the .*" \(answer: "\w+"\)', lines[-3])
    assert re.fullmatch(r'  after:  (right|wrong): "the .*" \(answer: "\w+"\)', lines[-2])
    assert lines[-1].startswith("It got better on the held-out rows and kept its general quality (held-out ")
    assert lines[-1].endswith("out is the default encoder now.")
    assert "qa.jsonl: text <- text, instruction <- question, answer <- answer" in ran.err
    found = json.loads((tmp_path / "out/finetune.json").read_text())
    assert found["command"] == shlex.join(shlex.split(found["command"]))
    assert found["command"].startswith("retriever finetune qa.jsonl --output out --base plain:")
    assert run("models", "show", "default", "--json").document["name"] == str(tmp_path / "out")


def test_a_model_that_got_worse_is_kept_and_the_numbers_are_told(finetune, general, tmp_path):
    general(60, 70)
    ran = finetune(rows=fakes.rows(), settings=fakes.FAST)
    assert ran.code == 0
    assert "lost 10.0 points, more than 1, in general" in ran.out
    assert ran.out.endswith("general 70.0 -> 60.0). out was kept, but is not the default.\n")
    assert (tmp_path / "out/retriever.json").exists()
    assert not (tmp_path / "user").exists()


def test_an_example_is_one_search_without_control_characters(capsys):
    found = [{"text": "kettle\x1b[31m\nis " + "x" * 90, "answer": "a\rb", "right": True}]
    wrong = [{"text": "lamp", "answer": "", "right": False}]
    command._render_example({"query": "q\x07", "instruction": "", "answer": "k", "before": wrong, "after": found})
    assert capsys.readouterr().out.splitlines() == [
        'An example: "q " (answer: "k") finds',
        '  before: wrong: "lamp"',
        f'  after:  right: "kettle [31m is {"x" * 62}..." (answer: "a b")',
    ]


def test_json_is_one_document_with_stable_keys(finetune):
    ran = finetune("--json", "--no-promote", "--seed", "3", "--epochs", "2")
    document = ran.document
    assert list(document) == KEYS
    assert (document["status"], document["method"], document["seed"], document["promoted"]) == (
        "finished", "instemb", 3, False
    )  # fmt: skip
    assert list(document["data"]) == [
        "files", "sha256", "train", "held_out", "skipped", "truncated", "quarantined"
    ]  # fmt: skip
    assert (document["steps"]["done"], document["steps"]["all"]) == (2, 2)
    assert [one["task"] for one in document["scores"]] == ["held-out answers", *["general"] * 3]
    assert document["config"]["loop"]["epochs"] == 2
    assert [list(one) for one in document["examples"]] == [["query", "instruction", "answer", "before", "after"]] * 2
    assert document["active"]["to_base"] > document["active"]["to_trained"]


def test_rows_that_cannot_be_used_are_told_with_code_3(finetune):
    bad = [{"text": "x", "question": "y", "answer": ""}] * 4
    ran = finetune(rows=[*fakes.rows(24), *bad])
    assert ran.code == 3
    assert "qa.jsonl, row 49 was skipped: 'answer' is empty." in ran.err
    assert ran.err.count("was skipped") == 3
    assert "4 rows were skipped in all; --json lists them." in ran.err


def test_ctrl_c_saves_the_run_and_says_how_to_go_on(finetune, monkeypatch, tmp_path):
    def interrupt(line, text):
        if "step 1 of 2" in text:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(output.ProgressLine, "tell", interrupt)
        ran = finetune()
    assert (ran.code, ran.out) == (130, "")
    assert "Error" not in ran.err
    first, second = ran.err.splitlines()[-2:]
    assert first == "Interrupted; the state after step 1 is saved."
    assert second.startswith("Go on: retriever finetune qa.jsonl --output out ")
    assert second.endswith(" --resume")
    assert finetune("--resume").code == 0


def test_a_run_stopped_by_the_clock_says_how_to_go_on(finetune):
    ran = finetune("--minutes", "1e-9")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("Stopped after step 1 of 2. To continue: retriever finetune qa.jsonl")
    assert "--minutes 1e-09" in ran.out
    assert ran.out.endswith(" --resume\n")
    assert finetune().failed_with(2, "out.training holds a run that was stopped", "--resume")
    document = finetune("--minutes", "1e-9", "--resume", "--json").document
    assert (document["status"], document["steps"]["done"]) == ("finished", 2)


def test_progress_has_loss_rate_and_time_left(finetune, monkeypatch):
    told = []
    monkeypatch.setattr(output.ProgressLine, "tell", lambda line, text: told.append(text))
    finetune()
    assert told[0].startswith("instemb: step 1 of 2, loss ")
    assert told[0].endswith(" s left")
    assert " rows/s, " in told[0]


def test_what_is_done_beside_training_is_said_with_the_memory_before_it_begins(finetune):
    said = finetune().err.splitlines()
    assert said[0] == "loading the model"
    assert said[1].startswith("Training takes about ")
    assert said[2:4] == ["measuring the model after training", "measuring the model before training"]


@pytest.mark.parametrize(
    ("argv", "rows", "settings", "code", "parts"),
    [
        ([], fakes.rows(5), SHORT, 1, ["qa.jsonl: 10 rows can be used; at least 20 are needed"]),
        ([], [{"a": 1}], SHORT, 1, ["qa.jsonl, row 1: the fields are not known: 'a'", "Rename"]),
        ([], None, "[loop]\nepoch = 2\n", 2, ["tune.toml, [loop]: there is no key 'epoch'", "'epochs'"]),
        (["--method", "dicl", "--base", "st:x"], None, "", 2, ["st:x is a sentence encoder"]),
        (["--base", "instmeb"], None, SHORT, 1, ["Unknown encoder 'instmeb'", "'instemb'"]),
        (["--index", "indexes/none"], None, SHORT, 2, ["instemb learns from no hard negatives", "gircse and dicl"]),
        (["--method", "gircse", "--index", "no"], None, "", 1, ["There is no index at no"]),
        (["--minutes", "0"], None, SHORT, 2, ["minutes is 0.0"]),
        (["--method", "tune"], None, SHORT, 2, ["The method 'tune' is not known"]),
        (["--config", "none.toml"], None, SHORT, 2, ["none.toml cannot be read: No such file"]),
    ],
)
def test_mistakes_are_named_and_nothing_is_made(finetune, tmp_path, argv, rows, settings, code, parts):
    assert finetune(*argv, rows=rows, settings=settings).failed_with(code, *parts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qa.jsonl", "tune.toml"]


def test_an_output_is_asked_for_and_never_overwritten(finetune, run, tmp_path):
    assert run("finetune", "qa.jsonl").failed_with(2, "--output")
    (tmp_path / "out").mkdir()
    assert finetune().failed_with(2, "out exists already")


def test_an_output_that_cannot_be_written_is_an_error(finetune, write):
    write(b"precious", "file")
    assert finetune("--output", "file/out").failed_with(1, "file/out cannot be written: Not a directory")


@pytest.mark.model
def test_the_example_rows_teach_the_real_model(run, general, tmp_path, monkeypatch):
    if not is_installed("smollm2-135m"):
        pytest.skip(f"the backbone is missing: {WHEELS['smollm2-135m'].install}")
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    settings = "[loop]\nmax_steps = 4\nlearning_rate = 2e-3\n[batch]\ntexts = 8\n[adapter]\nlayers = 8\n"
    (tmp_path / "tune.toml").write_text(f"{settings}[data]\nmax_text_tokens = 48\n")
    (tmp_path / "qa.jsonl").write_text("".join((fakes.EXAMPLES / "qa.jsonl").open().readlines()[:80]))
    base = ["--base", "instemb:smollm2-135m", "--config", "tune.toml", "--no-promote"]
    document = run("finetune", "qa.jsonl", "--output", "out", *base, "--json").document
    assert (document["status"], document["data"]["skipped"], document["steps"]["done"]) == ("finished", 0, 4)
    assert document["active"]["to_base"] > 4 * document["active"]["to_trained"]
    held_out = document["scores"][0]
    assert held_out["task"] == "held-out answers"
    assert held_out["after"]["value"] > held_out["before"]["value"]
    assert (tmp_path / "out/curves.svg").stat().st_size > 10_000


PRODUCT = "Which product is it?"
ROWS = [
    {"text": "The kettle broke.", "question": PRODUCT, "answer": "a kettle"},
    {"text": "The kettle  broke!", "question": PRODUCT, "answer": "an urn"},
    {"text": "I love this lamp.", "question": PRODUCT, "answer": "a lamp"},
    {"text": "A toy to hate.", "question": PRODUCT, "answer": "a kettle"},
    {"text": "x", "question": PRODUCT, "answer": "a toy"},
]


@pytest.fixture
def curate(run, fake, write):
    """Run the command over a file of rows."""
    return lambda *argv, rows=ROWS: run("curate", write(rows, "qa.jsonl"), "out.jsonl", *argv)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_steps_are_told_and_the_rows_written(curate, tmp_path):
    ran = curate()
    assert (ran.code, ran.err) == (0, "qa.jsonl: text <- text, instruction <- question, answer <- answer\n")
    lines = ran.out.splitlines()
    assert lines[0] == "length: 1 of 5 rows dropped, 4 left"
    assert lines[2] == "    qa.jsonl, row 5: Which product is it? | x | a toy"
    assert "duplicates: 1 of 4 rows dropped, 3 left" in lines
    assert "experts: skipped, no expert encoder was named" in lines
    assert lines[-1] == "3 of 5 rows written to out.jsonl."
    assert read(tmp_path / "out.jsonl") == [ROWS[0], ROWS[2], ROWS[3]]


def test_experts_vote_and_the_first_mines_negatives_that_are_read_again(curate, run, tmp_path):
    rows = [
        *ROWS,
        {"text": "The kettle is too loud.", "question": PRODUCT, "answer": "a toy"},
        {"text": "This lamp is too dim.", "question": PRODUCT, "answer": "a toy"},
    ]
    document = curate("--expert", "keywords", "--expert", "keywords", "--json", rows=rows).document
    # The right answers have a cosine of 1, the three wrong ones of 1/2, which is the median.
    votes = next(step for step in document["steps"] if step["step"] == "experts")
    assert (votes["before"], votes["reasons"]) == (5, {"not above the median of keywords": 3})
    assert votes["notes"] == ["keywords: median 0.500"]
    written = read(tmp_path / "out.jsonl")
    assert written == [{**ROWS[0], "negatives": ["a lamp"]}, {**ROWS[2], "negatives": ["a kettle"]}]
    again = run("curate", "out.jsonl", "again.jsonl", "--json").document
    assert next(iter(again["mappings"].values())).endswith("answer <- answer, negatives <- negatives")
    assert read(tmp_path / "again.jsonl") == written


def test_json_is_one_document(curate):
    ran = curate("--json")
    assert ran.err == ""
    document = ran.document
    assert list(document) == [
        "schema_version", "output", "mappings", "read", "written", "skipped", "quarantined", "steps"
    ]  # fmt: skip
    assert (document["read"], document["written"], document["skipped"]) == (5, 3, 0)
    assert [step["after"] for step in document["steps"]] == [4, 4, 3, 3, 3, 3]
    assert document["steps"][0]["examples"][0]["row"]["text"] == "x"


def test_rows_that_cannot_be_read_are_skipped_with_code_3(curate, tmp_path):
    rows = [*ROWS, *[{"text": "No answer here.", "question": PRODUCT}] * 4]
    ran = curate(rows=rows)
    assert ran.code == 3
    assert "qa.jsonl, row 6 was skipped: a field of the layout 'text, question, answer' is missing" in ran.err
    assert ran.err.count("was skipped") == 3
    assert "4 rows were skipped in all" in ran.err
    assert len(read(tmp_path / "out.jsonl")) == 3
    document = curate("--json", rows=rows).document
    assert (document["skipped"], document["quarantined"][0]["line"]) == (4, 6)


@pytest.mark.parametrize(
    ("argv", "code", "parts"),
    [
        (["none.jsonl", "out.jsonl"], 1, ["There is no file none.jsonl"]),
        (["qa.jsonl", "out.csv"], 2, ["out.csv cannot be written", "JSON Lines"]),
        (["qa.jsonl", "qa.jsonl"], 1, ["qa.jsonl is the input"]),
        (["qa.jsonl", "none/out.jsonl"], 1, ["there is no folder none"]),
        (["qa.jsonl", "folder.jsonl"], 1, ["folder.jsonl is a folder"]),
        (["qa.jsonl", "out.jsonl", "--margin", "2"], 2, ["margin is 2.0; it should be less than or equal to 1"]),
        (["qa.jsonl", "out.jsonl", "--max-chars", "2"], 2, ["4 to 2 characters"]),
        (["qa.jsonl", "out.jsonl", "--negatives", "0"], 2, ["count"]),
        (["short.jsonl", "out.jsonl"], 1, ["no row is left of 1; the step 'length' dropped 1", "Nothing was written"]),
        (["other.jsonl", "out.jsonl"], 1, ["other.jsonl, row 1: the fields are not known: 'a'", "Rename"]),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(run, fake, write, tmp_path, argv, code, parts):
    write(ROWS, "qa.jsonl")
    write(ROWS[-1:], "short.jsonl")
    write([{"a": 1}], "other.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    before = sorted(tmp_path.iterdir())
    assert run("curate", *argv).failed_with(code, *parts)
    assert sorted(tmp_path.iterdir()) == before


def test_control_characters_of_a_row_never_reach_the_terminal(curate):
    ran = curate(rows=[*ROWS, {"text": "\x1b[31", "question": PRODUCT, "answer": "a\x1b[0m" + "x" * 2000}])
    assert "\x1b" not in ran.out + ran.err
