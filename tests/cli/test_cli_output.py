import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from cli_fakes import KeywordEncoder

from retriever.cli import output
from retriever.cli.output import ProgressLine
from retriever.core.results import Forecast, IndexingReport
from retriever.workspace import Index

RUN = "import sys; from retriever.cli.main import main; code = main({}); "
HEAVY = {"torch", "faiss", "transformers", "pyarrow", "duckdb", "python_calamine"}
PROBE = f"print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
HOSTILE = "a\x1b[31mred\x1b]0;title\x07\x9b31m\x08\r\x7f\u202etoy\u2066"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def environment(**changes):
    return {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "RETRIEVER_DEBUG")} | changes


def python(code, *, cwd):
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)


def test_help_is_quick_and_loads_no_model_library(tmp_path):
    help = RUN.format(["search", "--help"])
    for code in (help, RUN.format(["models", "list"]), "import sys, retriever; "):
        assert python(code + PROBE, cwd=tmp_path).stderr == "[]\n"
    # Modules are counted, since every clock tells of the machine too.
    assert int(python(help + "print(len(sys.modules), file=sys.stderr)", cwd=tmp_path).stderr) < 450


def test_progress_counts_rows_or_texts_and_leaves_out_what_is_not_known(monkeypatch):
    told = []
    monkeypatch.setattr(ProgressLine, "tell", lambda line, text: told.append(text))
    for report in (
        IndexingReport(in_hand=10, rows=40),
        IndexingReport(in_hand=10),
        IndexingReport(in_hand=10, rows=40, expected=600),
        IndexingReport(in_hand=10, rows=40, views=[1, 4], left=75.0),
        IndexingReport(rows=40),
        IndexingReport(in_hand=20, expected=40, judging=True, left=21.0),
    ):
        ProgressLine().show(report)
    assert told == [
        "10 of 40 rows",
        "10 rows",
        "10 of 600 texts",
        "10 of 40 rows in 2 views, 1 min 15 s left",
        "0 of 40 rows",
        "checking whether the model follows the question: 20 of 40 texts, 21 s left",
    ]


