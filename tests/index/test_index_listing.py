import sys

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from index_fakes import FAULT, MOOD, PRODUCT, RichEncoder

from retriever.clusters.edit_requests import ClusterEdits
from retriever.core.errors import FilterError, InputError, RetrieverError, UsageError
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import reembed
from retriever.workspace import Index

ROWS = [
    {"id": "a", "text": "a toy I love", "stars": 5, "tags": ["x"], "shop": {"city": "Ulm"}, "version": 2},
    {"id": "b", "text": "a lamp I hate", "stars": 1, "version": "2.10"},
    {"id": "c", "text": "a toy I hate", "stars": None, "text_2": "more"},
]


@pytest.fixture
def listed(index):
    index.add(ROWS)
    return index


def test_documents_are_listed_by_id_as_often_as_they_are_iterated_and_those_of_a_filter_alone(listed):
    rows = listed.documents()
    assert [document.id for document in rows] == [document.id for document in rows] == ["a", "b", "c"]
    assert next(iter(rows)) == listed.get(["a"])["a"]
    assert [document.id for document in listed.documents(where="stars <= 2")] == ["b"]
    listed.add([Document("d", "a mug")])
    assert [document.id for document in rows][-1] == "d"


def test_more_documents_than_are_read_at_a_time_are_listed_each_once(index):
    index.add(Document(f"d{n:04}", f"toy {n}", {"even": n % 2 == 0}) for n in range(2101))
    assert [document.id for document in index.documents()] == [f"d{n:04}" for n in range(2101)]
    assert len(list(index.documents(where="even = true"))) == 1051


def test_a_table_has_a_column_for_every_field_with_its_type(listed):
    table = listed.documents().to_arrow()
    assert table.column_names == ["id", "text", "stars", "tags", "shop", "version", "text_2"]
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert (kinds["stars"], kinds["version"], kinds["tags"]) == ("int64", "string", "list<item: string>")
    assert table["stars"].to_pylist() == [5, 1, None]
    assert table["version"].to_pylist() == ["2", "2.10", None]
    assert table["shop"].to_pylist() == [{"city": "Ulm"}, None, None]
    frame = listed.documents(where="stars <= 2").to_pandas()
    assert frame[["id", "text", "stars"]].to_dict("records") == [{"id": "b", "text": "a lamp I hate", "stars": 1}]
    assert list(listed.documents(where="stars > 9").to_pandas().columns) == ["id", "text"]


def test_a_field_that_is_called_as_a_column_gets_a_number(index):
    index.add([Document("a", "a toy", {"id": 7, "text": "short", "words": 3})], instructions=[MOOD])
    table = index.documents(MOOD).to_arrow()
    assert table.column_names == ["id", "text", "id (2)", "text (2)", "words", "words (2)"]
    assert table.to_pylist()[0]["id (2)"] == 7


def test_whatever_reads_arrow_takes_the_documents(listed):
    assert pl.DataFrame(listed.documents())["id"].to_list() == ["a", "b", "c"]
    rows = pa.RecordBatchReader.from_stream(listed.documents(where="stars <= 2"))
    assert duckdb.from_arrow(rows).project("id, stars").fetchall() == [("b", 1)]


@pytest.mark.parametrize("make", [lambda rows: rows, lambda rows: rows.to_pandas(), lambda rows: pl.DataFrame(rows)])
def test_documents_that_are_given_back_change_nothing(index, make):
    index.add([{"id": "a", "title": "Toys", "text": "a toy I love", "stars": 4}, {"id": "b", "text": "a lamp"}])
    report = index.add(make(index.documents()))
    assert (report.unchanged, report.added, report.updated) == (2, 0, 0)


def test_an_instruction_brings_words_and_the_groups_of_its_saved_clusterings(rich):
    rich.add(ROWS, instructions=[PRODUCT])
    rich.clusterings.save("kinds", rich.cluster(PRODUCT, into=["toy", "lamp"]))
    rich.clusterings.save("moods", rich.cluster(MOOD, into=["love", "hate"]))
    table = rich.documents(PRODUCT).to_arrow()
    assert table.column_names[-2:] == ["words", "kinds"]
    assert table["kinds"].to_pylist() == ["toy", "lamp", "toy"]
    hits = {hit.document.id: hit.words for hit in rich.search("a", instruction=PRODUCT, mode="dense").hits}
    assert dict(zip("abc", table["words"].to_pylist(), strict=True)) == hits
    assert hits["a"]
    rich.add([Document("d", "a lamp too")])
    assert rich.documents(PRODUCT).to_pandas()["kinds"].tolist()[-1] == "lamp"
    moods = rich.documents(MOOD, where="stars >= 1").to_pandas()
    assert dict(zip(moods["id"], moods["moods"], strict=True)) == {"a": "love", "b": "hate"}


