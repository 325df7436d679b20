import html
import re
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from index_fakes import KEYWORDS, MOOD, documents
from markdown_it import MarkdownIt

from retriever.clusters.arithmetic.estimates import Estimate
from retriever.clusters.arithmetic.intervals import Interval, Share
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.numbers import GroupNumbers, Numbers
from retriever.clusters.quotes import Source, _speaking
from retriever.clusters.reading import Sampled
from retriever.clusters.report import make_report, model_names, render, report_format, write_report
from retriever.clusters.report_drawings import line
from retriever.core.errors import OutputError, UsageError
from retriever.core.lessons import Held, Lessons
from retriever.core.types import Document
from retriever.core.verdicts import LEVELS, Verdict

GOOD, BAD = KEYWORDS[MOOD][:2]
HOSTILE = '<script>hurt=1</script> <img src=x onerror="hurt=1"> [x](javascript:hurt) | \u202e$x$ '
MODELS = {"Model": "<b>m</b>, 0123"}
SHARE = Share(0.5, 0.4, 0.6, 9, 18)
VERDICT = Verdict("<em>asked</em>", "unclear", 0.5, 40, [], True)


@pytest.fixture
def found(index):
    index.add(
        [
            Document(
                f"r{row}<i>",
                f"It is {GOOD if row % 3 else BAD} in place {row}, {HOSTILE}.",
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


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_group_whose_name_does_not_hold_has_no_share_anywhere(index, found, kind):
    first, second = found.clusters
    mixed = replace(found, clusters=[first, replace(second, label="such as this / that", holds=0.3)])
    made = make_report(mixed, numbers_of(index, groups_of(mixed), ["product"]), MODELS)
    assert [section.numbers.share is None for section in made.sections].count(True) == 1
    text = html.unescape(render(made, kind))
    assert text.count("such as this / that") == 2  # its quotes and its row of the table: no bar
    assert f"{first.label}" in text


def test_a_report_says_all_that_is_known(report):
    assert (report.question, report.name, report.where) == (MOOD, "", "(stars > 0)")
    assert report.findings == [report.caution]  # groups that need not answer the question have no say of ratings
    assert report.changes == "Between 2024-03 and 2024-05 no share changed by more than chance."
    good, bad = report.sections
    assert {int(re.search(r"\d+", quote.id)[0]) % 3 > 0 for quote in good.quotes} == {True}
    said = {(quote.stars, quote.text.split()[2]) for quote in (*good.quotes, *bad.quotes)}
    assert said == {(5, GOOD), (1, BAD)}
    assert GOOD in good.words
    assert good.line.said.startswith("Share by month: 2024-01 65%, 2024-03 ")


def test_a_bar_shows_a_share_by_its_ratings_and_a_line_the_periods_with_enough_reviews(report):
    good, bad = report.sections
    assert good.bar.parts[:2] == [0, 0]
    assert bad.bar.parts[1:] == [0, 0, 0]
    assert good.bar.high == pytest.approx(100)
    assert good.bar.low < good.bar.parts[2] < good.bar.high
    places = [tuple(map(float, at.split(","))) for at in good.line.points.split()]
    corners = [tuple(map(float, at.split(","))) for at in good.line.band.split()]
    assert [x for x, _ in places] == pytest.approx([2, 60, 118])
    assert all(upper[1] < place[1] for upper, place in zip(corners, places, strict=False))
    trend = report.numbers.trend
    assert line(replace(trend, totals=[9, *trend.totals[1:-1], 9]), 0) is None


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
        "body header h1 p time main section h2 h3 ul li div table thead tbody tr th td span article blockquote "
        "cite bdi figure svg line rect polygon polyline figcaption".split()
    )
    assert not [name for one in tree.iter() for name in one.attrib if name.startswith("on")]


def test_the_markdown_holds_hostile_text_as_text(report):
    markdown = render(report, "md")
    shown = MarkdownIt("commonmark").enable("table").render(markdown)
    assert "<script" not in shown
    assert "<img" not in shown
    assert "<a " not in shown
    assert "<b>" not in shown
    assert shown.count("<tr>") == 3
    assert shown.count("<blockquote>") == sum(len(section.quotes) for section in report.sections)
    assert "&lt;script&gt;hurt=1&lt;/script&gt;" in shown


@pytest.mark.parametrize("kind", ["html", "md"])
def test_both_forms_say_every_number(report, kind):
    text = render(report, kind).replace("\\", "")
    for said in ("67% (54% to 77%)", "1.00 (", "5.00 (", "Wilson", "Holm", "by product"):
        assert said in text, said
    for one in report.sections:
        for quote in one.quotes:
            assert quote.id.replace("<", "&lt;" if kind == "html" else "<").split("i>")[0].rstrip("&lt;") in text


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "followed"])
@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_question_that_may_not_be_followed_says_so_first_and_calls_no_group_the_answer(index, found, kind, level):
    counted = numbers_of(index, groups_of(found))
    assert make_report(replace(found, verdict=None), counted, MODELS).caution == ""
    doubtful = replace(found, verdict=Verdict(MOOD, level, 0.3, 40, [], True))
    made = make_report(doubtful, counted, MODELS)
    assert made.caution.startswith(doubtful.verdict.sentence)
    assert made.caution.endswith(doubtful.division)
    assert (made.findings[0], made.to_json()["findings"][0]) == (made.caution, made.caution)
    assert list(made.to_json())[1] == "caution"
    text = html.unescape(render(made, kind).replace("\\", ""))
    assert text.index(made.caution) < text.index("60 reviews")
    assert text.count(made.caution) == 1
    assert "argest" not in text


