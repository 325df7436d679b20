import pytest
from index_fakes import documents

from retriever.clusters.fields import field_values
from retriever.core.fields import values_by_name
from retriever.core.types import Document
from retriever.corpus.fields import Columns
from retriever.index.counting import count_documents
from retriever.index.indexing import IndexingOptions
from retriever.index.profiling import Profile, profile, read_columns, set_columns
from retriever.store.checking import metadata_fields as fields

COLUMNS = Columns(product="product", category="kind.main", stars="stars", date="date")


def test_a_corpus_is_counted(index):
    rows = [
        ("kettle " * 9, {"product": "A", "stars": 5, "date": "2024-05-31", "kind": {"main": "kitchen"}}),
        ("kettle " * 10, {"product": "A", "stars": 4.6, "date": "2024-05-01T10:00:00"}),
        ("toy", {"product": 7, "stars": "n/a", "date": "soon"}),
        ("toy", {"stars": True, "date": "2023-12-24"}),
        ("lamp " * 400, {}),
    ]
    index.add([Document(str(row), text, metadata) for row, (text, metadata) in enumerate(rows)])
    found = profile(index, COLUMNS)
    lengths = [(0, 10, 3), (10, 25, 1), (25, 50, 0), (50, 100, 0), (100, 200, 0), (200, 400, 0), (400, None, 1)]
    assert found == Profile(
        columns=COLUMNS,
        documents=5,
        texts=4,
        stars={5: 2},
        products={"A": 2, "7": 1},
        categories={"kitchen": 1},
        months={"2023-12": 1, "2024-05": 2},
        days=("2023-12-24", "2024-05-31"),
        lengths=lengths,
    )
    assert found.duplicates == 1


def test_words_are_counted_where_no_spaces_part_them_too(index):
    index.add([Document("ja", "電池がすぐ切れました。" * 5), Document("de", "Der Akku ist leer.")])
    lengths = {least: count for least, _, count in profile(index, Columns()).lengths if count}
    assert lengths == {0: 1, 25: 1}


def test_months_and_days_are_those_of_utc(index):
    times = ["2024-05-31T23:30:00-01:00", "2024-06-01T00:30:00+02:00", "2024-06-01 12:00", "2024-06-02", "2024-07"]
    index.add([Document(time, "kettle", {"date": time}) for time in times])
    found = profile(index, read_columns(index))
    assert found.months == {"2024-05": 1, "2024-06": 3, "2024-07": 1}
    assert found.days == ("2024-05-31", "2024-07-01")
    assert count_documents(index, "date = '2024-06'").documents == 3


@pytest.mark.parametrize(
    ("times", "counts"),
    [
        ([f"2024-05-{day:02}T12:00:{day:02}" for day in range(1, 25)],
         {f"2024-05-{day:02}": 1 for day in range(1, 25)}),
        ([f"2024-05-{day:02}T12:00:{day:02}" for day in range(1, 26)], {"2024-05": 25}),
        (["2024-06-01T00:30:00+02:00", "2024-05-31", "2024-05-31T09:00", "2024-06", "2024", "unknown"],
         {"2024": 1, "2024-05-31": 3, "2024-06": 1, "unknown": 1}),
        ([f"{year}-{month:02}-01" for year in (2019, 2020, 2021) for month in range(1, 13)],
         {"2019": 12, "2020": 12, "2021": 12}),
        (["2024-05-31-001", "2024-05-31-002"], {"2024-05-31-001": 1, "2024-05-31-002": 1}),
    ],
)  # fmt: skip
def test_dates_count_by_the_shortest_period_of_which_there_are_few_and_other_values_by_themselves(index, times, counts):
    documents = [Document(str(row), f"kettle {row}", {"at": time}) for row, time in enumerate(times)]
    index.add(documents, options=IndexingOptions(raw=True))
    assert count_documents(index, by="at").values == counts


