"""Promises of every command that has such an option, from the table of commands: --device, and files to write."""

import re

import evaluation_fakes
import finetune_fakes
import pytest
import typer
import typer.main
from cli_fakes import CORPUS

from retriever import open_index
from retriever.cli.main import app
from retriever.core.errors import EncoderError
from retriever.core.types import Document

ASKED = ["--instruction", "Which product is it?"]
LOADING = {
    "index": ["index", "corpus.jsonl"],
    "search": ["search", "kettle", "--mode", "dense"],
    "cluster": ["cluster", "-k", "2", "--instruction", "What mood?"],
    "teach": ["teach", *ASKED, "examples.jsonl"],
    "compare": ["compare", *ASKED, "--instruction", "What mood?"],
    "report": ["report", "mine", "-o", "report.md"],
    "views": ["views", "--complete", "What mood?"],
    "embed": ["embed", "corpus.jsonl", "-o", "vectors.npy"],
    "reembed": ["reembed", "--encoder", "another"],
    "curate": ["curate", "qa.jsonl", "curated.jsonl", "--expert", "minilm"],
    "finetune": ["finetune", "qa.jsonl", "--output", "trained", "--base", "instemb:smollm2-135m"],
    "eval": ["eval", "toys", "--data", "data"],
    "diagnose": ["diagnose", *ASKED],
    "models export": ["models", "export", "default", "exported"],
}
"""Arguments of every command that loads an encoder."""


def commands_with_a_device(group=None, path=()):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands_with_a_device(command, (*path, name))
        for one in command.params:
            if "--device" in one.opts:
                yield " ".join((*path, name)), one.callback


@pytest.fixture
def loaded(indexed, write, monkeypatch, tmp_path):
    """Give the devices that encoders were loaded on; none is loaded."""
    write(finetune_fakes.rows(24), "qa.jsonl")
    write([{"id": f"m{row}", "text": f"{row} kettles"} for row in range(6)], "more.jsonl")
    write([{"id": f"m{row}", "answer": ("few", "many")[row > 2]} for row in range(6)], "examples.jsonl")
    indexed("index", "more.jsonl")
    indexed("cluster", "-k", "2", *ASKED, "--save", "mine")
    indexed("views", "--drop", ASKED[1])  # a report reads again what its clusters lack
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    evaluation_fakes.register(monkeypatch, tmp_path / "data")
    devices = []

    def load(*name, device="auto", **options):
        devices.append(device)
        raise EncoderError("No encoder in this test.")

    for one in ("encoders.catalog.load_encoder", "training.run.bases.load_trainable"):
        monkeypatch.setattr(f"retriever.{one}", load)
    return devices


def test_every_command_with_a_device_is_tried_here():
    commands = dict(commands_with_a_device())
    assert set(commands) == {*LOADING}
    assert {one.__name__ for one in commands.values()} == {"possible_device"}


def test_the_device_reaches_the_encoder(indexed, loaded, monkeypatch):
    monkeypatch.setattr("retriever.index.verdicts.diagnosis.LEAST_TEXTS", 1)
    for argv in (*LOADING.values(), ["index", "corpus.jsonl", "--index", "new"]):
        loaded.clear()
        # cpu:0 is nowhere the default.
        assert indexed(*argv, "--device", "cpu:0").failed_with(1, "No encoder in this test.")
        assert loaded == ["cpu:0"], argv


def test_the_device_of_an_index_reaches_its_encoder_from_python_too(indexed, loaded):
    for use in (
        lambda: open_index("indexes/default", device="cpu:0").search("kettle"),
        lambda: open_index("new", device="cpu:0").add([Document("a", "toy")]),
    ):
        with pytest.raises(EncoderError, match="No encoder in this test"):
            use()
    assert loaded == ["cpu:0", "cpu:0"]


def test_a_device_that_is_not_there_is_refused_where_none_is_needed_too(indexed, loaded, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    argv = ["search", "kettle", "--mode", "lexical", "--device"]
    assert indexed(*argv, "banana").failed_with(2, "'banana'")
    assert indexed(*argv, "cuda").failed_with(2, "No CUDA device is available.")


BOTH = ["--instruction", "Which product is it?", "--instruction", "What is the mood?"]
FILES = {
    ("cluster", "html"): ["cluster", "-k", "2", "--html", "out.html"],
    ("answers", "csv_file"): ["answers", *BOTH[:2], "--csv", "out.csv"],
    ("cluster", "csv_file"): ["cluster", "-k", "2", "--csv", "out.csv"],
    ("compare", "html"): ["compare", *BOTH, "-k", "2", "--html", "out.html"],
    ("report", "file"): ["report", "mine", "--output", "out.html"],
    ("embed", "output_file"): ["embed", "corpus.jsonl", "--output", "out.npy"],
    ("curate", "target"): ["curate", "qa.jsonl", "out.jsonl"],
    ("eval", "report"): ["eval", "toys", "--report", "out.md"],
}
MADE_WHOLE = {
    ("export", "archive"): ["export", "out.tar"],
}
NEED_A_MODEL = {("finetune", "target"), ("export", "out")}
"""These are in test_cli_finetune.py and test_cli_models.py."""
NEED_ANSWERS = {("answers", "as_rows")}
"""These are in test_cli_groups.py."""


@pytest.fixture
def prepared(indexed, write, monkeypatch, tmp_path):
    """Run commands where whatever they read is there, and a file lies where they want a folder."""
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    evaluation_fakes.register(monkeypatch, tmp_path / "data")
    write([{"text": one["text"], "question": "What?", "answer": "It is a thing."} for one in CORPUS], "qa.jsonl")
    (tmp_path / "file").write_text("precious")
    indexed("cluster", "-k", "2", "--save", "mine")
    return indexed


def named(argv, place):
    return [re.sub(r"^out", place, one) for one in argv]


def test_what_cannot_be_written_is_an_error_that_names_it(prepared, tmp_path):
    for argv in (*FILES.values(), *MADE_WHOLE.values()):
        assert prepared(*named(argv, "file/out"), "--json").failed_with(1, "file/out", "cannot be written")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_is_not_written_over(prepared, tmp_path):
    for argv in FILES.values():
        (tmp_path / argv[-1]).mkdir(exist_ok=True)
        assert prepared(*argv, "--json").failed_with(1, argv[-1])


def test_these_are_all_the_files_that_commands_write():
    def outputs(command):
        for inner in getattr(command, "commands", {}).values():
            yield from outputs(inner)
        for one in command.params:
            if re.search(r"\b[Ww]rite\b|folder to make", one.help or ""):
                yield command.name, one.name

    elsewhere = NEED_A_MODEL | NEED_ANSWERS
    assert set(outputs(typer.main.get_command(app))) == {*FILES, *MADE_WHOLE, *elsewhere}
