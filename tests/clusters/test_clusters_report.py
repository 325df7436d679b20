import re
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from index_fakes import KEYWORDS, MOOD, documents
from markdown_it import MarkdownIt

from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.report import make_report, model_names, render, report_format, write_report
from retriever.core.errors import OutputError, UsageError
from retriever.core.types import Document
from retriever.core.verdicts import Verdict

GOOD, BAD = KEYWORDS[MOOD][:2]
HOSTILE = '<script>hurt=1</script> <img src=x onerror="hurt=1"> [x](javascript:hurt) | \u202e$x$ '
MODELS = {"Model": "<b>m</b>, 0123"}
VERDICT = Verdict("<em>asked</em>", "unclear", 0.5, 40, [], True)


@pytest.fixture
def found(index):
    index.add(
        [
            Document(
                f"r{row}<i>",
                f"{HOSTILE}. It is {GOOD if row % 3 else BAD} in place {row}.",
                {"stars": 5 if row % 3 else 1, "product": f"p{row % 2}<u>", "date": f"2024-0{1 + row // 20 * 2}-05"},
            )
            for row in range(60)
        ]
    )
    return index.cluster(MOOD, k=2)


@pytest.fixture
def report(index, found):
    counted = numbers_of(index, groups_of(found), ["product"], period="month")
    return make_report(replace(found, verdict=VERDICT), counted, MODELS, where="stars > 0")


def test_a_report_says_all_that_is_known(report):
    assert (report.question, report.name, report.where) == (MOOD, "", "(stars > 0)")
    assert report.findings[0] == f"The largest group is {GOOD}: 66.7% [54.1, 77.3] of 60 reviews."
    assert report.findings[1].startswith(f"What costs most stars is: {BAD}. Without its reviews the mean would be 5.00")
    assert report.findings[2].startswith(
        f"What brings most stars is: {GOOD}. Without its reviews the mean would be 1.00"
    )
    assert report.findings[3] == "No share has changed more than chance would from 2024-03 to 2024-05."
    good, bad = report.sections
    assert [len(one.quotes) for one in (good, bad)] == [3, 3]
    assert {int(re.search(r"\d+", quote.id)[0]) % 3 > 0 for quote in good.quotes} == {True}
    assert len({quote.id for quote in good.quotes}) == 3
    assert GOOD in good.words
    assert good.chart.said.startswith("Share by month: 2024-01 65%, 2024-03 ")


def test_the_chart_leaves_out_periods_without_reviews(report):
    chart = report.sections[0].chart
    assert len(chart.lines) == len(chart.bands) == 3
    for line, band in zip(chart.lines, chart.bands, strict=True):
        (x, y), *rest = [tuple(map(float, one.split(","))) for one in line.split()]
        corners = [tuple(map(float, one.split(","))) for one in band.split()]
        assert rest == []
        assert {one[0] for one in corners} == {x}
        assert corners[0][1] < y < corners[1][1]
    first = [float(line.split(",")[0]) for line in chart.lines]
    assert first == pytest.approx([4, 160, 316])


def test_the_page_holds_hostile_text_as_text_and_runs_nothing(report):
    page = render(report, "html")
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;hurt=1&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", page)
    body = page[page.index("<body>") : page.index("</html>")]
    tree = ElementTree.fromstring(body.replace("&#39;", "'"))
    assert {one.tag for one in tree.iter()} <= set(
        "body header h1 p time main section h2 h3 ul li div table caption thead tbody tr th td span article blockquote "
        "cite bdi figure svg line polygon polyline figcaption dl dt dd".split()
    )
    assert not [name for one in tree.iter() for name in one.attrib if name.startswith("on")]


def test_the_markdown_holds_hostile_text_as_text(report):
    markdown = render(report, "md")
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html
    assert "<b>" not in html
    assert html.count("<tr>") == 4
    assert html.count("<blockquote>") == 6
    assert "&lt;script&gt;hurt=1&lt;/script&gt;" in html


@pytest.mark.parametrize("kind", ["html", "md"])
def test_both_forms_say_every_number(report, kind):
    text = render(report, kind).replace("\\", "")
    for said in ("66.7% [54.1, 77.3]", "-2.67 [", "+1.33 [", "5.00", "Wilson", "Holm", "asked", "by product"):
        assert said in text, said
    for one in report.sections:
        for quote in one.quotes:
            assert quote.id.replace("<", "&lt;" if kind == "html" else "<").split("i>")[0].rstrip("&lt;") in text


