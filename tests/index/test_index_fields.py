"""Filters, counts and clusters see the same fields of the same documents, however their keys are spelled."""

import pytest

from retriever.clusters.fields import field_values
from retriever.core.fields import values_by_name
from retriever.core.types import Document
from retriever.corpus.fields import Columns
from retriever.index.profiling import profile, read_columns, set_columns
from retriever.store.checking import metadata_fields as fields

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
    documents = [Document("odd", "kettle", ODD), Document("plain", "toy", PLAIN)]
    index.add(documents)
    assert field_values(documents, field, index._opened.store.documents.fields()) == values
    counts = {str(value): 1 for value in values if isinstance(value, int)}
    assert profile(index, Columns(product=field)).products == counts
    for document, value in zip(documents, values, strict=True):
        if isinstance(value, int):
            hits = index.search("kettle toy", where=f"`{field}` = {value}", mode="lexical").hits
            assert [hit.document.id for hit in hits] == [document.id]


def test_a_column_set_by_its_heading_is_the_field_that_filters_take_it_for(index):
    index.add([Document("a", "kettle", {"review.stars": 4, "shop": {"item": "A"}})])
    set_columns(index, Columns(stars="review.stars", product="item"))
    columns = read_columns(index)
    assert columns == Columns(stars='"review.stars"', product="shop.item")
    assert (profile(index, columns).stars, profile(index, columns).products) == ({4: 1}, {"A": 1})
