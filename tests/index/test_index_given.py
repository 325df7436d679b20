import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from index_fakes import FakeEncoder
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Document as LlamaDocument
from llama_index.core.schema import NodeWithScore, TextNode

from retriever.core.errors import InputError, UsageError
from retriever.core.types import BadRow, Document
from retriever.index.indexing import IndexingOptions
from retriever.index.tables import table_rows
from retriever.workspace import Index

ROWS = [
    {"id": "a", "text": "a toy I love", "stars": 4, "when": date(2024, 5, 3), "price": 2.5},
    {"id": "b", "text": "a lamp", "stars": None, "when": None, "price": float("nan")},
]
STORED = {
    "a": Document("a", "a toy I love", {"stars": 4, "when": "2024-05-03", "price": 2.5}),
    "b": Document("b", "a lamp"),
}


def stored(index):
    return {document.id: document for document in index.documents()}


def table():
    return pa.Table.from_pylist(ROWS)


FORMS = {
    "mappings": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, id as index": lambda: pd.DataFrame(ROWS).set_index("id"),
    "pandas, unnamed index": lambda: pd.DataFrame(ROWS, index=[7, 9]),
    "pandas in parts": lambda: iter([pd.DataFrame(ROWS[:1]), pd.DataFrame(ROWS[1:])]),
    "polars": lambda: pl.DataFrame(ROWS),
    "pyarrow": table,
    "record batches": lambda: table().to_batches(),
    "record batch reader": lambda: table().to_reader(),
    "DuckDB": lambda: duckdb.from_arrow(table()),
    "Document": lambda: list(STORED.values()),
    "LangChain": lambda: [
        LangChainDocument(id=one.id, page_content=one.text, metadata=dict(one.metadata)) for one in STORED.values()
    ],
    "LlamaIndex": lambda: [
        LlamaDocument(id_=one.id, text=one.text, metadata=dict(one.metadata)) for one in STORED.values()
    ],
}


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_the_same_documents_in_any_form_are_the_same_documents(index, make):
    report = index.add(make())
    assert (report.added, report.skipped, stored(index)) == (2, 0, STORED)
    again = index.add(ROWS)
    assert (again.unchanged, again.added, again.updated) == (2, 0, 0)


def test_strings_get_ids_of_their_text_the_same_every_time(index):
    texts = ["a toy", "a lamp", "a toy"]
    assert index.add(texts).added == 3
    before = stored(index)
    assert sorted(document.text for document in before.values()) == ["a lamp", "a toy", "a toy"]
    for form in (texts, iter(texts), np.array(texts), pd.Series(texts), pl.Series(texts), tuple(texts)):
        assert index.add(form).unchanged == 3
    assert stored(index) == before
    assert index.add([{"text": "a lamp"}]).unchanged == 1
    assert index.add([LangChainDocument(page_content="a lamp")]).unchanged == 1


def test_fields_are_recognised_as_in_files_or_named_also_inside_of_others(path):
    given = [{"Review ID": 7, "Review Text": "a toy I love", "rating": "4 out of 5 stars"}]
    with Index(path / "1", encoder=FakeEncoder()) as index:
        report = index.add(given)
        assert stored(index) == {"7": Document("7", "a toy I love", {"rating": 4})}
        assert "id from 'Review ID', text from 'Review Text'" in report.reading[0]
    nested = [{"ticket": {"key": "k", "body": "a toy", "open": True}, "text": "no"}]
    with Index(path / "2", encoder=FakeEncoder()) as index:
        index.add(nested, id_field="ticket.key", text_field="ticket.body")
        assert stored(index) == {"k": Document("k", "a toy", {"ticket": {"open": True}, "text": "no"})}
    with Index(path / "3", encoder=FakeEncoder()) as index:
        index.add(given, options=IndexingOptions(raw=True), id_field="Review ID", text_field="Review Text")
        assert stored(index)["7"].metadata == {"rating": "4 out of 5 stars"}


def test_an_id_field_is_one_where_all_rows_of_a_list_differ_in_it_not_the_first_thousand_alone(index):
    rows = [{"Review ID": min(n, 1500), "text": f"toy {n}"} for n in range(1502)]
    assert index.add(rows).skipped == 0
    assert len(list(index.documents())) == 1502


