"""What every command keeps to, whichever there are; help, options and pages are looked at in tests/cli too."""

import shlex
from pathlib import Path

import pytest
import typer.main

from retriever.cli.main import app, main

ROOT = Path(__file__).parents[2]


def leaves(group, path=()):
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        yield from leaves(command, (*path, name)) if inner else [((*path, name), command)]


COMMANDS = dict(leaves(typer.main.get_command(app)))
every_command = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def takes_json(path):
    return any(one.name == "json" for one in COMMANDS[path].params)


@every_command
def test_a_command_has_a_section_of_its_own(path):
    assert f"\n## {' '.join(path)}\n" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


@every_command
def test_the_example_of_a_command_is_one_it_takes(path):
    example = COMMANDS[path].help.split("Example: ")[1].split("\n\n")[0].strip()
    name, *argv = shlex.split(example)
    assert (name, tuple(argv[: len(path)])) == ("retriever", path)
    COMMANDS[path].make_context(path[-1], argv[len(path) :])


@every_command
@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_what_a_command_does_not_know_is_wrong_usage_and_no_result(path, json_too, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*path, "--no-such-option", *(["--json"] if json_too and takes_json(path) else [])]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: ")
    assert "--no-such-option" in said.err
    assert list(tmp_path.iterdir()) == []


@every_command
def test_one_argument_too_many_is_wrong_usage(path, capsys, tmp_path, monkeypatch):
    if any(one.nargs == -1 for one in COMMANDS[path].params if one.param_type_name == "argument"):
        pytest.skip("takes any number of them")
    monkeypatch.chdir(tmp_path)
    count = sum(one.param_type_name == "argument" for one in COMMANDS[path].params)
    assert main([*path, *["x"] * (count + 1)]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
