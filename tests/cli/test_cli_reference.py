"""Rules for every command, and pages that are made from the code."""

import shlex
from pathlib import Path

import typer.main
from cli_reference import reference
from scale_tables import RATES, TABLES, filling, with_tables
from settings_reference import with_table

from retriever.cli.help import ADVANCED
from retriever.cli.main import app
from retriever.core.environment import own_version

ROOT = Path(__file__).resolve().parents[2]


def leaves(group, path=()):
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        yield from leaves(command, (*path, name)) if inner else [((*path, name), command)]


COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_help_says_what_a_command_does_with_an_example_that_it_takes_and_takes_json(run):
    for path, command in COMMANDS.items():
        ran = run(*path, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert run(*path, "-h") == ran
        name, *argv = shlex.split(" ".join(ran.out.split("Example: ")[1].split("\n\n")[0].split()))
        assert (name, tuple(argv[: len(path)])) == ("retriever", path)
        command.make_context(path[-1], argv[len(path) :])
        assert ("--json" in ran.out) == (path not in (("app",), ("serve",), ("mcp",)))  # these serve: no result


def sections(help):
    """Return the lines of a help under each of its headings."""
    found = {}
    for line in help.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            lines = found[line] = []
        elif line and found:
            lines.append(line)
    return found


def test_commands_stand_under_headings_each_with_one_line_that_is_not_cut(run):
    shown = run("--help").out
    assert "..." not in shown.partition("Daily")[2]
    headings = sections(shown)
    assert list(headings) == ["Options:", "Daily commands:", "Index:", "Models:", "Servers:"]
    daily, *_, servers = list(headings.values())[1:]
    assert [line.split()[0] for line in daily] == "index search cluster compare report teach app".split()
    assert [line.split()[0] for line in servers] == ["serve", "mcp"]
    for help in (shown, run("models", "--help").out):
        _, *panels = sections(help).values()
        lines = [line for panel in panels for line in panel]
        assert all(line[:3].startswith("  ") and line[2] != " " and line.endswith(".") for line in lines), lines
        assert max(map(len, lines)) <= 78


def test_advanced_options_are_named_in_help_and_explained_in_the_reference(run):
    explained = dict(part.partition("\n")[::2] for part in reference().split("\n## ")[1:])
    for path, command in COMMANDS.items():
        options, advanced = (sections(run(*path, "--help").out).get(name, []) for name in ("Options:", f"{ADVANCED}:"))
        names = [option.opts[0] for option in command.advanced]
        assert [name for line in advanced for name in line.replace(",", " ").split()] == names
        assert not [line for line in options if line.split()[0] in names]
        for name in names:
            assert f"\n  {name} " in explained[" ".join(path)].partition("Advanced options:")[2]
    assert COMMANDS["search",].advanced[0].opts == ["--mode"]


def test_a_folder_of_indexes_has_an_option_of_its_own(run):
    for name in ("app", "serve", "mcp"):
        assert run(name, "--index", "indexes").failed_with(2, "No such option: --index", "--indexes")


def test_what_a_command_does_not_know_is_wrong_usage_and_no_result(run, tmp_path):
    for path, command in COMMANDS.items():
        json = ["--json"] if any(one.name == "json" for one in command.params) else []
        for more in ([], json):
            assert run(*path, "--no-such-option", *more).failed_with(2, "--no-such-option")
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        if all(one.nargs != -1 for one in arguments):
            assert run(*path, *["x"] * (len(arguments) + 1)).failed_with(2)
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_told(run):
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"retriever {own_version()}\n", "")


def test_every_option_has_its_help():
    for command in COMMANDS.values():
        assert [one.name for one in command.params if not one.help] == []


def test_the_reference_is_up_to_date():
    assert (ROOT / "docs/cli.md").read_text() == reference()


def test_the_table_of_settings_is_up_to_date():
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    assert page == with_table(page), "python docs/tools/settings_reference.py docs/models.md"
    for section in ("adapter", "loop", "batch", "similarity", "fusion", "data"):
        assert f"| `{section}` | `" in page
    for method, key in {"instemb": "views", "gircse": "teacher_weight", "inbedder": "end", "dicl": "tiered"}.items():
        assert f"| `objective`, {method} | `{key}` | " in page
    assert "; `0.0001` (gircse, dicl); `0.0002` (inbedder, instemb on a trained base); " in page


def test_no_command_shows_the_usage(run):
    for argv in ([], ["models"]):
        ran = run(*argv)
        assert ran.code == 2
        assert "Usage: retriever" in ran.out + ran.err
        assert "Error: Usage" not in ran.err


def test_the_page_has_the_tables_of_what_was_measured():
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert page == with_tables(page), "python docs/tools/scale_tables.py docs/scale.md"
    assert all(f"<!-- {name} -->" in page for name in TABLES)


def test_hours_are_reviews_by_the_rate():
    row = next(line for line in filling().splitlines() if line.startswith("| 100,000,000 | base view"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == [f"{RATES['base view']:.0f}", f"{1e8 / RATES['base view'] / 3600:,.0f}", "9"]
