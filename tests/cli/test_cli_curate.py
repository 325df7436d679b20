import json
import sys

import pytest

QUESTION = "Which product is it?"
ROWS = [
    {"text": "The kettle broke.", "question": QUESTION, "answer": "a kettle"},
    {"text": "The kettle  broke!", "question": QUESTION, "answer": "an urn"},
    {"text": "I love this lamp.", "question": QUESTION, "answer": "a lamp"},
    {"text": "A toy to hate.", "question": QUESTION, "answer": "a kettle"},
    {"text": "x", "question": QUESTION, "answer": "a toy"},
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
        {"text": "The kettle is too loud.", "question": QUESTION, "answer": "a toy"},
        {"text": "This lamp is too dim.", "question": QUESTION, "answer": "a toy"},
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
    rows = [*ROWS, *[{"text": "No answer here.", "question": QUESTION}] * 4]
    ran = curate(rows=rows)
    assert ran.code == 3
    assert "qa.jsonl, row 6 was skipped: a field of the layout 'text, question, answer' is missing" in ran.err
    assert ran.err.count("was skipped") == 3
    assert "4 rows were skipped in all" in ran.err
    assert len(read(tmp_path / "out.jsonl")) == 3
    document = curate("--json", rows=rows).document
    assert (document["skipped"], document["quarantined"][0]["line"]) == (4, 6)


def test_rows_come_from_stdin(run, tmp_path):
    data = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    assert run("curate", "-", "out.jsonl", stdin=data).code == 0
    assert len(read(tmp_path / "out.jsonl")) == 3


def test_limits_are_options(curate):
    rows = [{**row, "question": "What?"} for row in ROWS]
    steps = curate("--max-chars", "16", "--json", rows=rows).document["steps"]
    assert steps[0]["reasons"] == {"text over 16 characters": 3, "text under 4 characters": 1}


@pytest.mark.parametrize(
    ("argv", "code", "parts"),
    [
        (["none.jsonl", "out.jsonl"], 1, ["There is no file none.jsonl"]),
        (["qa.jsonl", "out.csv"], 2, ["out.csv cannot be written", "JSON Lines"]),
        (["qa.jsonl", "qa.jsonl"], 1, ["qa.jsonl is the input"]),
        (["qa.jsonl", "none/out.jsonl"], 1, ["there is no folder none"]),
        (["qa.jsonl", "folder.jsonl"], 1, ["folder.jsonl is a folder"]),
        (["qa.jsonl", "out.jsonl", "--margin", "2"], 2, ["The margin is 2.0"]),
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


def test_no_expert_is_loaded_for_rows_that_cannot_be_read(run, write, monkeypatch):
    monkeypatch.setattr(
        "retriever.encoders.catalog.load_encoder", lambda name, **options: pytest.fail(f"{name} was loaded")
    )
    write([{"a": 1}], "other.jsonl")
    for source, part in (("other.jsonl", "the fields are not known"), ("none.jsonl", "There is no file none.jsonl")):
        assert run("curate", source, "out.jsonl", "--expert", "minilm").failed_with(1, part)
    assert run("curate", "other.jsonl", "out.csv", "--expert", "minilm").failed_with(2, "out.csv cannot be written")


def test_the_progress_line_is_ended_before_an_error_is_told(curate, monkeypatch):
    closed = []
    monkeypatch.setattr("retriever.cli.output.ProgressLine.close", lambda line: closed.append(line))
    assert curate("--expert", "keywords", rows=[{"a": 1}]).failed_with(1, "the fields are not known")
    assert len(closed) == 1


def test_an_output_stays_as_it_was_until_the_new_one_is_whole(curate, tmp_path, monkeypatch):
    (tmp_path / "out.jsonl").write_text("precious\n")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        assert curate().failed_with(1, "out.jsonl cannot be written: No space left on device")
    assert (tmp_path / "out.jsonl").read_text() == "precious\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "qa.jsonl"]
    assert curate().code == 0
    assert len(read(tmp_path / "out.jsonl")) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_others_may_read_the_output_as_any_new_file(curate, tmp_path):
    curate()
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "out.jsonl").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_control_characters_of_a_row_never_reach_the_terminal(curate):
    ran = curate(rows=[*ROWS, {"text": "\x1b[31", "question": QUESTION, "answer": "a\x1b[0m" + "x" * 2000}])
    assert "\x1b" not in ran.out + ran.err
