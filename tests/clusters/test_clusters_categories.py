import json

import pytest

from retriever.clusters.categories import MOST, Category, read_categories
from retriever.core.errors import InputError, UsageError


def test_names_stand_between_commas():
    assert read_categories(" refund,  late  delivery ") == [Category("refund"), Category("late delivery")]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_file_holds_names_descriptions_and_examples(tmp_path, suffix):
    rows = ["nothing", {"name": "refund", "description": "wants money back", "examples": ["r1", "r2"]}]
    path = tmp_path / f"categories.{suffix}"
    path.write_text(json.dumps(rows) if suffix == "json" else "\n\n".join(map(json.dumps, rows)))
    found = read_categories(str(path))
    assert found == [Category("nothing"), Category("refund", "wants money back", ("r1", "r2"))]


@pytest.mark.parametrize(
    ("into", "problem"),
    [
        ("refund", "There are 1 categories"),
        ("refund,,repair", "A category has no name"),
        ("refund, Refund", "'Refund' is there twice"),
        (",".join(map(str, range(MOST + 1))), f"There are {MOST + 1} categories"),
    ],
)
def test_categories_that_cannot_be_told_apart_are_refused(into, problem):
    with pytest.raises(UsageError, match=problem):
        read_categories(into)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('"a"\n{"name": "b", "colour": "red"}', "line 2: this is no category"),
        ('"a"\n{"name": " "}', "line 2: this is no category"),
        ('"a"\n{"name": "b", "examples": "r1"}', "line 2: this is no category"),
        ('"a"\n{"name": ', "line 2: this is no JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, place):
    path = tmp_path / "categories.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=place):
        read_categories(str(path))


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "categories.json"
    with pytest.raises(InputError, match="cannot be read"):
        read_categories(str(path))
    path.write_text('{"name": "refund"}')
    with pytest.raises(InputError, match="holds no list"):
        read_categories(str(path))
    path.write_bytes(b'["caf\xe9", "bar"]')
    with pytest.raises(InputError, match="is not UTF-8"):
        read_categories(str(path))
