import operator
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.core.errors import FilterError
from retriever.core.types import Document
from retriever.store.checking import metadata_fields as fields
from retriever.store.database import Store
from retriever.store.filter_tree import Comparison, FilterGroup, Not
from retriever.store.filters import parse_filter, spelled

DATA = {
    "plain": {"n": 3, "x": 2.5, "s": "Straße", "yes": True, "no": False, "nil": None, "date": "2025-03-01"},
    "lists": {"tags": ["gift", 5, True, None, [1], "it's"], "empty": []},
    "spaces": {"product category": "books", "in [stock]": True, "2nd price": 5},
    "odd keys": {"a.b": 1, "a": {"b": 2}, 'q"uote': 3, "back\\slash": 4, "new\nline": 5, "and": 6, "": 7, "é[0]": 8},
    "nested": {"labels": {"stars": 5, "2024": 1, "deep": {"stars": 4}}, "other": {"unique": 1}},
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "corpus.sqlite3"
    with Store.open(path, create=True) as store:
        store.documents.upsert([Document(name, name, data) for name, data in DATA.items()])
        yield store.documents


def no_dates(path):
    return False


def found(documents, expression):
    ids = documents.matching(parse_filter(expression))
    return {each.id for group in documents.expand(ids).values() for each in group}


@pytest.mark.parametrize(
    "expression",
    ["n == 3.0", "n <> 4", "n > -1e3", "x in (1, 2.5, 'a', null)", 's = "Straße"', "s contains 'STRASSE'",
     "date >= '2025-01-31' and date < '2026'", "yes != FALSE", "no in (false, null)", "nil = null", "n != null",
     "not nil != null", "NOT n = 4 AND n = 3", "n = 4 or x = 2.5 and yes = true",
     "(n = 4 or x = 2.5) and s = 'Straße'", "((((n = 3))))", "`n` = 3", "[n] = 3", '"n" = 3', '"s" = "Straße"',
     "\"n\" in (3) and [s] contains 'stra'"],
)  # fmt: skip
def test_true_of_the_plain_document(documents, expression):
    assert "plain" in found(documents, expression)


@pytest.mark.parametrize(
    "expression",
    ["n = '3'", "n != '3'", "s > 0", "s contains 'x'", "yes = 1", "n = true", "yes = 'true'", "no = null", "nil != 1",
     "tags != 1", "not n = 3", "n = 3 and not (x = 2.5 or x = 1)", "n has 3", "date contains '2024'"],
)  # fmt: skip
def test_false_of_the_plain_document(documents, expression):
    assert "plain" not in found(documents, expression)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [("tags has 'gift'", True), ("tags has 'it''s'", True), ('tags has "it\'s"', True), ("tags has 5", True),
     ("tags has true", True), ("tags has null", True), ("tags has '5'", False), ("tags has false", False),
     ("tags has 'gif'", False), ("tags = 'gift'", False), ("tags != 'x'", False), ("tags != null", True),
     ("tags contains 'gift'", False), ("empty has null", False)],
)  # fmt: skip
def test_lists(documents, expression, matches):
    assert ("lists" in found(documents, expression)) is matches


def test_a_missing_field_makes_a_comparison_false_and_its_opposite_true(documents):
    assert found(documents, "n != 4") == {"plain"}
    assert found(documents, "not n = 3") == DATA.keys() - {"plain"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("a.b", 2),
        ('`"a.b"`', 1),
        ('["a.b"]', 1),
        ('"a.b"', 1),  # the key in which the dot stands, as the field is called
        ("[a.b]", 2),
        ("[new\nline]", 5),
        ('"and"', 6),
        ("[and]", 6),
        ('"q""uote"', 3),
        ('"é[0]"', 8),
        ('`q"uote`', 3),
        ("`back\\slash`", 4),
        ("`new\nline`", 5),
        ("`and`", 6),
        ("`é[0]`", 8),
    ],
)
def test_odd_keys_are_reached(documents, field, value):
    assert found(documents, f"{field} = {value}") == {"odd keys"}
    assert found(documents, f"{field} != {value}") == set()


@pytest.mark.parametrize("field", ["[product category]", '"product category"', "`product category`"])
def test_a_name_with_spaces_is_reached(documents, field):
    assert found(documents, f"{field} = 'books'") == {"spaces"}
    assert found(documents, f'{field} = "books" and not n = 3') == {"spaces"}
    assert found(documents, f"not {field} = 'toys' and {field} != 'toys'") == {"spaces"}


@pytest.mark.parametrize(
    ("expression", "spelling"),
    [
        ("product category = 'books'", "[product category]"),
        ("n = 3 and product category in ('books')", "[product category]"),
        ("[product categorie] = 'books'", "[product category]"),
        ("[product] = 'books'", None),
        ("2nd price = 5", None),
        ("`2nd prise` = 5", "[2nd price]"),
        ("`in stock` = true", "`in [stock]`"),
        ("ant = 6", "[and]"),
    ],
)
def test_a_suggested_name_is_spelled_as_it_parses(documents, expression, spelling):
    with pytest.raises(FilterError) as caught:
        found(documents, expression)
    assert spelling is None or spelling in caught.value.hint
    if spelling:
        assert len(found(documents, f"{spelling} != null")) == 1


