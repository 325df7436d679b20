import re

import pytest

PRODUCT = "Which product is it?"


@pytest.fixture
def counted(run, fake, write):
    """Run commands on an index with a saved clustering of sixty reviews: kettles are hated in May, lamps loved."""
    rows = [
        {
            "id": f"r{row}",
            "text": ("A lamp to love." if row % 2 else "The kettle I hate.") + f" {row}",
            "stars": 5 if row % 2 else 1,
            "shop": "north" if row < 30 else ["west", "east"][row % 2],
            "date": f"2024-0{4 + row // 30}-10",
        }
        for row in range(60)
    ]
    run("index", write(rows))
    run("cluster", "--instruction", PRODUCT, "-k", "2", "--save", "mine")
    return run


def test_shares_impact_segments_and_trend_with_their_intervals_and_reviews(counted):
    found = counted("numbers", "mine", "--by", "shop", "--json").document
    assert (found["name"], found["documents"], found["stars"], found["correction"]) == ("mine", 60, 3, "Holm")
    kettle = next(one for one in found["clusters"] if one["label"] == "kettle")
    assert kettle["share"] == {"value": 0.5, "low": 0.37735, "high": 0.62265}
    assert kettle["reviews"] == sorted(f"r{row}" for row in range(0, 60, 2))
    assert (kettle["stars"], kettle["rated"], kettle["impact"]["value"]) == (1, 30, 2)
    west = next(
        one for one in found["segments"]["shop"] if (one["part"], one["cluster"]) == ("west", kettle["cluster"])
    )
    assert (west["size"], west["total"], west["certain"]) == (15, 15, True)
    assert set(west["reviews"]) <= set(kettle["reviews"])
    assert (found["trend"]["unit"], found["trend"]["periods"]) == ("month", ["2024-04", "2024-05"])
    assert not any(one["certain"] for one in found["trend"]["latest"])


def test_what_a_person_reads(counted):
    ran = counted("numbers", "mine", "--by", "shop")
    lines = [re.sub(r" +", " ", line) for line in ran.out.splitlines()]
    assert lines[0] == " cluster reviews share stars impact"
    assert lines[1].startswith("0 kettle 30 50.0% [37.7, 62.3] 1.00 +2.00 [+1.50, +2.51]")
    assert " by shop cluster reviews share all others difference" in lines
    assert any(line.startswith("* west kettle 15 of 15 100.0% [79.6, 100.0] 33.3%") for line in lines)
    assert "month reviews 0 1" in lines
    assert "60 reviews, mean 3.00 stars of 60. 0 (0.0% [0.0, 6.0]) answer with nothing." in ran.err
    assert "4 of 6 differences are more than chance (*), corrected for their number (Holm)." in ran.err


def test_the_reviews_behind_a_number_are_one_option_away(counted):
    ran = counted("numbers", "mine", "--reviews", "0", "--where", "shop = 'north'")
    assert len(ran.out.splitlines()) == 15
    assert ran.out.startswith("r0  The kettle I hate. 0\n")
    found = counted("numbers", "mine", "--reviews", "0", "--where", "shop = 'north'", "--json").document
    assert [one["id"] for one in found["reviews"]] == [line.split()[0] for line in ran.out.splitlines()]
    assert counted("numbers", "mine", "--reviews", "nothing", "--json").document["reviews"] == []


def test_a_filter_a_period_and_fields_by_name(counted):
    argv = ["--where", "stars = 1", "--period", "year", "--stars", "stars", "--date", "date"]
    found = counted("numbers", "mine", *argv, "--json").document
    assert (found["documents"], found["where"], found["trend"]["periods"]) == (30, "stars = 1", ["2024"])
    assert [one["size"] for one in found["clusters"]] == [30, 0]
    assert [one["impact"] for one in found["clusters"]] == [None, None]


def test_what_was_indexed_since_is_counted_too(counted, write):
    counted("index", write([{"id": "new", "text": "Another kettle to hate.", "stars": 1}], "more.jsonl"))
    found = counted("numbers", "mine", "--json").document
    assert found["documents"] == 61
    assert "new" in found["clusters"][0]["reviews"]


def test_a_review_without_an_answer_answers_with_nothing(counted, write):
    counted("index", write([{"id": "dull", "text": "Well."}], "more.jsonl"))
    assert counted("numbers", "mine", "--json").document["silent"]["reviews"] == ["dull"]


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["gone"], 1, "no saved clustering 'gone'"),
        (["mine", "--by", "colour"], 2, "field 'colour'"),
        (["mine", "--by", "product"], 2, "field 'product'"),
        (["mine", "--stars", "nope"], 2, "field 'nope'"),
        (["mine", "--stars", "shop"], 2, "'shop' holds no ratings"),
        (["mine", "--date", "shop"], 2, "'shop' holds no dates"),
        (["mine", "--period", "week"], 2, "'week' is no period"),
        (["mine", "--where", "stars > 9"], 1, "No document matches"),
        (["mine", "--reviews", "7"], 2, "no cluster '7'"),
    ],
)
def test_what_cannot_be_counted_says_why(counted, argv, code, says):
    assert counted("numbers", *argv).failed_with(code, says)
    if "--reviews" not in argv:
        assert counted("report", *argv).failed_with(code, says)


def test_a_period_without_dates_is_refused(indexed):
    indexed("cluster", "-k", "2", "--save", "mine")
    assert indexed("numbers", "mine", "--period", "month").failed_with(2, "No field of these reviews holds dates")
    assert indexed("numbers", "mine", "--json").document["trend"] is None


def test_a_report_is_written_as_a_page_and_as_markdown(counted, tmp_path):
    ran = counted("report", "mine", "-o", "out.html", "--by", "shop")
    page = (tmp_path / "out.html").read_text()
    assert PRODUCT in page
    assert "The kettle I hate." in page
    assert "<polyline" in page
    assert "follows this question" in page  # the verdict, found when its view was filled
    assert ran.out.splitlines()[:2] == [
        "These clusters are what sets the texts apart, not answers to the question.",
        "The largest group is kettle: 50.0% [37.7, 62.3] of 60 reviews.",
    ]
    found = counted("report", "mine", "-o", "out.md", "--json").document
    text = (tmp_path / "out.md").read_text()
    assert text.startswith(f"# {PRODUCT}\n")
    assert found["numbers"]["documents"] == 60
    assert len(found["quotes"]["0"]) == 3
    assert all(quote["id"] in text for quote in found["quotes"]["0"])


def test_a_report_under_a_name_it_cannot_have_is_refused_before_anything_is_read(counted):
    assert counted("report", "gone", "-o", "out.pdf").failed_with(2, "out.pdf", ".html")


def test_a_report_says_what_the_diagnosis_says(counted, tmp_path):
    counted("report", "mine", "-o", "out.md", "--diagnose")
    assert "follows this question" in (tmp_path / "out.md").read_text()