@pytest.mark.parametrize("kind", ["html", "md"])
def test_groups_of_a_question_that_is_not_followed_are_called_what_they_are(index, found, kind):
    counted = numbers_of(index, groups_of(found))
    divided = "These clusters are what sets the texts apart, not answers to the question."
    assert make_report(replace(found, verdict=None), counted, MODELS).caution == ""
    unfollowed = replace(found, verdict=Verdict(MOOD, "not followed", 0.1, 40, [], True))
    made = make_report(unfollowed, counted, MODELS)
    assert (made.findings[0], made.to_json()["findings"][0]) == (divided, divided)
    assert made.diagnosis == unfollowed.verdict.sentence
    text = render(made, kind).replace("\\", "")
    assert divided in text
    assert "This model does not follow this question" in text


def test_differences_that_are_more_than_chance_are_told(index):
    rows = [f"the {GOOD if (row % 2 and row < 80) else BAD} {row}" for row in range(160)]
    index.add([Document(f"r{row}", text, {"product": ["a", "b"][row % 2]}) for row, text in enumerate(rows)])
    found = index.cluster(MOOD, k=2)
    counted = numbers_of(index, groups_of(found), ["product"])
    report = make_report(replace(found, verdict=None), counted, MODELS)
    (told,) = next(one for one in report.sections if one.numbers.name == GOOD).differences
    text = render(report, "md")
    size = len(told.reviews)
    assert (told.part, told.against, size, told.total) in (("a", "all others", 0, 80), ("b", "all others", 40, 80))
    assert f"({size} of 80 reviews)" in text
    assert "was not looked into" in text


def test_a_saved_clustering_is_reported_with_what_is_new(index, found):
    index.clusterings.save("mine", found)
    index.add([Document("new", f"All {GOOD}.", {"stars": 5, "product": "p0<u>", "date": "2024-07-01"})])
    saved = index.clusterings.get("mine")
    report = make_report(saved, numbers_of(index, groups_of(saved)), MODELS)
    assert report.name == "mine"
    assert report.numbers.documents == 61
    assert report.numbers.trend.periods[-1] == "2024-07"


def test_without_stars_dates_and_an_instruction(index):
    index.add(documents("A kettle.", "A toy.", "A kettle here.", "A toy there.", "A lamp."))
    found = index.cluster(k=2)
    report = make_report(found, numbers_of(index, groups_of(found)), MODELS)
    for kind in ("html", "md"):
        assert "What the reviews say" in render(report, kind)
    assert all(one.chart is None for one in report.sections)


def test_files_are_written_by_their_ending(report, tmp_path):
    write_report(tmp_path / "a.HTML", report)
    write_report(tmp_path / "a.md", report)
    assert (tmp_path / "a.HTML").read_text().startswith("<!doctype html>")
    assert (tmp_path / "a.md").read_text().startswith(f"# {MOOD}")
    with pytest.raises(UsageError, match=r"a\.docx"):
        report_format(tmp_path / "a.docx")
    with pytest.raises(OutputError):
        write_report(tmp_path / "gone" / "a.md", report)


def test_models_by_role():
    assert model_names({"name": "q", "fingerprint": "0123456789abcdef"}, None) == {
        "Model that answers the question": "q, 0123456789ab"
    }


def test_the_page_in_a_browser(report, browser, tmp_path):
    write_report(tmp_path / "a.html", report)
    for width, scheme in ((1200, "light"), (400, "dark")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        said = []
        page.on("console", lambda one, said=said: said.append(one.text))
        page.goto((tmp_path / "a.html").as_uri())
        assert page.get_by_role("heading", level=1).inner_text() == MOOD
        assert page.get_by_role("img").count() == 2
        assert page.evaluate("window.hurt") is None
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert said == []
        shown = "getComputedStyle(document.body)"
        ground, text = page.evaluate(f"[{shown}.backgroundColor, {shown}.color]")
        assert (ground, text) == {
            "light": ("rgb(255, 255, 255)", "rgb(27, 36, 48)"),
            "dark": ("rgb(18, 22, 28)", "rgb(229, 233, 239)"),
        }[scheme]
        assert page.pdf() if scheme == "light" else True


def test_a_report_as_json(report):
    found = replace(report, made=datetime(2026, 1, 2, tzinfo=UTC)).to_json()
    assert found["made"] == "2026-01-02T00:00:00+00:00"
    assert found["numbers"]["segments"]["product"][0]["against"] == "all others"
    assert [len(one) for one in found["quotes"].values()] == [3, 3]