def test_groups_of_another_encoder_are_listed_as_they_were_saved_and_changed(rich):
    rich.add([*ROWS, Document("e", "a mug I love"), Document("f", "a mug I hate")], instructions=[PRODUCT])
    rich.clusterings.save("kinds", rich.cluster(PRODUCT, k=2))
    rich.clusterings.save("rated", rich.cluster(PRODUCT, k=2, where="stars <= 2 or version = 2"))
    rich.add([Document("g", "a mug too")])
    rich.documents(PRODUCT).to_arrow()  # puts it to a group
    rich.clusterings.edit("kinds", ClusterEdits(split={"mug": 2}, rename={"toy": "Toys"}))
    rich.add([Document("i", "a mug after the split")])
    before = rich.documents(PRODUCT).to_pandas().set_index("id")
    assert before["kinds"]["a"] == "Toys"
    assert before["kinds"].notna().all()
    rich.close()
    reembed(rich.path, RichEncoder("other"))
    with Index(rich.path, encoder=RichEncoder("other")) as again:
        again.upkeep.complete([PRODUCT])
        after = again.documents(PRODUCT).to_pandas().set_index("id")
        assert after["kinds"].drop("i").to_dict() == before["kinds"].drop("i").to_dict()
        assert after["rated"].dropna().to_dict() == before["rated"].dropna().to_dict() == {"a": "toy", "b": "lamp"}
        again.add([Document("a", "a lamp by now"), Document("h", "a toy to have")])
        later = again.documents(PRODUCT).to_pandas().set_index("id")["kinds"]
        assert later[["a", "h"]].isna().all()
        assert later.drop(["a", "h", "i"]).to_dict() == before["kinds"].drop(["a", "i"]).to_dict()


def test_groups_of_a_filter_by_answers_that_are_gone_are_listed_as_they_were_saved(rich):
    rich.add(ROWS, instructions=[MOOD])
    rich.teaching.give_answers(MOOD, {"a": "love", "b": "hate"})
    rich.clusterings.save("answered", rich.cluster(MOOD, k=1, where="answer = 'love'"))
    assert rich.documents(MOOD).to_pandas()["answered"].notna().tolist() == [True, False, False]
    rich.teaching.give_answers(MOOD, {"a": None, "b": None})
    rich.teaching.read_by(MOOD, "default")
    assert rich.documents(MOOD).to_pandas()["answered"].notna().tolist() == [True, False, False]


def test_groups_are_lists_where_a_document_can_have_several(rich):
    rich.add([Document("a", "a toy and a lamp"), Document("b", "a lamp"), Document("c", "a mug")])
    rich.clusterings.save("kinds", rich.cluster(PRODUCT, into=["toy", "lamp"], several=True))
    found = rich.documents(PRODUCT).to_arrow()
    assert str(found.schema.field("kinds").type) == "list<item: string>"
    assert "lamp" in found["kinds"].to_pylist()[1]


def test_an_index_of_sentences_lists_whole_documents_with_the_words_of_their_sentences(path):
    with Index(path, encoder=RichEncoder()) as index:
        texts = [Document("r", "The toy is nice . The lamp broke ."), Document("s", "A mug came .")]
        index.add(texts, options=IndexingOptions(units="sentences"), instructions=[PRODUCT])
        table = index.documents(PRODUCT).to_arrow()
        assert table["id"].to_pylist() == ["r", "s"]
        by_unit = {hit.document.id: hit.words for hit in index.search("a", instruction=PRODUCT, mode="dense").hits}
        assert set(table["words"].to_pylist()[1]) == set(by_unit["s"])


def test_a_text_that_was_not_read_under_a_question_has_no_words(index):
    index.add(ROWS)
    index.upkeep.complete([MOOD], where="stars >= 5")
    assert [words is None for words in index.documents(MOOD).to_arrow()["words"].to_pylist()] == [False, True, True]


def test_what_cannot_be_listed_is_told_at_once(listed):
    with pytest.raises(FilterError, match="No document has a field 'starts'"):
        listed.documents(where="starts = 1")
    with pytest.raises(InputError, match=r"No text was read under 'What broke\?'.*index.views\(\)"):
        listed.documents(FAULT)
    with pytest.raises(FilterError):
        list(listed.documents(where="stars = 'many'"))
    with pytest.raises(UsageError, match="where is 3, of type int"):
        listed.documents(where=3)


def test_a_table_for_pandas_says_where_pandas_is_missing(listed, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RetrieverError, match=r"The package 'pandas' is missing\. pip install pandas"):
        listed.documents().to_pandas()