def test_every_field_is_found_as_it_is_spelled(documents):
    for name in filter(None, documents.fields()):
        assert parse_filter(f"{spelled(name)} = 1").compile(documents.fields(), no_dates)
    assert [spelled(name) for name in ("a.b", "a b", "in", "]", "]`", ']`"')] == (
        ["a.b", "[a b]", "[in]", "`]`", '"]`"', '"]`"""']
    )


def test_single_quotes_are_never_a_name():
    with pytest.raises(FilterError, match="Expected a field name"):
        parse_filter("'n' = 3")


def test_the_last_part_of_a_name_is_enough_where_it_is_unique(documents):
    assert found(documents, "unique = 1 and labels.2024 = 1") == {"nested"}
    assert found(documents, "labels.stars = 5") == {"nested"}
    assert found(documents, "deep.stars = 4") == {"nested"}
    message = "The field 'stars' is ambiguous.\n  n = 3 or stars > 1\n           ^"
    with pytest.raises(FilterError) as caught:
        found(documents, "n = 3 or stars > 1")
    assert caught.value.message == message
    assert caught.value.hint.strip() == "Write one of: labels.deep.stars, labels.stars."


def test_an_unknown_field_gets_a_suggestion(documents):
    with pytest.raises(FilterError, match=r"No document has a field 'tag'(.|\n)*Did you mean 'tags'\?"):
        found(documents, "tag has 'x'")
    with pytest.raises(FilterError, match=r"No document has a field 'xyzzy'(.|\n)*Known: "):
        found(documents, "xyzzy = 1")
    with pytest.raises(FilterError, match="The documents have no metadata"):
        parse_filter("a = 1").compile({}, no_dates)


@pytest.mark.parametrize(
    ("expression", "position", "message"),
    [
        ("", 0, "Expected a field name (one that is also a keyword goes in brackets: [in]), but the filter ends here."),
        ("stars", 5, "Expected one of = != < <= > >= in has contains, but the filter ends here."),
        (
            "stars <=",
            8,
            "Expected a value (text and dates go in quotes: date >= '2025-01-31'), but the filter ends here.",
        ),
        (
            "category = toy",
            11,
            "Expected a value (text and dates go in quotes: date >= '2025-01-31'), but there is 'toy'",
        ),
        (
            "d > 2025-01-31",
            8,
            "Expected `and`, `or` or the end (text and dates go in quotes), but there is '-01' here.",
        ),
        ("(a = 1", 6, "Expected `)`, but the filter ends here."),
        ("a = 1)", 5, "Expected `and`, `or` or the end (text and dates go in quotes), but there is ')' here."),
        ("a in 1", 5, "Expected `(` and a list of values, but there is '1' here."),
        ("a in ()", 6, "Expected a value"),
        ("a in (1, 2", 10, "Expected `,` or `)`, but the filter ends here."),
        ("a = 'x", 4, "A quote is not closed (inside a text it is doubled)."),
        ("a = 'it's'", 9, "A quote is not closed (inside a text it is doubled)."),
        ("a ~ 1", 2, "This is not understood."),
        ("a = 5stars", 4, "This is not understood."),
        ("and = 1", 0, "Expected a field name (one that is also a keyword goes in brackets: [in]), but there is 'and'"),
        ("a = 1 and", 9, "Expected a field name"),
        ("a < true", 4, "true, false and null have no order: use = or !=."),
        ("a contains 5", 11, "`contains` wants a text in quotes."),
        ("a = 1e999", 4, "This number is too large."),
        ("a = 1; drop table documents", 5, "This is not understood."),
        ("(" * 40 + "a = 1" + ")" * 40, 32, "The filter nests deeper than 32 levels."),
        ("not " * 400 + "a = 1", 128, "The filter nests deeper than 32 levels."),
    ],
)
def test_malformed_filters_are_shown_with_the_place(expression, position, message):
    with pytest.raises(FilterError) as caught:
        parse_filter(expression)
    problem, shown, caret = caught.value.message.split("\n")
    assert problem.startswith(message)
    start = max(0, position - 60)
    assert shown == f"  {expression[start : position + 40]}"
    assert caret == " " * (2 + position - start) + "^"
    assert caught.value.exit_code == 2


def test_a_long_filter_is_refused_and_the_longest_runs(documents):
    with pytest.raises(FilterError, match="has 2001 characters; at most 2000 are read"):
        parse_filter("n" * 2001)
    assert found(documents, "n in (" + "1," * 990 + "3)") == {"plain"}
    assert found(documents, "n=1 or " * 284 + "n=3") == {"plain"}


@given(st.text(max_size=40))
def test_any_text_parses_or_is_a_filter_error(expression):
    try:
        parse_filter(expression)
    except FilterError as error:
        assert "\n" in error.message


