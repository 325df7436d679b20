import pytest

from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.filters import parse_filter

NFC, NFD = "caf\u00e9", "cafe\u0301"


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    """Ids of the documents that a filter accepts, of three with a name in either spelling and one with another."""
    path = tmp_path_factory.mktemp("spellings") / "corpus.sqlite3"
    with Store.open(path, create=True) as store:
        values = {"a": NFC, "b": NFD, "c": "tea"}
        rows = [Document(id, id, {"shop": value, f"{value} tags": [value]}) for id, value in values.items()]
        store.documents.upsert(rows)
        yield lambda expression: {one.id for one in store.documents.accepted(parse_filter(expression))}


@pytest.mark.parametrize("spelling", [NFC, NFD])
@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("shop = '{}'", {"a", "b"}),
        ("shop != '{}'", {"c"}),
        ("not shop = '{}'", {"c"}),
        ("shop in ('{}', 'x')", {"a", "b"}),
        ("shop contains 'L{}'", set()),
        ("shop contains '{}'", {"a", "b"}),
        ("shop >= '{}' and shop < 'd'", {"a"}),
    ],
)
def test_both_spellings_of_a_name_are_one_value(ids, expression, found, spelling):
    assert ids(expression.format(spelling)) == found


def test_a_field_is_found_by_either_spelling(tmp_path):
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document("a", "a", {f"{NFC} tags": [NFC], "x": {NFD: 1}})])
        for spelling in (NFC, NFD):
            where = parse_filter(f"[{spelling} tags] has '{spelling}' and x.{spelling} = 1")
            assert len(store.documents.accepted(where)) == 1