def test_fields_have_the_types_of_what_documents_hold(index):
    index.add([
        Document("a", "kettle", {"at": "2024-05-31 12:00", "stars": 4, "tags": ["x"], "in": {"ner": "a"}, "ok": True}),
        Document("b", "toy", {"at": "2024-06", "stars": 2.5, "tags": [], "in": {"ner": 5}, "nothing": None}),
    ])  # fmt: skip
    assert index.status().fields == {
        "at": "dates",
        "in.ner": "numbers and texts",
        "nothing": "",
        "ok": "true and false",
        "stars": "numbers",
        "tags": "lists of texts",
    }
    index.delete(["a"])
    index.add([Document("b", "toy", {"at": "soon", "stars": "good"})])
    assert index.status().fields | {"in.ner": ""} == {
        **dict.fromkeys(["in.ner", "nothing", "ok", "tags"], ""), "at": "texts", "stars": "texts"
    }  # fmt: skip


def test_columns_are_guessed_until_they_are_set(index):
    index.add(documents("toy", "lamp", product="A", labels={"rating": 4}, date="2024-05-31"))
    assert read_columns(index) == Columns(product="product", stars="labels.rating", date="date")
    set_columns(index, COLUMNS)
    assert read_columns(index) == COLUMNS
    index._opened.store.settings.set("columns", {"stars": "x", "of a later version": "y"})
    assert read_columns(index) == Columns(stars="x")


def test_an_empty_corpus(index):
    index.add([])
    found = profile(index, read_columns(index))
    assert (found.documents, found.texts, found.days, sum(count for *_, count in found.lengths)) == (0, 0, None, 0)


def test_documents_of_a_program_have_the_ratings_and_dates_that_files_have(index):
    written = {"stars": "4 out of 5 stars", "date": "May 3, 2024"}
    report = index.add([Document("a", "a kettle", written), Document("b", "a toy", {"stars": 2, "date": "2024-05-04"})])
    assert report.reading == ["documents: 'stars' read as stars; 'date' read as date"]
    (hit,) = index.search("kettle toy", where="stars > 2 and date < '2024-05-04'", mode="lexical").hits
    assert hit.document.metadata == {"stars": 4, "date": "2024-05-03"}
    report = index.add([Document("a", "a kettle", written)], options=IndexingOptions(raw=True))
    assert (report.updated, report.reading) == (1, [])
    assert index._opened.store.documents.get(["a"])["a"].metadata == written


# Filters, counts and clusters see the same fields of the same documents, however their keys are spelled.


ODD = {"a.b": 1, "a": {"b": 2, "c.d": 3}, '"q"': 4, "list": [{"x": 5}], "none": {}}
PLAIN = {"a": {"b": 6}, "list": {"x": 7}}


def test_names_are_those_of_the_filter_and_no_two_fields_share_one():
    named = values_by_name(ODD)
    assert named == {'"a.b"': 1, "a.b": 2, 'a."c.d"': 3, '"\\u0022q\\u0022"': 4, "list": [{"x": 5}]}
    assert list(named) == [name for name, _ in fields(Document("odd", "text", ODD))]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ('"a.b"', [1, None]),
        ("a.b", [2, 6]),
        ('a."c.d"', [3, None]),
        ("list", [[{"x": 5}], None]),  # an object is no value: its fields are
        ("list.x", [None, 7]),
    ],
)
def test_a_field_has_one_value_for_filters_clusters_and_counts(index, field, values):
    rows = [Document("odd", "kettle", ODD), Document("plain", "toy", PLAIN)]
    index.add(rows)
    assert field_values(index._opened.store, rows, field) == values
    counts = {str(value): 1 for value in values if isinstance(value, int)}
    assert profile(index, Columns(product=field)).products == counts
    for document, value in zip(rows, values, strict=True):
        if isinstance(value, int):
            hits = index.search("kettle toy", where=f"`{field}` = {value}", mode="lexical").hits
            assert [hit.document.id for hit in hits] == [document.id]


def test_a_column_set_by_its_heading_is_the_field_that_filters_take_it_for(index):
    index.add([Document("a", "kettle", {"review.stars": 4, "shop": {"item": "A"}})])
    set_columns(index, Columns(stars="review.stars", product="item"))
    columns = read_columns(index)
    assert columns == Columns(stars='"review.stars"', product="shop.item")
    assert (profile(index, columns).stars, profile(index, columns).products) == ({4: 1}, {"A": 1})
