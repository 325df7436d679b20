"""Dates as exports write them become ISO 8601."""

import json

import pytest

from retriever.corpus.readers import read_documents
from retriever.corpus.values import number_date, written_date


def column(tmp_path, *cells, name="x"):
    path = tmp_path / "a.jsonl"
    rows = [{"id": number, "text": "a text", name: cell} for number, cell in enumerate(cells)]
    path.write_text("\n".join(map(json.dumps, rows)))
    typed = [row.metadata[name] for row in read_documents([path])]
    path = tmp_path / "a.csv"
    path.write_text(f"id,text,{name}\n" + "".join(f"{number},a text,{cell}\n" for number, cell in enumerate(cells)))
    assert [row.metadata[name] for row in read_documents([path])] == typed
    return typed


@pytest.mark.parametrize(
    ("written", "iso"),
    [
        ("2024-05-31 08:05:09", "2024-05-31T08:05:09"), ("2024-05-31 08:05:09.250", "2024-05-31T08:05:09.250"),
        ("2024-05-31T08:05:09Z", "2024-05-31T08:05:09Z"), ("2024-05-31 08:05", "2024-05-31T08:05"),
        ("2024-05-31T08:05:09+0200", "2024-05-31T08:05:09+02:00"),
        ("2024-05-31 08:05:09 +0200", "2024-05-31T08:05:09+02:00"),
        ("2024-05-31 08:05:09.123456 UTC", "2024-05-31T08:05:09.123456Z"),
        ("Fri May 31 08:05:09 +0000 2024", "2024-05-31T08:05:09+00:00"),
        ("Fri May 31 08:05:09 2024", "2024-05-31T08:05:09"),
        ("Fri, 31 May 2024 08:05:09 +0200", "2024-05-31T08:05:09+02:00"),
        ("31 May 2024 08:05:09 GMT", "2024-05-31T08:05:09Z"),
        ("Fri, 31 May 2024 08:05:09 -0700 (PDT)", "2024-05-31T08:05:09-07:00"),
        ("Fri, 31 May 2024 08:05:09 EST", "2024-05-31T08:05:09-05:00"),
        ("Fri May 31 2024 08:05:09 GMT+0200 (Central European Summer Time)", "2024-05-31T08:05:09+02:00"),
        ("31-May-24", "2024-05-31"), ("31-May-24 08:05", "2024-05-31T08:05:00"),
        ("2024-Q2", "2024-04-01"), ("2024Q4", "2024-10-01"), ("Q1 2024", "2024-01-01"), ("2024-Q5", None),
        ("/Date(1717150000000)/", "2024-05-31T10:06:40Z"), ("/Date(1717150000123+0200)/", "2024-05-31T10:06:40.123Z"),
        ("2024-05", "2024-05"), ("May 2024", "2024-05"), ("2024-13", None), ("05/2024", "2024-05"),
        ("2024/05", "2024-05"), ("May-24", "2024-05"), ("Mai '24", "2024-05"), ("May 24", None), ("13/2024", None),
        ("20240531T080509Z", "2024-05-31T08:05:09Z"), ("20240531T080509", "2024-05-31T08:05:09"),
        ("20241331T080509Z", None), ("2024-05-31 08:05:09,250", "2024-05-31T08:05:09.250"),
        ("2024-05-31 08:05:09.25+02", "2024-05-31T08:05:09.25+02:00"),
        ("2024-05-31T08:05:09+02:00[Europe/Berlin]", "2024-05-31T08:05:09+02:00"),
        ("31/May/2024:08:05:09 +0200", "2024-05-31T08:05:09+02:00"), ("Fri May 31 25:05:09 2024", None),
        ("/Date(999999999999999)/", None),
        ("31-MAY-24 06.30.05.250000 PM", "2024-05-31T18:30:05.250000"), ("31/May/24 6:30 PM", "2024-05-31T18:30:00"),
        ("31.05.2024 18.30 Uhr", "2024-05-31T18:30:00"), ("31 mai 2024 à 18:30", "2024-05-31T18:30:00"),
        ("May 31, 2024, 5:04:00 PM GMT+2", "2024-05-31T17:04:00+02:00"),
        ("31 May 2024 10:00 UTC-5:30", "2024-05-31T10:00:00-05:30"),
        ("Commenté en France le 31 mai 2024", "2024-05-31"), ("Reseñado en España el 31 de mayo de 2024", "2024-05-31"),
        ("05 31, 2024", "2024-05-31"), ("31 05, 2024", None), ("2024-5", "2024-05"),
        ("2024-05-31 10:00:00 +0200 CEST", "2024-05-31T10:00:00+02:00"),
        ("2024-05-31 10:00:00 later", None),
        ("Recensito in Italia il 31 maggio 2024", "2024-05-31"),
    ],
)  # fmt: skip
def test_dates_of_programs_are_read(written, iso):
    date = written_date(written)
    assert (date and date.iso()) == iso


@pytest.mark.parametrize(
    ("number", "days", "iso"),
    [
        (20240506, False, "2024-05-06"), ("20240506.0", False, "2024-05-06"), (202405, False, "2024-05"),
        ("20240506081500", False, "2024-05-06T08:15:00"), (20241306, False, None), (45418, True, "2024-05-06"),
        ("45418.5", True, "2024-05-06T12:00:00"), (45418, False, None), (1717150000, False, "2024-05-31T10:06:40Z"),
        (1717150000123, False, "2024-05-31T10:06:40.123Z"), (1717150000123456, False, "2024-05-31T10:06:40.123Z"),
        (1717150000123456789, False, "2024-05-31T10:06:40.123Z"), (1717113600, False, "2024-05-31"), (2024, True, None),
        (True, True, None), (10**25, True, None), (-5, True, None),
    ],
)  # fmt: skip
def test_numbers_in_columns_of_dates_are_read(number, days, iso):
    assert number_date(number, days=days) == iso


@pytest.mark.parametrize(
    ("cells", "name", "values"),
    [
        ([20240506, 20240611], "date", ["2024-05-06", "2024-06-11"]),
        ([20240506, 20240611], "size", [20240506, 20240611]),
        ([45418, 45454], "created_at", ["2024-05-06", "2024-06-11"]),
        (["1714557600.000200"], "ts", ["2024-05-01T10:00:00Z"]),
        ([45418, 45454], "response_time", [45418, 45454]),
        (["2024-05", "2024-06"], "month", ["2024-05", "2024-06"]),
        (["May 2024", "June 2024"], "month", ["2024-05", "2024-06"]),
        ([5, 6], "month", [5, 6]),
        (["May", "June"], "month", ["May", "June"]),
        (["May 2024", "June 2024"], "date", ["2024-05", "2024-06"]),
        (["May 2024", "June 2024"], "edition", ["May 2024", "June 2024"]),
        (["31.05.24 18:30", "01.06.24 07:00"], "Erstellt", ["2024-05-31T18:30:00", "2024-06-01T07:00:00"]),
        (["2024-Q2", "2024-Q3"], "x", ["2024-04-01", "2024-07-01"]),
        (["2024-05-31 08:00:00", "2024-06-01 09:00:00"], "x", ["2024-05-31T08:00:00", "2024-06-01T09:00:00"]),
    ],
)
def test_the_column_decides_what_is_a_date(tmp_path, cells, name, values):
    assert column(tmp_path, *cells, name=name) == values
