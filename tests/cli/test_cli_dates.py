import pytest

ROWS = [
    {"id": "1", "text": "It works, a kettle.", "created_at": "2024-05-30T22:00:00+00:00"},
    {"id": "2", "text": "A lamp works.", "created_at": "2024-05-31T08:15:00.250Z"},
    {"id": "3", "text": "The toy works.", "created_at": "2024-06-01T00:30:00+02:00"},  # still May
    {"id": "4", "text": "It works, a lamp.", "created_at": "2024-06-01 00:00:00"},
]


@pytest.fixture
def dated(run, fake, write):
    """Run commands on an index of four documents with times."""
    assert run("index", write(ROWS)).code == 0
    return run


def hits(run, where):
    found = run("search", "works", "--mode", "lexical", "--where", where, "--json").document
    return sorted(hit["id"] for hit in found["hits"])


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("created_at <= '2024-05-31'", ["1", "2", "3"]),
        ("created_at = '2024-05-31'", ["2", "3"]),
        ("created_at > '2024-05-31'", ["4"]),
        ("created_at >= '2024-06'", ["4"]),
        ("created_at = 2024", ["1", "2", "3", "4"]),
        ("created_at >= '2024-05-31T10:15:00.25+02:00' and created_at < '2024-06-01T00:00Z'", ["2", "3"]),
    ],
)
def test_a_search_filters_by_moments(dated, where, ids):
    assert hits(dated, where) == ids


def test_groups_are_counted_by_days_of_utc_and_a_report_compares_these(dated):
    argv = ["--instruction", "What product is it?", "-k", "1", "--by", "created_at"]
    found = dated("cluster", *argv, "--save", "it", "--json")
    days = {"2024-05-30": 1, "2024-05-31": 2, "2024-06-01": 1}
    assert found.document["clusters"][0]["by"]["created_at"]["counts"] == days
    report = dated("report", "it", "--by", "created_at", "--json").document
    parts = report["numbers"]["segments"]["created_at"]
    assert {part["part"]: part["total"] for part in parts} == days
    for day, count in days.items():
        assert len(hits(dated, f"created_at = '{day}'")) == count


def test_status_shows_the_types_of_fields(dated, write):
    dated("index", write([{"id": "5", "text": "A box.", "tags": ["a", "b"], "stars": 2, "seal": {"wide": None}}]))
    fields = "fields created_at (dates), seal.wide (no values), stars (numbers), tags (lists of texts)\n"
    assert fields in dated("status").out


def test_documents_that_are_changed_deleted_and_added_again_are_filtered_by_what_they_hold_then(dated, write):
    last_day = "created_at = '2024-05-31'"
    dated("index", write([{**ROWS[3], "created_at": "2024-05-31 23:59"}, {**ROWS[1], "created_at": "2024-06-02"}]))
    assert hits(dated, last_day) == ["3", "4"]
    assert dated("delete", "3").code == 0
    assert hits(dated, last_day) == ["4"]
    dated("index", write(ROWS), "--sync")
    assert hits(dated, last_day) == ["2", "3"]
    assert dated("repair").code == 0
    assert hits(dated, last_day) == ["2", "3"]
    dated("index", write([{**row, "created_at": f"No. {row['id']}"} for row in ROWS]))
    assert hits(dated, "created_at = 'No. 2'") == ["2"]


def test_what_is_no_date_beside_dates_says_how_dates_are_written(dated):
    ran = dated("search", "works", "--where", "created_at >= '31.05.2024'")
    assert ran.failed_with(2, "The field created_at holds dates, and '31.05.2024' is none.", "Write dates as '2024'")
    ran = dated("search", "works", "--where", "created_at >= 1717149600")
    assert ran.failed_with(2, "the field created_at holds dates", "'2024-05-31T12:00'")


def test_a_report_counts_the_days_of_utc_that_its_filter_accepts(dated):
    dated("cluster", "--instruction", "What product is it?", "-k", "1", "--save", "mine")
    argv = ["report", "mine", "--date", "created_at", "--period", "month", "--json"]
    whole = dated(*argv).document["numbers"]["trend"]
    assert (whole["periods"], whole["totals"]) == (["2024-05", "2024-06"], [3, 1])
    part = dated(*argv, "--where", "created_at = '2024-05-31'").document["numbers"]["trend"]
    assert (part["periods"], part["totals"]) == (["2024-05"], [2])
    assert dated("report", "mine", "--where", "created_at = 'May'").failed_with(2, "and 'May' is none.")
