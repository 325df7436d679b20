from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.core.errors import FilterError
from retriever.core.moments import moment_of, span_of
from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.filters import parse_filter

WRITTEN = {
    "april": "2024-04-30T23:59:59.999999",
    "month": "2024-05",
    "day": "2024-05-31",
    "morning": "2024-05-31T08:30",
    "blank": "2024-05-31 12:00:00",
    "zulu": "2024-05-31T12:00:00Z",
    "east": "2024-05-31T14:00:00+02:00",  # the moment of the two above
    "late": "2024-05-31T23:59:59.999999",
    "over": "2024-05-31T23:30:00-01:00",  # half an hour into June
    "june": "2024-06-01T01:30:00+02",  # still May
    "next": "2025-01-01",
}
NOON = {"blank", "zulu", "east"}
LAST_DAY = {"day", "morning", *NOON, "late", "june"}
MAY = {"month", *LAST_DAY}


@pytest.fixture(scope="module")
def matching(tmp_path_factory):
    with Store.open(tmp_path_factory.mktemp("dates") / "corpus.sqlite3", create=True) as store:
        data = {id: {"at": {"created": written}, "n": row} for row, (id, written) in enumerate(WRITTEN.items())}
        store.documents.upsert([Document(id, id, metadata) for id, metadata in data.items()])
        store.documents.upsert([Document("none", "none", {"at": {"created": None}})])
        yield lambda expression: accepted(store, expression)


def accepted(store, expression):
    return {document.id for document in store.documents.accepted(parse_filter(expression))}


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("created = '2024-05-31'", LAST_DAY),
        ("created <= '2024-05-31'", {"april"} | MAY),
        ("created < '2024-05-31'", {"april", "month"}),
        ("created > '2024-05-31'", {"over", "next"}),
        ("created >= '2024-05-31'", {*LAST_DAY, "over", "next"}),
        ("created != '2024-05-31'", {"april", "month", "over", "next"}),
        ("not created = '2024-05-31'", {"april", "month", "over", "next", "none"}),
        ("created = '2024-05'", MAY),
        ("created > '2024-05'", {"over", "next"}),
        ("created <= '2024-05'", {"april"} | MAY),
        ("created = '2024'", {"april", "over"} | MAY),
        ("created = 2024", {"april", "over"} | MAY),
        ("created > 2024", {"next"}),
        ("created >= 2025", {"next"}),
        ("created != 2024", {"next"}),
        ("created = '2024-05-31T12:00'", NOON),
        ("created = '2024-05-31 12:00:00'", NOON),
        ("created = '2024-05-31T12:00:00.000Z'", NOON),
        ("created = '2024-05-31T12:00:00+00:00'", NOON),
        ("created = '2024-05-31T05:00:00-0700'", NOON),
        ("created > '2024-05-31 12:00' and created < '2024-06'", {"late", "june"}),
        ("created < '2024-05-31T12:00Z' and created > '2024-05-31T00:00'", {"morning"}),
        ("created >= '2024-05-31T23:59:59.999999' and created < 2025", {"late", "over"}),
        ("created in ('2024-04', '2025-01-01')", {"april", "next"}),
        ("created in ('2024-05-31 12:00', 2025, null)", {*NOON, "next", "none"}),
        ("created = null", {"none"}),
        ("created contains '2024-05-31t'", {"morning", "zulu", "east", "late", "over"}),
        ("created = '2024-05-31' and n >= 4", LAST_DAY - {"day", "morning"}),
    ],
)
def test_dates_are_compared_as_moments_and_a_bare_day_month_or_year_is_all_of_it(matching, expression, ids):
    assert matching(expression) == ids


def test_a_list_may_be_as_long_as_a_filter(matching):
    years = ",".join(map(str, range(2025, 2420)))
    assert len(f"created in ({years})") > 1980
    assert matching(f"created in ({years})") == {"next"}


@pytest.mark.parametrize("operator", ["=", "!=", "<", ">=", "in"])
@pytest.mark.parametrize("value", ["'last week'", "'31.05.2024'", "'2024-5-3'", "'2024-02-30'", "''"])
def test_what_is_no_date_is_refused_beside_dates_and_how_they_are_written_is_said(matching, operator, value):
    with pytest.raises(FilterError) as refused:
        matching(f"n = 1 and created {operator} ({value})" if operator == "in" else f"created {operator} {value}")
    assert refused.value.message.startswith(f"The field created holds dates, and {value} is none.")
    assert "'2024-05-31T12:00+02:00'" in refused.value.hint


def test_a_filter_of_another_type_says_that_the_field_holds_dates(tmp_path):
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document("a", "a", {"created": "2024-05-31", "tags": ["2024-05-31"]})])

        def misfit(expression):
            error = parse_filter(expression).misfit(store.documents.fields(), store.documents.types.held)
            return None if error is None else (error.message, error.hint)

        said = "No document matches: the field created holds dates."
        for expression in ("created >= 1717149600", "created = true", "created in (1.5, 3)"):
            message, advice = misfit(expression)
            assert message == said
            assert "'2024-05-31'" in advice
        assert misfit("created has '2024-05-31'") == (said, "Write created = '2024-05-31'")
        for fitting in ("created = 1999", "created > '2025'", "created in (1999, 5)", "created contains 'x'"):
            assert misfit(fitting) is None
        assert accepted(store, "tags has '2024-05-31'") == {"a"}
        assert accepted(store, "tags has '2024-05'") == set()


WORDS = {
    "versions": ["2.10", "2.9", "2024.05", "10"],
    "orders": [f"2024-{number:02}" for number in range(1, 31)],  # twelve of them like months
    "parts": ["2024-05-31-001", "2024-05-31-002"],
    "models": ["1984", "2020", "3080"],
    "titles": ["2024-05-31 12:30 Standup", "2024-05-31 13:00 Lunch"],
    "mostly words": ["2024-05-31", "2024-05-30", "soon"],
}


