"""Every file beside a corpus is read alike: the same value however people, editors and spreadsheets saved it."""

import ast
import csv
import io
import json
import sys
from pathlib import Path

import pytest

from retriever.api.settings import read_instructions, read_tokens
from retriever.cli.models import _texts
from retriever.cli.output import stdin_lines
from retriever.clusters.categories import Category, read_categories
from retriever.core.errors import InputError, RetrieverError
from retriever.evaluation.rows import read_rows
from retriever.index.asking.limits import ReadingLimits, read_limits
from retriever.index.teaching.answer_files import read_answers
from retriever.index.teaching.examples import Example, read_examples
from retriever.index.verdicts.diagnosis import TextPair
from retriever.index.verdicts.pairs import read_pairs
from retriever.training.config import read_config
from retriever.training.rows import read_training_rows

RETRIEVER = Path(sys.modules["retriever"].__file__).parent
SAVED = {
    "plain": lambda text: text.encode(),
    "byte order mark": lambda text: text.encode("utf-8-sig"),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16, the other end first": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
}
READING = {"read_beside", "read_fields", "read_lines", "read_text", "read_toml"}
TOKEN = "caf0" * 8


def from_stdin(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        return stdin_lines()


def without_place(examples):
    return [Example(example.answer, example.id, example.text) for example in examples]


def questions(path):
    return [(row.text, row.instruction, row.answer) for row in read_training_rows([path]).rows]


ROWS = {
    "index.teaching.answer_files:read_answers": (
        read_answers,
        [{"id": "d00", "answer": "the lid\u2028or so"}, {"id": "007", "answer": "é, 水"}],
        {"d00": "the lid\u2028or so", "007": "é, 水"},
    ),
    "index.teaching.examples:read_examples": (
        lambda path: without_place(read_examples(path)),
        [{"id": "007", "answer": "so schön"}, {"id": "d04", "answer": "the zip"}],
        [Example("so schön", "007"), Example("the zip", "d04")],
    ),
    "index.verdicts.pairs:read_pairs": (
        read_pairs,
        [{"a": "one\u2028text", "b": "1", "same": True}, {"a": "é", "b": "水", "same": False}],
        [TextPair("one\u2028text", "1", True), TextPair("é", "水", False)],
    ),
    "clusters.categories:_of_file": (
        lambda path: read_categories(str(path)),
        [{"name": "broken", "description": "broke\u2028or cracked"}, {"name": "schön", "description": ""}],
        [Category("broken", "broke or cracked"), Category("schön")],
    ),
    "training.rows:read": (
        questions,
        [{"text": "é\u2028a", "question": "Which?", "answer": "007"}, {"text": "b", "question": "Q", "answer": "y"}],
        [("é\u2028a", "Which?", "007"), ("b", "Q", "y")],
    ),
    "evaluation.rows:read_rows": (
        lambda path: [dict(row.values) for row in read_rows(path.parent, path.name)],
        [{"id": "007", "text": "é\u2028a"}, {"id": "b", "text": "水"}],
        [{"id": "007", "text": "é\u2028a"}, {"id": "b", "text": "水"}],
    ),
}
"""By module and function that reads: how it is called, rows in a file, and what they mean."""

TEXTS = {
    "cli.output:stdin_lines": (from_stdin, "ids", "d00\nd\u202804\né\n", ["d00", "d\u202804", "é"]),
    "cli.models:_texts": (lambda path: _texts(str(path), None), "a.txt", "a\u2028b\né\n", ["a\u2028b", "é"]),
    "clusters.categories:_of_file": (
        lambda path: read_categories(str(path)),
        "a.txt",
        "so schön\nthe\u2028zip\n",
        [Category("so schön"), Category("the zip")],
    ),
    "clusters.categories:_of_file as a list": (
        lambda path: read_categories(str(path)),
        "a.json",
        '["so schön",\n {"Name": "b", "EXAMPLES": ["r1"]}]\n',
        [Category("so schön"), Category("b", examples=("r1",))],
    ),
    "api.settings:read_instructions": (
        read_instructions,
        "a.toml",
        'product = "What\u2028is it?"\nmood = "Où?"\n',
        {"product": "What\u2028is it?", "mood": "Où?"},
    ),
    "api.settings:_token": (lambda path: read_tokens(path, None).reader, "reader.token", f"{TOKEN}\n", TOKEN),
    "index.asking.limits:read_limits": (
        lambda path: read_limits(path.parent),
        "settings.toml",
        "[reading]  # é\nmax_texts = 300\n",
        ReadingLimits(texts=300),
    ),
    "training.config:read_config": (
        lambda path: read_config(path, None, rows=200).loop.max_steps,
        "a.toml",
        "[loop]  # é\nmax_steps = 7\n",
        7,
    ),
}
"""By module and function that reads: how it is called, a file's name, its text, and what it means."""


def as_csv(rows):
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue()


def as_lines(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def upper(rows):
    return [{name.upper(): value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("names", ["as documented", "upper case"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("door", ROWS)
def test_rows_mean_the_same_however_they_are_saved(tmp_path, door, kind, names, saved):
    read, rows, means = ROWS[door]
    rows = rows if names == "as documented" else upper(rows)
    file = tmp_path / f"rows.{kind}"
    file.write_bytes(SAVED[saved]((as_csv if kind == "csv" else as_lines)(rows)))
    assert read(file) == means


@pytest.mark.parametrize("saved", [*SAVED, "CR"])
@pytest.mark.parametrize("door", TEXTS)
def test_lines_and_texts_mean_the_same_however_they_are_saved(tmp_path, door, saved):
    read, name, text, means = TEXTS[door]
    file = tmp_path / name
    file.write_bytes(SAVED.get(saved, lambda text: text.replace("\n", "\r").encode())(text))
    assert read(file) == means


@pytest.mark.parametrize("door", ROWS)
def test_a_file_of_rows_in_another_encoding_is_named_with_its_line_and_the_next_step(tmp_path, door):
    read, rows, _ = ROWS[door]
    file = tmp_path / "rows.csv"
    file.write_bytes(as_csv([dict.fromkeys(rows[0], "plain"), dict.fromkeys(rows[0], "schön")]).encode("cp1252"))
    with pytest.raises(InputError, match=r"rows\.csv.* line 3 ") as error:
        read(file)
    assert "UTF-8" in error.value.hint or "--encoding" in error.value.hint


@pytest.mark.parametrize("door", TEXTS)
def test_a_text_in_another_encoding_is_named_with_its_line_and_the_next_step(tmp_path, door):
    read, name, text, _ = TEXTS[door]
    file = tmp_path / name
    file.write_bytes(text.encode() + b"\nsch\xf6n\n")
    with pytest.raises(InputError, match=rf"(stdin|{name}), line {text.count(chr(10)) + 2} is not UTF-8") as error:
        read(file)
    assert error.value.hint
    file.write_bytes(text.encode("utf-16-le"))  # without its mark
    with pytest.raises(InputError, match=rf"(stdin|{name}), line \d+ is no(t UTF-8| text: it holds a NUL)"):
        read(file)


def test_every_function_that_reads_such_a_file_is_in_one_of_these_tables():
    calling = set()
    for path in RETRIEVER.rglob("*.py"):
        module = ".".join(path.relative_to(RETRIEVER).with_suffix("").parts)
        if module.startswith(("core.files", "corpus.")):
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef) and any(map(is_reading, ast.walk(function))):
                calling.add(f"{module}:{function.name}")
    assert calling == ROWS.keys() | {door.partition(" ")[0] for door in TEXTS}


def is_reading(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READING


def test_no_other_module_reads_toml_or_standard_input_on_its_own():
    alone = {"core/files.py", "core/languages.py", "corpus/sources.py"}  # the second reads a file of the package
    for path in RETRIEVER.rglob("*.py"):
        source = path.read_text()
        if path.relative_to(RETRIEVER).as_posix() not in alone:
            assert "tomllib" not in source, path
            assert "sys.stdin.buffer" not in source, path
            assert "utf-8-sig" not in source, path


def test_a_door_that_misses_a_field_says_which_and_what_the_file_has(tmp_path):
    file = tmp_path / "rows.csv"
    for read in (read_answers, read_examples, read_pairs, lambda path: read_categories(str(path))):
        file.write_text("Nr,Antwort\n1,x\n2,y\n")
        with pytest.raises(RetrieverError, match=r"rows\.csv has no field .* It has 'nr', 'antwort'\."):
            read(file)


def test_a_cell_of_examples_holds_ids_between_commas_or_semicolons(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('name,examples\nrefund,"r1, r2"\nrepair,r3;r4\nnothing,\n')
    found = read_categories(str(file))
    assert [category.examples for category in found] == [("r1", "r2"), ("r3", "r4"), ()]


@pytest.mark.parametrize(
    ("written", "means"), [("TRUE", True), ("yes", True), ("1", True), ("no", False), ("0", False)]
)
def test_whether_a_pair_is_the_same_is_said_as_tables_say_it(tmp_path, written, means):
    file = tmp_path / "rows.csv"
    file.write_text(f"a,b,same\nx,y,{written}\n")
    assert read_pairs(file) == [TextPair("x", "y", means)]
    file.write_text("a,b,same\nx,y,maybe\n")
    with pytest.raises(InputError, match=r"rows\.csv, line 2: 'same' is neither true nor false"):
        read_pairs(file)
