import re

import evaluation_fakes
import pytest
import typer
from cli_fakes import CORPUS

from retriever.cli.main import app

BOTH = ["--instruction", "Which product is it?", "--instruction", "What is the mood?"]
FILES = {
    ("cluster", "html"): ["cluster", "-k", "2", "--html", "out.html"],
    ("cluster", "png"): ["cluster", "-k", "2", "--png", "out.png"],
    ("cluster", "csv_file"): ["cluster", "-k", "2", "--csv", "out.csv"],
    ("classify", "csv_file"): ["classify", *BOTH[:2], "--into", "kettle, toy", "--csv", "out.csv"],
    ("search", "as_rows"): ["search", "kettle", "--more", "r1", "--as-rows", "out.jsonl"],
    ("compare", "html"): ["compare", *BOTH, "-k", "2", "--html", "out.html"],
    ("report", "file"): ["report", "mine", "--output", "out.html"],
    ("embed", "output_file"): ["embed", "corpus.jsonl", "--output", "out.npy"],
    ("curate", "target"): ["curate", "qa.jsonl", "out.jsonl"],
    ("eval", "report"): ["eval", "toys", "--report", "out.md"],
}
MADE_WHOLE = {
    ("export", "archive"): ["export", "out.tar"],
    ("eval", "trec"): ["eval", "toys", "--trec", "out"],
}
NEED_A_MODEL = {("finetune", "target"), ("export", "out"), ("merge", "folder")}
"""These are in test_cli_finetune.py and test_cli_models.py."""
NEED_CATEGORIES = {("classify", "as_rows")}
"""These are in test_cli_classify.py."""


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


@pytest.mark.parametrize("argv", [*FILES.values(), *MADE_WHOLE.values()], ids=lambda argv: argv[0] + argv[-2])
def test_what_cannot_be_written_is_an_error_that_names_it(prepared, tmp_path, argv):
    assert prepared(*named(argv, "file/out"), "--json").failed_with(1, "file/out", "cannot be written")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("argv", FILES.values(), ids=lambda argv: argv[0] + argv[-2])
def test_a_folder_is_not_written_over(prepared, tmp_path, argv):
    (tmp_path / argv[-1]).mkdir()
    assert prepared(*argv, "--json").failed_with(1, argv[-1])


def test_these_are_all_the_files_that_commands_write():
    def outputs(command):
        for inner in getattr(command, "commands", {}).values():
            yield from outputs(inner)
        for one in command.params:
            if re.search(r"\b[Ww]rite\b|folder to make", one.help or ""):
                yield command.name, one.name

    assert set(outputs(typer.main.get_command(app))) == {*FILES, *MADE_WHOLE, *NEED_A_MODEL, *NEED_CATEGORIES}