def test_values_of_python_numpy_and_pandas_are_stored_as_json(index):
    row = {
        "id": UUID(int=1),
        "text": np.str_("a toy"),
        "many": np.int64(3),
        "half": np.float32(0.5),
        "sure": np.bool_(True),
        "price": Decimal("2.50"),
        "at": pd.Timestamp("2024-05-31 12:00:00.123456789", tz="UTC"),
        "day": np.datetime64("2024-05-31"),
        "moment": datetime(2024, 5, 31, 12),
        "list": (1, np.nan, UUID(int=2)),
        "array": np.array([1.5, np.inf]),
        "none": pd.NaT,
        "missing": pd.NA,
        "not": Decimal("NaN"),
        "path": Path("a/b"),
        "photo": b"\xff",
        "inside": {"photo": b"\xff", "width": 3},
        5: "five",
    }
    report = index.add([row])
    assert report.reading == [
        "documents: 'array.1': numbers that are too large are null; 'photo' left out, as it holds bytes; "
        "'inside.photo' left out, as it holds bytes"
    ]
    (document,) = index.documents()
    assert (document.id, document.text) == ("00000000-0000-0000-0000-000000000001", "a toy")
    assert document.metadata == {
        "many": 3,
        "half": 0.5,
        "sure": True,
        "price": 2.5,
        "at": "2024-05-31T12:00:00.123456+00:00",
        "day": "2024-05-31T00:00:00",
        "moment": "2024-05-31T12:00:00",
        "list": [1, None, "00000000-0000-0000-0000-000000000002"],
        "array": [1.5, None],
        "path": "a/b",
        "inside": {"width": 3},
        "5": "five",
    }
    given = {name: value for name, value in row.items() if name not in ("id", "text")}
    index.add([Document("d", "a lamp", given)])
    assert index.get(["d"])["d"].metadata == {**document.metadata, "none": None, "missing": None, "not": None}


def test_a_whole_number_stays_one_in_a_column_of_pandas_that_lacks_values(index):
    index.add(pd.DataFrame({"id": ["a", "b"], "text": ["toy", "lamp"], "n": [3, None], "x": [0.5, None]}))
    assert stored(index)["a"].metadata == {"n": 3, "x": 0.5}
    assert isinstance(stored(index)["a"].metadata["n"], int)


def test_a_column_that_is_there_twice_and_times_to_the_nanosecond_are_read(index):
    moment = pa.array([1717156800123456789], pa.timestamp("ns"))
    nested = pa.StructArray.from_arrays([moment], names=["at"])
    columns = [pa.array(["a"]), pa.array(["toy"]), pa.array([1]), pa.array([2]), nested]
    given = pa.table(columns, names=["id", "text", "q", "q", "event"])
    assert [type(row["event"]["at"]) for row in table_rows(given)] == [datetime]  # pandas' where that is installed
    index.add(given)
    at = "2024-05-31T12:00:00.123456"
    assert stored(index)["a"].metadata == {"q": 1, "q (2)": 2, "event": {"at": at}}


