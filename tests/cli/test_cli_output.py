import json
import os
import pty
import re
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer.main
from cli_fakes import KeywordEncoder
from cli_reference import reference
from settings_reference import with_table

from retriever.cli.main import app
from retriever.cli.output import ProgressLine
from retriever.core.results import IndexingReport

ROOT = Path(__file__).resolve().parents[2]
RUN = "import sys; from retriever.cli.main import main; code = main({}); "
PROBE = "print(sorted({'torch', 'faiss', 'transformers', 'pyarrow'} & set(sys.modules)), file=sys.stderr)"
HOSTILE = "a\x1b[31mred\x1b]0;title\x07\x9b31m\x08\r\x7f\u202etoy\u2066"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def leaves(group=None, path=()):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield [*path, name]


def environment(**changes):
    return {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "RETRIEVER_DEBUG")} | changes


def python(code, *, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", list(leaves()), ids=" ".join)
def test_help_says_what_a_command_does_with_an_example_and_takes_json(run, command):
    ran = run(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    example = " ".join(ran.out.split("Example: ")[1].split("\n\n")[0].split())
    assert example.startswith(f"retriever {' '.join(command)}")
    assert ("--json" in ran.out) == (command not in (["app"], ["serve"], ["mcp"]))  # which serve, and have no result


@pytest.mark.parametrize("command", [(), *leaves(), ["models"]], ids=" ".join)
def test_the_short_form_of_help_is_known_everywhere(run, command):
    assert run(*command, "-h") == run(*command, "--help")
    assert run(*command, "-h").code == 0


def test_the_version_is_told(run):
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"retriever {version('retriever')}\n", "")


def test_every_option_has_its_help():
    for path in leaves():
        command = typer.main.get_command(app)
        for name in path:
            command = command.commands[name]
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
    assert "| `loop` | `learning_rate` | `0.0001` (gircse, dicl); " in page


def processor_time(code, cwd):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(code, cwd=cwd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("argv", ["['--help']", "['search', '--help']", "['models', 'list']"])
def test_help_is_quick_and_loads_no_model_library(tmp_path, argv):
    ran = python(RUN.format(argv) + PROBE, cwd=tmp_path)
    assert ran.stdout
    assert ran.stderr == "[]\n"
    # Processor time, since the clock tells how busy the machine is, and beside NumPy's, since machines differ.
    took, numpy = [min(processor_time(code, tmp_path) for _ in range(3)) for code in (RUN.format(argv), "import numpy")]
    assert took < 4 * numpy


def test_importing_the_package_loads_no_model_library(tmp_path):
    ran = python("import sys, retriever; " + PROBE, cwd=tmp_path)
    assert ran.stderr == "[]\n"


def test_no_command_shows_the_usage(run):
    for argv in ([], ["models"]):
        ran = run(*argv)
        assert ran.code == 2
        assert "Usage: retriever" in ran.out + ran.err
        assert "Error: Usage" not in ran.err


def test_progress_counts_rows_or_texts_and_leaves_out_what_is_not_known(monkeypatch):
    told = []
    monkeypatch.setattr(ProgressLine, "tell", lambda line, text: told.append(text))
    ProgressLine(40).show(IndexingReport(in_hand=10, tokens=500, seconds=5))
    ProgressLine().show(IndexingReport(in_hand=10, tokens=500, seconds=5))
    ProgressLine().show(IndexingReport(in_hand=10, expected=600, tokens=500, seconds=5))
    ProgressLine(40).show(IndexingReport(in_hand=10, seconds=5, views=[1, 4]))
    ProgressLine(40).show(IndexingReport())
    assert told == [
        "10 of 40 rows, 500 tokens, 100 tokens/s, 15 s left",
        "10 rows, 500 tokens, 100 tokens/s",
        "10 of 600 texts, 500 tokens, 100 tokens/s, 4 min 55 s left",
        "10 of 40 rows in 2 views, 15 s left",
        "0 of 40 rows",
    ]


def test_every_command_that_embeds_says_how_far_it_is(indexed, write, monkeypatch):
    told = []
    monkeypatch.setattr(ProgressLine, "tell", lambda line, text: told.append(text))
    for argv in (
        ["index", write([{"id": "new", "text": "A lamp."}], "more.jsonl")],
        ["views", "--complete", "What mood?"],
        ["cluster", "--instruction", "Which product?", "-k", "2"],
        ["compare", "--instruction", "How is it?", "--instruction", "Who is it for?", "-k", "2"],
        ["reembed", "--encoder", "another"],
    ):
        assert indexed(*argv).code == 0
    reached = [text.removesuffix(", 0 s left") for text in told]
    assert list(dict.fromkeys(reached)) == ["1 of 1 rows", "6 of 6 texts"]


COMMANDS = [
    ["search", "kettle"],
    ["search", "kettle", "--instruction", "Which product?"],
    ["status"],
    ["models", "list"],
    ["compact"],
    ["delete", "r1"],
    ["search", "kettle", "-k", "0"],
    ["index", "missing.jsonl"],
]


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_nothing_is_coloured_or_moved_off_a_terminal(indexed, argv):
    ran = indexed(*argv)
    assert CONTROLS.search(ran.out + ran.err) is None


def on_terminal(cwd, **changes):
    """Return what a search and a mistake show on a terminal."""
    outer, inner = pty.openpty()
    code = RUN.format(["search", "-", "--mode", "lexical"]) + "main(['search', '--like', 'no'])"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(**{"TERM": "xterm", **changes}),
        input=b"kettle\nlamp\n",
        stdout=inner,
        stderr=inner,
        check=False,
    )
    os.close(inner)
    shown = os.read(outer, 100_000).decode()
    os.close(outer)
    return shown.replace("\r\n", "\n")


def test_a_terminal_has_colours_unless_no_color_says_otherwise(indexed, tmp_path):
    shown = on_terminal(tmp_path)
    assert "\x1b[32mr1\x1b[0m" in shown
    assert "\x1b[31mError:\x1b[0m There is no document 'no'." in shown
    plain = on_terminal(tmp_path, NO_COLOR="1")
    assert CONTROLS.search(plain) is None
    assert "Error: There is no document 'no'." in plain


@pytest.fixture
def hostile(run, write, monkeypatch):
    """An index whose ids, texts, fields and words want to steer the terminal."""

    class Hostile(KeywordEncoder):
        def answers(self, text, instruction):
            return [HOSTILE, *super().answers(text, instruction)]

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Hostile())
    rows = [
        {"id": HOSTILE, "text": f"kettle {HOSTILE}", "title": HOSTILE, HOSTILE: HOSTILE},
        {"id": "b", "text": "toy"},
    ]
    code = run("index", write([*rows, {"id": HOSTILE, "text": 5}], f"{HOSTILE}.jsonl")).code
    assert code == 3
    return run