FIELDS = ["n", "s", "flag", "tags", "in.ner", "in.deep.s", "é", 'odd"key']
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**18) + 1, 10**18 - 1),
    st.integers(-3, 3),
    st.floats(-1e6, 1e6).map(lambda number: round(number, 3)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
    st.sampled_from(["a", "A", "ab", "ß", "2025-01-01"]),
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)


@st.composite
def metadata(draw):
    data = {}
    for name in draw(st.sets(st.sampled_from(FIELDS))):
        *parents, last = name.split(".")
        node = data
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = draw(VALUES)
    return data


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in", "has", "contains"]))
    if name == "in":
        values = tuple(draw(st.lists(SCALARS, min_size=1, max_size=4)))
    elif name == "contains":
        values = (draw(st.text("aAbßsS", max_size=2)),)
    elif name in ("<", "<=", ">", ">="):
        values = (draw(SCALARS.filter(lambda value: value is not None and not isinstance(value, bool))),)
    else:
        values = (draw(SCALARS),)
    return Comparison(draw(st.sampled_from(FIELDS)), name, values, 0)


TREES = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(FilterGroup, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


def written(node):
    if isinstance(node, Not):
        return f"not ({written(node.node)})"
    if isinstance(node, FilterGroup):
        return f" {node.operator.lower()} ".join(f"({written(child)})" for child in node.nodes)
    values = ", ".join(map(written_value, node.values))
    return f"`{node.field}` {node.operator} " + (f"({values})" if node.operator == "in" else values)


def written_value(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return {None: "null", True: "true", False: "false"}.get(value, repr(value)) if not is_number(value) else repr(value)


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def comparable(one, other):
    return (is_number(one) and is_number(other)) or (type(one) is type(other) and not is_number(one))


def holds(node, data):
    if isinstance(node, Not):
        return not holds(node.node, data)
    if isinstance(node, FilterGroup):
        return (all if node.operator == "AND" else any)(holds(child, data) for child in node.nodes)
    value = data
    for part in node.field.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return compares(node.operator, value, node.values)


def compares(name, value, wanted):
    if name == "in":
        return any(comparable(value, each) and value == each for each in wanted)
    if name == "has":
        return isinstance(value, list) and any(comparable(each, wanted[0]) and each == wanted[0] for each in value)
    if name == "contains":
        return isinstance(value, str) and wanted[0].casefold() in value.casefold()
    if name == "!=" and wanted[0] is None:
        return value is not None
    compare = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
    return comparable(value, wanted[0]) and compare.get(name, operator.ge)(value, wanted[0])


EVERY_FIELD = Document(
    "schema", "schema", {"n": 0, "s": 0, "flag": 0, "tags": 0, "in": {"ner": 0, "deep": {"s": 0}}, "é": 0, 'odd"key': 0}
)


@settings(max_examples=300, deadline=None)
@given(tree=TREES, corpus=st.lists(metadata(), min_size=1, max_size=6))
def test_sql_agrees_with_plain_python(scratch, tree, corpus):
    condition = parse_filter(written(tree)).compile(dict(fields(EVERY_FIELD)), no_dates)
    documents = [Document(f"d{n}", f"text {n}", data) for n, data in enumerate(corpus)]
    with scratch.transaction():
        scratch.documents.delete_absent(set())
        scratch.documents.upsert(documents)
    rows = scratch._db.rows(f"SELECT id FROM documents WHERE {condition.sql} ORDER BY id", condition.parameters)
    assert [row[0] for row in rows] == [each.id for each in documents if holds(tree, each.metadata)]


def test_values_and_paths_never_enter_the_sql():
    condition = parse_filter("`x'); --` = 'y''); --' or z in ('v', 7)").compile(
        {"x'); --": '$."x\'); --"', "z": "$.z"}, no_dates
    )
    assert re.fullmatch(r"[\w\s().,?=']*", condition.sql)
    assert "--" not in condition.sql
    assert condition.parameters.count("y'); --") == 1


LONG = (1 << 63, (1 << 63) + 1, (1 << 64) - 1, 11679230632388718523, 11679230632388718524, -(1 << 63) - 1, 10**30)
SHORT = (1700000000000000001, 1700000000000000002, (1 << 63) - 1, -(1 << 63), 3)


def test_integers_of_any_size_are_compared_exactly(tmp_path):
    numbers = [*LONG, *SHORT]
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        rows = [Document(str(number), str(number), {"n": number, "list": [number, "a"]}) for number in numbers]
        store.documents.upsert([*rows, Document("real", "real", {"n": 2.5}), Document("text", "text", {"n": "a"})])
        for number in numbers:
            assert found(store.documents, f"n = {number}") == {str(number)}
            assert found(store.documents, f"list has {number}") == {str(number)}
            assert found(store.documents, f"n in ({number}, 'b', 1)") == {str(number)}
            less = {str(other) for other in numbers if other < number} | ({"real"} if number > 2.5 else set())
            assert found(store.documents, f"n < {number}") == less
            assert found(store.documents, f"n != {number}") == {*map(str, numbers), "real"} - {str(number)}
        both = f"n in ({', '.join(map(str, numbers))})"
        assert found(store.documents, both) == set(map(str, numbers))