WRONG = {
    "a float": ([Document("a", "a toy"), "a lamp", 3.5], r"Item 3 of documents is of type float\."),
    "bytes": ([b"a toy"], r"Item 1 of documents is of type bytes\."),
    "a list in a list": ([["a toy"]], r"Item 1 of documents is of type list\."),
    "an id that is a number": ([Document(7, "a toy")], r"The id of item 1 is of type int\. Give a string"),
    "a text that is none": ([Document("a", None)], r"The text of item 1 is of type NoneType\. Give a string"),
    "metadata that are none": ([Document("a", "b", None)], r"The metadata of item 1 is of type NoneType"),
    "a generator": (iter([3.5]), r"Item 1 of documents is of type float\."),
    "one string": ("corpus.jsonl", r"documents is of type str\. .*retriever\.read_documents\(\[path\]\)"),
    "a path": (Path("corpus.jsonl"), r"documents is of type PosixPath\. .*read_documents"),
    "one mapping": ({"id": "a", "text": "b"}, r"documents is of type dict\. Give a list"),
    "one document": (Document("a", "b"), r"documents is of type Document\. Give a list"),
    "nothing": (None, r"documents is of type NoneType\."),
    "a lazy frame": (pl.LazyFrame({"text": ["a toy"]}), r"documents is of type LazyFrame\."),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_document_is_named_by_type_and_place_before_anything_is_made(index, given, message):
    with pytest.raises(UsageError, match=message) as raised:
        index.add(given)
    assert raised.value.hint
    assert not index.path.exists()


@pytest.mark.parametrize("first", [Document("a", "a toy"), {"id": "a", "text": "a toy"}], ids=["Document", "mapping"])
def test_what_a_generator_gave_before_the_wrong_item_is_kept(index, first):
    with pytest.raises(UsageError, match=r"Item 2 of documents is of type float\."):
        index.add(iter([first, 3.5]))
    assert stored(index) == {"a": Document("a", "a toy")}


def test_rows_that_cannot_be_documents_go_to_quarantine_with_their_place_and_are_refused_where_none_can(index):
    with pytest.raises(InputError, match=r"No item can be read; item 1: .* the row has 'id'; name .* text_field="):
        index.add([{"id": "a"}, {"id": "b"}])
    with pytest.raises(InputError, match="the field 'key' is missing"):
        index.add(pd.DataFrame(ROWS), id_field="key")
    assert not index.path.exists()
    blank = LangChainDocument(page_content=" ")
    report = index.add([{"id": "a", "text": ""}, {"id": "b", "text": "a toy"}, {"id": "b", "text": "a lamp"}, blank])
    assert (report.added, report.skipped) == (1, 3)
    bad = index.status().quarantined
    assert [(one["file"], one["line"]) for one in bad] == [("documents", 1), ("documents", 3), ("documents", 4)]
    assert "taken by documents:2" in bad[1]["reason"]


def test_nothing_to_add_is_told(index):
    for empty in ([], iter(()), pd.DataFrame(), pa.table({"id": [], "text": []})):
        assert index.add(empty).notes == ["There was no document to add."]
    index.add([Document("a", "a toy")])
    assert index.add(ROWS).notes == []


def test_a_node_that_nobody_named_has_an_id_of_its_text_the_same_every_time(index):
    def nodes():
        named = TextNode(id_="n", text="a rug")
        twice = [LlamaDocument(text="a lamp") for _ in range(2)]
        return [TextNode(text="a mug", metadata={"page": 1}), *twice, named]

    assert index.add(nodes()).added == 4
    again = index.add(nodes())
    assert (again.unchanged, again.added, len(list(index.documents()))) == (4, 0, 4)
    assert index.get(["n"])["n"].text == "a rug"
    assert index.add([LangChainDocument(page_content="a mug", metadata={"page": 1})]).unchanged == 1


def test_a_mixed_list_is_taken_item_by_item(index):
    node = NodeWithScore(node=TextNode(id_="n", text="a mug", metadata={"page": 1}), score=0.5)
    bad = BadRow("old.csv", 3, None, "no text", "")
    report = index.add(
        ["a toy", {"id": "r", "text": "a lamp"}, Document("d", "a rug", {"stars": "4 stars"}), node, bad]
    )
    assert (report.added, report.skipped) == (4, 1)
    assert index.get(["n"])["n"].metadata == {"page": 1}
    assert index.get(["d"])["d"].metadata == {"stars": 4}
    assert report.reading == ["documents: 'stars' read as stars"]


def test_arguments_of_another_type_are_named(index):
    for wrong, message in (
        ({"instructions": "What broke?"}, "instructions is 'What broke"),
        ({"options": {"raw": True}}, "options is .*, of type dict"),
        ({"id_field": 3}, "id_field is 3, of type int"),
    ):
        with pytest.raises(UsageError, match=message):
            index.add(ROWS, **wrong)
    assert not index.path.exists()


def test_libraries_whose_tables_are_not_given_are_not_imported():
    code = (
        "import sys; sys.path.insert(0, 'tests/index')\n"
        "from retriever.corpus.fields import FieldNames; from retriever.corpus.rows import ReadingOptions\n"
        "from retriever.index.given import read_items\n"
        "rows = read_items([{'text': 'a toy'}, 'a lamp'], FieldNames(), ReadingOptions())\n"
        "assert len(list(rows)) == 2\n"
        "print([name for name in ('pandas', 'polars', 'pyarrow', 'duckdb', 'langchain_core', 'llama_index') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