HOSTILE_COMMANDS = {
    "search": ["search", "kettle"],
    "query": ["search", HOSTILE],
    "queries": ["search", "-"],
    "lexical": ["search", "kettle", "--mode", "lexical"],
    "instruction": ["search", "kettle", "--instruction", HOSTILE],
    "like": ["search", "--like", HOSTILE],
    "status": ["status"],
    "no such document": ["search", "--like", f"{HOSTILE}2"],
    "delete": ["delete", "b", f"{HOSTILE}2"],
    "nothing deleted": ["delete", f"{HOSTILE}2"],
    "filter": ["search", "kettle", "--where", f"{HOSTILE} = 1"],
    "field": ["search", "kettle", "--where", "zzz = 1"],
    "index": ["status", "--index", HOSTILE],
    "corpus": ["index", f"{HOSTILE}2.jsonl"],
    "bad row": ["embed", f"{HOSTILE}.jsonl", "-o", "v.npy"],
    "output": ["embed", "-", "-o", f"{HOSTILE}/v.npy"],
    "encoder": ["models", "show", HOSTILE],
    "option": ["search", f"--{HOSTILE}"],
    "command": [HOSTILE],
}


@pytest.mark.parametrize("argv", HOSTILE_COMMANDS.values(), ids=HOSTILE_COMMANDS)
def test_control_characters_never_reach_the_terminal(hostile, argv):
    if argv[0] == "status":
        hostile("search", "kettle", "--instruction", HOSTILE)  # makes a view of that name
    ran = hostile(*argv, stdin=f"kettle\n{HOSTILE}\n".encode())
    assert ran.out + ran.err
    assert CONTROLS.search(ran.out) is None
    assert CONTROLS.search(ran.err) is None


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x0b"], ids=ascii)
def test_an_id_or_word_cannot_forge_a_line_of_the_answer(run, write, monkeypatch, end):
    class Forging(KeywordEncoder):
        def answers(self, text, instruction):
            return [f"toy{end}  1  1.000  mine"]

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Forging())
    run("index", write([{"id": f"a{end}  1  1.000  mine", "text": f"kettle{end}  1  1.000  mine"}]))
    assert len(run("search", "kettle").out.splitlines()) == 2