def test_a_followed_question_says_so_and_names_groups_as_answers(index, found):
    followed = replace(found, verdict=Verdict(MOOD, "followed", 0.9, 40, [], True))
    made = make_report(followed, numbers_of(index, groups_of(found)), MODELS)
    assert made.caution == ""
    assert made.findings == [  # of two groups the effect on the mean is one fact
        f"“{BAD}” has 33% (23% to 46%) of the reviews, and their mean is 1.0 stars. The mean of the others is 5.00, "
        "that of all 3.67."
    ]
    for kind in ("html", "md"):
        assert followed.verdict.sentence in render(made, kind)


def test_the_stars_of_a_group_that_differ_from_those_of_its_examples_are_told(index, found):
    sure = replace(found, verdict=Verdict(MOOD, "followed", 0.9, 40, [], True))
    counted = numbers_of(index, groups_of(found))
    bad = [id for id, number in found.assignments.items() if found.clusters[number].label == BAD]
    right = replace(sure, examples=dict.fromkeys(bad[:3], BAD))
    assert make_report(right, counted, MODELS).caution == ""
    wrong = make_report(replace(sure, examples=dict.fromkeys(bad[:3], GOOD)), counted, MODELS)
    assert wrong.caution == (
        f"The labels may be wrong, because ratings differ: 1.0 stars in the examples of “{GOOD}”, 5.0 in the group."
    )
    assert wrong.findings == [wrong.caution]
    assert make_report(replace(sure, examples=dict.fromkeys(bad[:2], GOOD)), counted, MODELS).caution == ""


def test_what_was_taught_is_told_with_both_scores(index, found):
    lessons = Lessons(3, {BAD: 4, GOOD: 30}, Held(0.7, 0.6, 0.8), Held(0.9, 0.8, 0.95), 34, "")
    counted = numbers_of(index, groups_of(found))
    found = replace(found, verdict=None)  # which a taught question has none of
    made = make_report(replace(found, lessons=lessons), counted, MODELS)
    both = (
        "Taught with 34 examples: 90% of the examples set aside for testing get the right answer (80% to 95%), "
        "70% before."
    )
    assert (made.diagnosis, made.caution) == (both, "")
    for kind in ("html", "md"):
        text = render(made, kind)
        assert both in text
        assert "was not looked into" not in text
    unsure = make_report(replace(found, lessons=replace(lessons, after=Held(0.72, 0.5, 0.8))), counted, MODELS)
    assert unsure.caution.startswith(
        "Taught with 34 examples: 72% of the examples set aside for testing get the right answer (50% to 80%), 70% "
        "before. The gain may be chance. Read some texts of each group"
    )
    same = replace(lessons, after=Held(0.7, 0.5, 0.8))
    assert same.sentence == (
        "34 examples gave no gain: 70% of the examples set aside for testing get the right answer (50% to 80%), "
        "70% before."
    )


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
    assert f"Of the reviews of {told.part}, {size / 80:.0%} are in this group; of all others, " in text
    assert "Nobody has checked yet whether the model follows this question" in text


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
    assert all(one.line is None for one in report.sections)
    assert report.findings == []


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
        assert page.get_by_role("img").count() == 4  # a bar and a line for each of two groups
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
    assert {tuple(one[0]) for one in found["quotes"].values()} == {("id", "text", "stars")}


def test_shares_of_a_sample_are_those_of_all_texts(index, found):
    ids = list(found.assignments)
    shares = {0: Estimate(Interval(0.5, 0.4, 0.6), 20, 60), 1: Estimate(None, 3, 60)}
    sampled = Sampled("chat:m", 100, 60, 40, 0.81, 0.5, True, shares, frozenset(ids[:30]))
    drawn = replace(found, verdict=None, sampled=sampled)
    counted = numbers_of(index, groups_of(drawn))
    made = make_report(drawn, counted, MODELS)
    assert made.read == f"{sampled.sentence} Ratings are of the 30 drawn."
    assert made.numbers.groups[0].share == Share(0.5, 0.4, 0.6, 15, 30)
    assert made.numbers.groups[1].share == counted.numbers.groups[1].share
    assert "predictions that are right for 81%" in made.read
    assert make_report(drawn, counted, MODELS, where="stars > 3").numbers == counted.numbers
    whole = make_report(replace(found, sampled=replace(sampled, texts=60, predicted=False)), counted, MODELS)
    assert whole.read == "All 60 texts were read by chat:m."