@pytest.mark.parametrize("values", WORDS.values(), ids=WORDS)
def test_words_that_look_like_dates_are_compared_as_words(tmp_path, values):
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document(value, value, {"x": value}) for value in values])
        assert accepted(store, f"x = '{values[0]}'") == {values[0]}
        assert accepted(store, "x = 'none of them'") == set()
        assert accepted(store, "x >= '2024-05'") == {value for value in values if value >= "2024-05"}
        assert accepted(store, "x = 2024") == set()


def test_a_field_holds_dates_where_four_in_five_of_its_values_are_and_then_the_others_match_nothing(tmp_path):
    dates = [f"2024-05-{day:02}" for day in range(1, 21)]
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        put(store, *dates, "soon", "2024/05/31", 5, True, "2023", "", None)
        assert accepted(store, "x >= '2024-05-20'") == {"2024-05-20"}
        assert accepted(store, "x <= '2024-05-01'") == {"2024-05-01", "2023"}  # a bare year says nothing of the others
        assert accepted(store, "x != '2024-05'") == {"2023"}
        assert accepted(store, "x contains 'soon'") == {"soon"}
        assert str(store.documents.types.held("$.x")) == "dates and numbers and true and false"
        put(store, "later", "never")
        assert accepted(store, "x = 'soon'") == {"soon"}


def test_documents_without_the_field_say_nothing_of_its_type(tmp_path):
    with Store.open(tmp_path / "corpus.sqlite3", create=True) as store:
        store.documents.upsert([Document(f"without {row}", "text", {}) for row in range(20)])
        put(store, "2024-05-31", "soon", "later")
        assert accepted(store, "x = 'soon'") == {"soon"}
        store.documents.delete(["soon", "later"])
        assert accepted(store, "x = '2024-05'") == {"2024-05-31"}


def put(store, *values):
    store.documents.upsert([Document(str(value) or "empty", "text", {"x": value}) for value in values])


def test_the_type_of_a_field_follows_what_documents_hold_after_every_change(tmp_path):
    path = tmp_path / "corpus.sqlite3"
    late = {"a": "2024-05-31T12:00:00", "b": "2024-06-01"}
    with Store.open(path, create=True) as store:
        put(store, *late.values())
        assert accepted(store, "x <= '2024-05-31'") == {late["a"]}
        put(store, "soon")
        assert accepted(store, "x <= '2024-05-31'") == set()  # words now
        store.documents.delete(["soon"])
        assert accepted(store, "x <= '2024-05-31'") == {late["a"]}
        store.documents.upsert([Document(late["b"], "text", {"x": "unknown"})])
        assert accepted(store, "x = 'unknown'") == {late["b"]}
        put(store, late["b"])
        assert accepted(store, "x <= '2024-05-31'") == {late["a"]}
        with Store.open(path) as other:
            put(other, "soon")
        assert accepted(store, "x = 'soon'") == {"soon"}
        with pytest.raises(ZeroDivisionError), store.transaction():
            store.documents.delete(["soon"])
            assert accepted(store, "x <= '2024-05-31'") == {late["a"]}
            raise ZeroDivisionError
        assert accepted(store, "x = 'soon'") == {"soon"}


MOMENTS = st.datetimes(datetime(2023, 12, 28), datetime(2024, 3, 3)) | st.sampled_from(
    [datetime.min, datetime(1, 1, 2), datetime.max, datetime(9999, 12, 30), datetime(2024, 2, 29), datetime(2024, 1, 1)]
)
ZONES = st.sampled_from(["", "Z", "+00:00", "+02:00", "-0800", "+14:00", "-12", "+05:45", "-23:59"])


@st.composite
def dates(draw):
    moment, mark = draw(MOMENTS), draw(st.sampled_from("T "))
    forms = ["minutes", "seconds", "milliseconds", "microseconds"]
    form = draw(st.sampled_from(["year", "month", "day", *forms]))
    if form in forms:
        return moment.isoformat(mark, form) + draw(ZONES)
    return moment.date().isoformat()[: {"year": 4, "month": 7, "day": 10}[form]]


COMPARED = {
    "=": lambda moment, span: span.first <= moment < span.end,
    "!=": lambda moment, span: not span.first <= moment < span.end,
    "<": lambda moment, span: moment < span.first,
    "<=": lambda moment, span: moment < span.end,
    ">": lambda moment, span: moment >= span.end,
    ">=": lambda moment, span: moment >= span.first,
}


@settings(max_examples=200, deadline=None)
@given(values=st.lists(dates() | st.sampled_from(["soon", "0000-00-00"]), max_size=8), value=dates())
def test_sql_compares_dates_as_the_plain_reader_does(scratch, values, value):
    known = ["2024-01-01T00:00:00"] * (4 * len(values) + 1)
    with scratch.transaction():
        scratch.documents.delete_absent(set())
        every = enumerate([*values, *known])
        scratch.documents.upsert([Document(str(row), "text", {"x": stored}) for row, stored in every])
    span = span_of(value)
    for operator, compare in COMPARED.items():
        right = {
            str(row)
            for row, stored in enumerate([*values, *known])
            if (moment := moment_of(stored)) is not None and compare(moment, span)
        }
        assert accepted(scratch, f"x {operator} '{value}'") == right, operator


def test_a_date_is_read_with_any_zone():
    moment = datetime(2024, 5, 31, 12, 0, 0, 120000)
    for hours in range(-12, 15):
        zone = timezone(timedelta(hours=hours))
        assert moment_of((moment.replace(tzinfo=UTC)).astimezone(zone).isoformat(" ")) == moment