def test_what_takes_long_is_said_once_and_what_does_not_is_left_unsaid(capsys):
    long = Forecast(20_220, 1, 720.0, plain=20.0)
    with ProgressLine() as line:
        for forecast in (None, long, long, Forecast(20_220, 1, 29.0), Forecast(1, 0, 3600.0), Forecast(600, 2, 40.0)):
            line.show(IndexingReport(in_hand=10, forecast=forecast))
    assert capsys.readouterr().err.splitlines() == [
        "This takes about 12 minutes for 20,220 texts under 1 instruction; without instructions, about 20 seconds.",
        "This takes about 60 minutes for 1 text.",
        "This takes about 40 seconds for 600 texts under 2 instructions.",
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


def test_a_search_says_how_many_texts_it_has_read_of_how_many(indexed, monkeypatch):
    told, search = [], Index.search_progressively

    def reading(index, request, on_texts):
        on_texts(3, 9)
        yield from search(index, request, on_texts)

    monkeypatch.setattr(ProgressLine, "tell", lambda line, text: told.append(text))
    monkeypatch.setattr(Index, "search_progressively", reading)
    assert indexed("search", "kettle", "--instruction", "What colour?").code == 0
    assert told[0] == "3 of 9 texts"


def on_terminal(cwd, *, argv=("search", "-", "--mode", "lexical"), columns=80, **changes):
    """Return what a search and a mistake show on a terminal."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    code = RUN.format([*argv]) + "main(['search', '--like', 'no'])"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(**{"TERM": "xterm", "COLUMNS": str(columns), **changes}),
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


def test_a_coloured_message_keeps_its_colour_and_no_control_of_its_text(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    output.say(f"{HOSTILE} is not followed", "yellow")
    said = capsys.readouterr().err
    assert said.startswith("\x1b[33m")
    assert said.endswith(" is not followed\x1b[0m\n")
    assert not CONTROLS.search(said.removeprefix("\x1b[33m").removesuffix("\x1b[0m\n"))


def test_control_characters_never_reach_the_terminal(hostile):
    for argv in HOSTILE_COMMANDS.values():
        ran = hostile(*argv, stdin=f"kettle\n{HOSTILE}\n".encode())
        assert ran.out + ran.err
        assert CONTROLS.search(ran.out + ran.err) is None, argv


def test_an_id_or_word_cannot_forge_a_line_of_the_answer(run, write, monkeypatch):
    forged = "".join(f"{end}  1  1.000  mine" for end in ("\n", "\r\n", "\u2028", "\x0b"))

    class Forging(KeywordEncoder):
        def answers(self, text, instruction):
            return [f"toy{forged}"]

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Forging())
    run("index", write([{"id": f"a{forged}", "text": f"kettle{forged}"}]))
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


def through(pipe, argv, cwd):
    """Run a command with such a pipe around it; return the lines that come through, and last its exit code."""
    code = RUN.format(argv) + "sys.exit(code)"
    script = pipe.replace("COMMAND", f'{sys.executable} -c "$0"') + "; echo ${PIPESTATUS[0]}"
    ran = subprocess.run(["bash", "-c", script, code], cwd=cwd, env=environment(), capture_output=True, timeout=300)
    assert all(line.endswith(b"by words") for line in ran.stderr.splitlines()), ran.stderr
    return ran.stdout.decode().splitlines()


TECHNICAL = re.compile(
    r"\b(silhouette|cohesion|entropy|fused|lazy|views?|cosine|percentile|dense|hybrid)\b", re.IGNORECASE
)
QUESTION = ["--instruction", "Which product is it?"]


def test_results_have_no_technical_words_without_explain(indexed):
    for argv in (
        ["index", "corpus.jsonl", *QUESTION],
        ["search", "kettle"],
        ["search", "kettle", *QUESTION],
        ["search", "kettle", "--where", "stars > 5"],
        ["cluster", *QUESTION, "--into", "kettle, toy", "--save", "mine"],
        ["cluster", "--saved", "mine"],
        ["cluster", *QUESTION, "-k", "2", "--save", "two"],
        ["cluster", "--saved", "two"],
    ):
        ran = indexed(*argv)
        assert ran.code == 0
        assert TECHNICAL.findall(ran.out + ran.err) == [], argv
    assert TECHNICAL.findall(indexed("search", "kettle", "--explain").err) == ["hybrid", "view"]


def test_lines_fit_the_terminal(indexed, write, tmp_path):
    text = f"The lamp {'is of polished brass and ' * 20} broke."
    assert indexed("index", write([{"id": "long", "text": text}], "more.jsonl")).code == 0
    shown = on_terminal(tmp_path, argv=["search", "lamp", "--mode", "lexical", "-k", "3"], columns=50)
    lines = [CONTROLS.sub("", line) for line in shown.splitlines()]
    assert len([line for line in lines if line.startswith("     ")]) > 3
    assert max(map(len, lines)) <= 60  # control sequences lose their first character alone


def test_progress_is_cleared_before_other_output(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    with ProgressLine() as line:
        line._next = 0.0
        line.tell("426 of 600 texts in 2 views, 24 s left")
        output.say("A note.")
        line._next = 0.0
        line.tell("600 of 600 texts")
    cleared = "\r\x1b[K"
    assert capsys.readouterr().err == (
        f"{cleared}426 of 600 texts in 2 view...{cleared}A note.\n{cleared}600 of 600 texts{cleared}"
    )


def test_progress_off_a_terminal_ends_with_the_last_state(capsys):
    with ProgressLine() as line:
        line.tell("1 of 600 texts")
        line._next = 0.0
        line.tell("426 of 600 texts, 24 s left")
        line.tell("600 of 600 texts")
    assert capsys.readouterr().err == "426 of 600 texts, 24 s left\n600 of 600 texts\n"
    with ProgressLine() as line:
        line.tell("a quick run says nothing")
    assert capsys.readouterr().err == ""


def test_what_is_recognised_in_a_file_is_said_once(run, fake, write):
    data = b"id,text,price\n1,a toy,5\n2,a caf&eacute; kettle,6\n"
    ran = run("index", write(data, "reviews.csv"))
    assert ran.err.splitlines() == ["reviews.csv: 'price' read as a number", "reviews.csv: HTML entities decoded"]
    assert run("index", "reviews.csv", "--raw", "--sync").err == ""


def test_a_closed_pipe_ends_quietly(indexed, tmp_path):
    (tmp_path / "queries.txt").write_text("kettle\nlamp\ntoy\n" * 700)
    argv = ["search", "-", "--mode", "lexical"]
    assert through("COMMAND < queries.txt | head -n 1", argv, tmp_path) == ["kettle", "0"]
    argv = ["search", "kettle", "--mode", "lexical", "--json"]
    assert through("(sleep 0.1; COMMAND) | true", argv, tmp_path) == ["0"]


def test_an_app_that_cannot_start_is_an_error(run, monkeypatch):
    from retriever_app import serving

    def taken(*args, **options):
        raise SystemExit(1)  # as Streamlit does where the port is taken

    monkeypatch.setattr(serving, "serve", taken)
    assert run("app", "--port", "1").code == 1