@pytest.mark.parametrize(("kind", "of"), [("html", "<td>{} of 9</td>"), ("md", "| {} of 9 |")])
def test_shares_of_few_reviews_are_counts_and_no_finding_is_about_a_small_group(index, found, kind, of):
    few = numbers_of(index, groups_of(found).only(list(found.assignments)[:9]), ["product"])
    made = make_report(replace(found, verdict=None), few, MODELS)
    assert made.findings == []
    text = render(made, kind)
    for section in made.sections:
        assert of.format(len(section.numbers.reviews)) in text
    assert not re.search(r"\d%(?! interval)", text[text.index("All groups") : text.index("Method and limits")])


def test_a_share_that_changed_is_told_of_periods_with_enough_reviews(index):
    rows = [f"the {GOOD if month == 1 or row % 10 == 0 else BAD} {row}" for month in (1, 2) for row in range(40)]
    days = [f"2024-0{1 + row // 40}-05" for row in range(80)]
    index.add(
        [Document(f"r{row}", text, {"date": day}) for row, (text, day) in enumerate(zip(rows, days, strict=True))]
    )
    found = replace(index.cluster(MOOD, k=2), verdict=None)
    made = make_report(found, numbers_of(index, groups_of(found), period="month"), MODELS)
    largest, change = made.findings
    assert largest == f"“{GOOD}” is the largest group: 55% (44% to 65%) of the reviews."
    assert change.endswith("of the reviews in 2024-01 to 90% in 2024-02.") or change.endswith(
        "in 2024-01 to 10% in 2024-02."
    )
    assert made.changes == ""
    few = numbers_of(index, groups_of(found).only([f"r{row}" for row in range(35, 80)]), period="month")
    assert not any("2024-02" in sentence for sentence in make_report(found, few, MODELS).findings)


@pytest.mark.parametrize("worst", [1, 3])
def test_a_group_that_lowers_the_mean_rating_is_quoted_by_its_low_ratings(index, worst):
    """Most of its reviews have five stars, and are the more central ones."""
    rows = [(f"The {BAD} kettle number {row} is here.", 5 if row % 3 else worst) for row in range(30)]
    rows += [(f"The {GOOD} lamp number {row} is here.", 5) for row in range(60)]
    index.add([Document(f"r{row:02}", text, {"stars": stars}) for row, (text, stars) in enumerate(rows)])
    found = replace(index.cluster(MOOD, k=2), verdict=None)
    made = make_report(found, numbers_of(index, groups_of(found)), MODELS)
    assert made.findings[0].startswith(f"“{BAD}” has 33%")
    quoted = {section.numbers.name: {quote.stars for quote in section.quotes} for section in made.sections}
    assert quoted == {BAD: {worst}, GOOD: {5}}


def test_low_ratings_go_before_those_that_are_merely_below_the_mean_and_two_are_too_few():
    lowering = GroupNumbers(0, "x", [], SHARE, 3.9, 9, Interval(0.2, 0.1, 0.3))

    def quoted(stars):
        numbers = Numbers(9, 4.1, 9, [lowering], SHARE, [], {}, None)
        return [source.stars for source in _speaking([Source("r", "", each) for each in stars], numbers, 0, 5.0)]

    assert quoted([5, 4, 4, 4, 1, 2, 2]) == [1, 2, 2]
    assert quoted([5, 4, 3, 4, 1, 2]) == [4, 3, 4, 1, 2]
    assert quoted([5, 5, 1, 2]) == [5, 5, 1, 2]


def test_a_difference_between_segments_is_said_once(index):
    products = ["a" if row < 60 else "bc"[row % 2] for row in range(160)]
    rows = [
        Document(f"r{row}", f"the {GOOD if product == 'a' else BAD} {row}", {"product": product})
        for row, product in enumerate(products)
    ]
    index.add(rows)
    found = replace(index.cluster(MOOD, k=2), verdict=None)
    made = make_report(found, numbers_of(index, groups_of(found), ["product"]), MODELS)
    assert f"“{GOOD}” is most frequent in a: 100% of its reviews, 0% of all others." in made.findings
    differences = {section.numbers.name: [each.part for each in section.differences] for section in made.sections}
    assert differences == {GOOD: [], BAD: ["b", "c"]}


def test_words_of_a_group_are_those_of_its_texts_that_others_lack_one_form_each(index):
    index.add(
        [
            Document(f"r{row}", f"the {GOOD if row % 2 else BAD} {'lids lid' if row % 2 else 'box'} works {row}")
            for row in range(40)
        ]
    )
    found = index.cluster(MOOD, k=2)
    made = make_report(found, numbers_of(index, groups_of(found)), MODELS)
    words = {section.numbers.name: section.words for section in made.sections}
    assert sorted(words[BAD]) == sorted([BAD, "box"])
    assert len(words[GOOD]) == 2
    assert {GOOD}.union({"lid", "lids"}) > set(words[GOOD])
    assert "works" not in words[GOOD]


def test_the_chart_names_the_ratings_of_each_colour(report):
    assert report.rating_levels == ("up to 2", "3", "4 or more")
    assert "3 ★ or unrated" in render(replace(report, numbers=replace(report.numbers, rated=50)), "html")
    assert replace(report, scale=10.0).rating_levels == ("up to 4", "5 to 7", "8 or more")
