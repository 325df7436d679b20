import pytest

from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.filters import parse_filter

DATA = [
    {
        "select": 1,
        "ratio": 0.5,
        "version": "2.10",
        "tags": ["a", "b"],
        "sizes": [1, 2],
        "yes": True,
        "mixed": 1,
        "nil": None,
    },
    {"select": 2, "ratio": 1, "version": "2.9", "tags": ["a"], "yes": False, "mixed": "1"},
]


@pytest.fixture(scope="module")
def misfit(tmp_path_factory):
    """Say what is wrong with a filter: message and advice, nothing where its types fit."""
    path = tmp_path_factory.mktemp("types") / "corpus.sqlite3"
    with Store.open(path, create=True) as store:
        store.documents.upsert([Document(str(row), str(row), data) for row, data in enumerate(DATA)])

        def of(expression):
            error = parse_filter(expression).misfit(store.documents.fields(), store.documents.types.held)
            return None if error is None else (error.message, error.hint)

        yield of


@pytest.mark.parametrize(
    ("expression", "held", "advice"),
    [
        ("select = '1'", "select holds numbers", "Write select = 1"),
        ("select >= '1.5'", "select holds numbers", "Write select >= 1.5"),
        ("select != 'one'", "select holds numbers", "Compare it with numbers."),
        ("select = true", "select holds numbers", "Compare it with numbers."),
        (
            "tags in ('a', 'b')",
            "tags holds lists",
            "An item of a list is looked for with has: tags has 'a' or tags has 'b'",
        ),
        ("ratio < ' -.5 '", "ratio holds numbers", "Write ratio < -.5"),
        ("version = 2.10", "version holds texts", "Write version = '2.10'"),
        ("version in (2.10, 2.9)", "version holds texts", "Write texts in quotes."),
        ("select in ('1', '2')", "select holds numbers", "Write numbers without quotes."),
        ("select contains '1'", "select holds numbers", "Write select = 1"),
        ("select has 1", "select holds numbers", "Write select = 1"),
        ("select has '1'", "select holds numbers", "Write select = 1"),
        ("version has '2.9'", "version holds texts", "Write version = '2.9'"),
        ("tags = 'a'", "tags holds lists", "An item of a list is looked for with has: tags has 'a'"),
        ("tags contains 'a'", "tags holds lists", "An item of a list is looked for with has: tags has 'a'"),
        ("sizes has '1'", "sizes holds lists of numbers", "Write sizes has 1"),
        ("tags has 1", "tags holds lists of texts", "Write tags has '1'"),
        ("yes = 'true'", "yes holds true and false", "Write yes = true, or false."),
        ("yes = 1", "yes holds true and false", "Write yes = true, or false."),
        ("version = '3' and select = '1'", "select holds numbers", "Write select = 1"),
        ("version = 2.9 or select = '1'", "version holds texts", "Write version = '2.9'"),
    ],
)
def test_a_value_of_a_type_that_no_document_holds_is_named_with_what_to_write(misfit, expression, held, advice):
    assert misfit(expression) == (f"No document matches: the field {held}.", advice)


@pytest.mark.parametrize(
    "expression",
    ["select = 3", "version = '3'", "version in ('3', 4)", "mixed = '2'", "mixed = 2", "yes = true", "select = null",
     "nil = 'x'", "tags has 'c'", "not select = '1'", "select = 3 or select = '3'"],
)  # fmt: skip
def test_a_filter_of_fitting_types_is_no_mistake(misfit, expression):
    assert misfit(expression) is None


# Names in either spelling of Unicode.


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
    [("shop = '{}'", {"a", "b"}), ("shop != '{}'", {"c"}), ("not shop = '{}'", {"c"}),
     ("shop in ('{}', 'x')", {"a", "b"}), ("shop contains 'L{}'", set()), ("shop contains '{}'", {"a", "b"}),
     ("shop >= '{}' and shop < 'd'", {"a"})],
)  # fmt: skip
def test_both_spellings_of_a_name_are_one_value(ids, expression, found, spelling):
    assert ids(expression.format(spelling)) == found


def test_a_field_is_found_by_either_spelling(tmp_path):
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document("a", "a", {f"{NFC} tags": [NFC], "x": {NFD: 1}})])
        for spelling in (NFC, NFD):
            where = parse_filter(f"[{spelling} tags] has '{spelling}' and x.{spelling} = 1")
            assert len(list(store.documents.accepted(where))) == 1