def test_json_keeps_hostile_ids_texts_and_words_whole(hostile):
    ran = hostile("search", "kettle", "-k", "1", "--mode", "dense", "--json")
    [hit] = ran.document["hits"]
    assert (hit["id"], hit["text"]) == (HOSTILE, f"{HOSTILE}\nkettle {HOSTILE}")
    assert (hit["words"][0], hit["metadata"][HOSTILE]) == (HOSTILE, HOSTILE)


def test_a_long_text_is_cut_for_people_and_whole_in_json(run, fake, write):
    text = "kettle " * 100
    run("index", write([{"id": "a", "text": text}]))
    shown = run("search", "kettle").out.splitlines()[1].strip()
    assert (len(shown), shown[-3:]) == (220, "...")
    assert run("search", "kettle", "--json").document["hits"][0]["text"] == text


@pytest.mark.parametrize("form", ["", "--json"], ids=["text", "json"])
def test_a_closed_pipe_ends_quietly(indexed, tmp_path, form):
    (tmp_path / "queries.txt").write_text("kettle\nlamp\ntoy\n" * 700)
    code = RUN.format(["search", "-", "--mode", "lexical", *form.split()]) + "sys.exit(code)"
    ran = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$0" < queries.txt | head -n 1; echo ${{PIPESTATUS[0]}}', code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    first, status = ran.stdout.splitlines()
    assert (first, status) == ("{" if form else "kettle", "0")
    assert all(line.startswith("lexical search, base view, ") for line in ran.stderr.splitlines()), ran.stderr


def test_an_app_that_cannot_start_is_an_error(run, monkeypatch):
    from retriever_app import serving

    def taken(*args, **options):
        raise SystemExit(1)  # as Streamlit does where the port is taken

    monkeypatch.setattr(serving, "serve", taken)
    assert run("app", "--port", "1").code == 1


def test_a_pipe_closed_before_the_first_line_ends_quietly(indexed, tmp_path):
    code = RUN.format(["search", "kettle", "--mode", "lexical"]) + "sys.exit(code)"
    ran = subprocess.run(
        ["bash", "-c", f'(sleep 0.1; {sys.executable} -c "$0") | true; echo ${{PIPESTATUS[0]}}', code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.stdout == "0\n"
    assert "Traceback" not in ran.stderr
    assert "rror" not in ran.stderr


@pytest.mark.parametrize("argv", [["index", "missing.jsonl"], ["search", "kettle", "-k", "0"], ["search", "--nope"]])
def test_an_error_leaves_stdout_empty_with_json_too(indexed, argv):
    ran = indexed(*argv, "--json")
    assert ran.out == ""
    assert ran.err.startswith("Error: ")


@pytest.mark.parametrize("form", ["", "--json"], ids=["text", "json"])
def test_a_terminal_that_knows_ascii_alone_gets_an_answer(indexed, tmp_path, write, form):
    indexed("index", write([{"id": "ü", "text": "kettle 水"}], "more.jsonl"))
    ran = subprocess.run(
        [sys.executable, "-c", RUN.format(["search", "kettle", "--mode", "lexical", *form.split()]) + "sys.exit(code)"],
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    if form:
        assert "ü" in [hit["id"] for hit in json.loads(ran.stdout)["hits"]]
