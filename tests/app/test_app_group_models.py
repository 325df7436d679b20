import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS, load_encoder

from retriever.clusters.arithmetic.choice import Choice, Tried
from retriever.clusters.arithmetic.consensus import Stability
from retriever.clusters.arithmetic.intervals import Interval
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import Counted, numbers_of
from retriever.clusters.map import map_places
from retriever.clusters.numbers import GroupNumbers, count
from retriever.clusters.report import make_report
from retriever.core.text import about
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.index.completing import judging_cost
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app import charts, state
from retriever_app.background import expected_seconds, seconds_a_text
from retriever_app.charts import DARK, LIGHT, SHAPES
from retriever_app.pages.groups import facets
from retriever_app.pages.groups import model as clusters
from retriever_app.pages.groups.asked import MOST_GROUPS, OWN, Ask, Grouping
from retriever_app.pages.groups.facets import Bar, Facets
from retriever_app.pages.groups.model import Sides

COLUMNS = Columns(product="product", category="category", stars="stars", date="date")


@pytest.fixture
def index(make):
    with Index(make(instructions=[PRODUCT, MOOD]), encoder=load_encoder()) as opened:
        yield opened


@pytest.fixture
def found(index):
    return index.cluster(PRODUCT, k=3)


def cards_of(found, columns, passing=None):
    sides = clusters.read_sides(found.material.documents, columns)
    passing = np.ones(len(sides.stars), bool) if passing is None else passing
    groups = groups_of(found).kept(passing)
    stars = [one for one, kept in zip(sides.stars, passing, strict=True) if kept]
    counted = Counted(groups, count(groups, stars), stars)
    return clusters.cards(found, sides, counted, passing, np.zeros(len(sides.stars), np.float32))


def test_a_card_counts_stars_and_months_of_its_reviews(found):
    kettle, lamp, toy = cards_of(found, COLUMNS)
    assert (kettle.group.label, kettle.size) == ("kettle", "2 reviews · 2 of 6 · 3.0 ★")
    assert kettle.tally.ratings == {5: 1, 4: 0, 3: 0, 2: 0, 1: 1}
    months = [f"2024-{month:02}" for month in range(1, 7)]
    assert list(kettle.tally.months) == list(lamp.tally.months) == months
    assert [one for one, count in lamp.tally.months.items() if count] == ["2024-03", "2024-04"]
    assert sum(toy.tally.months.values()) == 2
    assert kettle.quotes == ["The kettle broke."]


def test_a_card_has_the_words_and_quotes_of_the_report(index):
    text = "This {} {} a good while in town {}."
    index.add(
        [
            Document(
                f"x{row}",
                text.format(*(("kettle", "broke") if row % 2 else ("lamp", "shines")), row),
                {"stars": row % 2 + 3},
            )
            for row in range(20)
        ]
    )
    found = index.cluster(PRODUCT, k=2)
    sections = make_report(found, numbers_of(index, groups_of(found)), {}).sections
    told = {section.numbers.group: (section.words, [quote.text for quote in section.quotes]) for section in sections}
    shown = {card.group.number: (card.words.split(", "), card.quotes) for card in cards_of(found, COLUMNS)}
    assert shown == told
    assert all(words and quotes for words, quotes in told.values())


def test_a_card_says_share_and_impact_with_their_intervals(found):
    kettle = cards_of(found, COLUMNS)[0]
    said = (
        "Share 10 to 70 %. Without these reviews the mean rating would change by -0.17 ★ (-2.60 to +2.10); "
        "this may be chance"
    )
    assert kettle.figures == said
    assert cards_of(found, Columns())[0].figures == "Share 10 to 70 %"
    sure = GroupNumbers(0, "x", [], Interval(0.5, 0.4, 0.6), 1.0, 9, Interval(0.5, 0.25, 0.75))
    assert (
        clusters.figures(sure, sure.share)
        == "Share 40 to 60 %. Without these reviews the mean rating would change by +0.50 ★ (+0.25 to +0.75)"
    )


def test_a_card_counts_only_what_passes(found):
    kettle, lamp, toy = cards_of(found, COLUMNS, np.array([True, False, True, False, False, False]))
    assert [one.size for one in (kettle, lamp, toy)] == [
        "1 review · 1 of 2 · 1.0 ★",
        "1 review · 1 of 2 · 2.0 ★",
        "0 reviews · 0 of 2",
    ]
    assert sum(kettle.tally.ratings.values()) == 1


@pytest.mark.parametrize(
    ("stars", "scale"),
    [([], []), ([None], []), ([1, 4.5], [5, 4, 3, 2, 1]), ([0, 3], [5, 4, 3, 2, 1, 0]), ([7, 10], [*range(10, 0, -1)])],
)
def test_the_scale_of_ratings(stars, scale):
    assert clusters.scale_of(stars) == scale


def test_who_chose_the_number_of_groups_is_said(index, found):
    assert clusters.headline(found) == "6 reviews in 3 groups."
    chosen = index.cluster(PRODUCT)
    number = len(chosen.clusters)
    assert clusters.headline(chosen) == f"6 reviews in {number} groups. This number is stable."
    doubtful = Verdict(PRODUCT, "unclear", 0.5, 40, [], True)
    assert clusters.headline(replace(chosen, verdict=doubtful)) == f"6 reviews in {number} groups."
    alone = index.cluster(PRODUCT, ids=["r1"])
    assert clusters.headline(alone) == "1 review in 1 group: they are too few, or too similar, for more."


def test_the_other_stable_numbers_are_offered_where_the_number_was_chosen(index, found):
    assert clusters.other_numbers(found) == []
    shaky = Stability(repeated=0.1, halves=0.1)
    curve = [Tried(3, 0.5, None), Tried(5, 0.4, None), Tried(6, 0.4, shaky)]
    assert not curve[-1].holds
    assert clusters.other_numbers(replace(found, choice=Choice(3, curve))) == [5]


def test_a_group_whose_name_does_not_hold_has_no_share_and_its_alert_is_on_its_card(found):
    first, *rest = found.clusters
    mixed = replace(first, label="such as a, b, c", holds=0.3, alert="One of two has five stars.", description="All.")
    card = next(card for card in cards_of(replace(found, clusters=[mixed, *rest]), COLUMNS) if card.group.number == 0)
    assert (card.group.alert, card.group.description) == ("One of two has five stars.", "All.")
    assert card.size == "2 reviews · 3.0 ★"
    assert "Share" not in card.figures


def test_groups_of_reviews_that_do_not_answer_come_last(found):
    first, *rest = found.clusters
    shown = clusters.in_order(replace(found, clusters=[replace(first, label="not said", documents=9), *rest]))
    assert [group.label for group in shown] == ["lamp", "toy", "not said"]


def test_points_carry_their_cluster_and_a_short_text(found):
    places = map_places(found)
    points = clusters.points(found, places)
    assert {len(column) for column in points.values()} == {len(REVIEWS)}
    assert points["cluster"].tolist() == [0, 0, 1, 1, 2, 2]
    assert points["review"][0] == "The kettle broke."
    assert np.array_equal(np.stack([points["x"], points["y"]], axis=1), places)


def test_a_cluster_is_marked_in_the_middle_of_its_points(found):
    places = np.array([[-1, 0], [-0.5, 1], [0, 0], [0, 0], [1, 0], [1, 0]], np.float32)
    kettle, lamp, _ = clusters.marks(found, places, LIGHT)
    looks = {"colour": LIGHT.of(0), "shape": LIGHT.shape(0)}
    assert kettle == {"label": "kettle", "number": 0, **looks, "x": -0.75, "y": 0.5}
    assert lamp["colour"] != kettle["colour"]


def test_rows_to_take_away_keep_fields_that_are_named_like_ours(make):
    rows = [{**REVIEWS[0], "group": "b2b", "words": 3}, *REVIEWS[1:]]
    with Index(make("other", rows), encoder=load_encoder()) as index:
        found = index.cluster(PRODUCT, k=1)
    row = clusters.rows(found, [0])[0]
    assert (row["group"], row["field group"], row["field words"]) == (found.clusters[0].label, "b2b", 3)
    assert (row["id"], row["text"], row["stars"], row["words"]) == ("r1", "The kettle broke.", 1, "kettle")


def test_reading_takes_as_long_as_it_took(index):
    status = index.status()
    run = next(run for run in status.runs if run["statistics"].get("embedded"))
    run["statistics"] |= {"embedded": {"1": 20, "2": 20}, "seconds": 80}
    assert expected_seconds(status, 100, judged=False) == 200
    assert expected_seconds(status, 100, judged=True) == 2 * (100 + judging_cost(1))
    # The base view says nothing of what reading under an instruction takes.
    status = replace(status, plain={"name": "plain"})
    base = next(view.view for view in status.views if not view.instruction)
    run["statistics"]["embedded"] = {str(base): 180, "2": 40}
    assert expected_seconds(status, 100, judged=False) == 200
    run["statistics"]["embedded"] = {str(base): 160}
    assert expected_seconds(status, 100, judged=False) is None
    assert seconds_a_text([status], instruction=False) == 0.5
    run["statistics"]["embedded"] = {"2": 1}  # too few to tell
    assert expected_seconds(status, 100, judged=False) is None
    status.runs.clear()
    assert expected_seconds(status, 100, judged=False) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3, "5 seconds"),
        (12, "10 seconds"),
        (48, "50 seconds"),
        (57, "1 minute"),
        (640, "11 minutes"),
        (9000, "2 hours"),
    ],
)
def test_durations_without_false_precision(seconds, said):
    assert about(seconds) == said


def test_bars_say_shares():
    bars = charts.bar_chart({"5 ★": 3, "4 ★": 0, "1 ★": 1}, "#000000", LIGHT, shares=True)["data"]["values"]
    assert [(bar["kind"], bar["number"]) for bar in bars] == [("5 ★", "75%"), ("4 ★", "0%"), ("1 ★", "25%")]


def test_a_link_keeps_what_can_be_meant():
    given = {"groups": ["900"], "into": ["a, b"], "several": ["1"], "clusters": ["3", "1"], "read": ["0"]}
    parsed = state.parse(Grouping, given)
    assert (parsed.groups, parsed.clusters, parsed.read) == (MOST_GROUPS, (3, 1), 1)
    assert state.parse(Grouping, state.params(parsed)) == parsed
    assert state.parse(Grouping, {"groups": ["-7"]}).groups == OWN


def test_what_the_form_comes_to():
    own = Grouping("What broke?", OWN, " handle,, lid ", several=True)
    assert (own.lacks, own.ask("x")) == ("", Ask("What broke?", 0, ("handle", "lid"), several=True, where="x"))
    assert Grouping("What broke?", 3, "handle, lid", several=True).ask(None) == Ask("What broke?", 3)
    assert Grouping("What broke?", saved="mine").ask("x", (1, 2)) == Ask(saved="mine", edited=(1, 2))
    assert "question" in Grouping(groups=OWN, into="a, b").lacks
    assert "two categories" in Grouping("What broke?", OWN, "a").lacks


SIDES = Sides(
    stars=[5, 4.5, 1, None, 1, 3],
    days=["2024-01-03", "2024-01-30", "2024-03-01", "2024-03-31", None, "2024-01-01"],
    products=["kettle", "kettle", "lamp", "kettle", None, "lamp"],
)
ALL = np.ones(6, bool)


def rows(mask):
    return np.flatnonzero(mask).tolist()


def test_reviews_pass_that_have_what_was_clicked_in_every_chart():
    assert rows(facets.passing(SIDES, Facets())) == [0, 1, 2, 3, 4, 5]
    assert rows(facets.passing(SIDES, Facets(only_stars=(5,)))) == [0, 1]
    assert rows(facets.passing(SIDES, Facets(only_stars=(5, 1)))) == [0, 1, 2, 4]
    assert rows(facets.passing(SIDES, Facets(only_product=("kettle",), only_month=("2024-03",)))) == [3]
    assert rows(facets.passing(SIDES, Facets(only_product=("kettle",), only_month=("2024-03",)), but="only_month")) == [
        0,
        1,
        3,
    ]
    assert rows(facets.passing(SIDES, Facets(only_product=("gone",)))) == []


def test_a_chart_counts_what_the_others_let_pass():
    clicked = Facets(only_stars=(5,), only_product=("kettle",))
    stars = facets.bars(SIDES, clicked, "only_stars", ALL)
    assert stars == [
        Bar(5, 2, 2, True),
        Bar(4, 0, 0, False),
        Bar(3, 1, 0, False),
        Bar(2, 0, 0, False),
        Bar(1, 2, 0, False),
    ]
    products = facets.bars(SIDES, clicked, "only_product", ALL)
    assert products == [Bar("kettle", 3, 2, True), Bar("lamp", 2, 0, False)]
    months = facets.bars(SIDES, clicked, "only_month", ALL)
    assert months == [Bar("2024-01", 3, 2, False), Bar("2024-02", 0, 0, False), Bar("2024-03", 2, 0, False)]


def test_a_chart_counts_what_is_chosen_on_the_map():
    within = np.array([True, False, False, True, False, False])
    assert [one.passing for one in facets.bars(SIDES, Facets(), "only_month", within)] == [1, 0, 1]


def test_where_all_are_alike_there_is_no_chart():
    alike = Sides([5, 5], [None, None], ["kettle", "kettle"])
    assert all(facets.bars(alike, Facets(), facet, np.ones(2, bool)) == [] for facet in facets.TITLES)


def test_of_many_products_the_most_frequent_are_shown_and_those_clicked():
    names = [f"p{row}" for row in range(40)]
    sides = Sides([None] * 41, [None] * 41, [*names, "p7"])
    shown = facets.bars(sides, Facets(only_product=("p39", "gone")), "only_product", np.ones(41, bool))
    assert (shown[0].value, len(shown), shown[-1]) == ("p7", facets.MOST_BARS + 1, Bar("p39", 1, 1, True))


def test_a_click_adds_and_another_takes_away():
    assert facets.toggled((5,), 4) == (5, 4)
    assert facets.toggled((5, 4), 5) == (4,)
    assert facets.read_click("only_stars", 4) == 4
    assert facets.read_click("only_product", "kettle") == "kettle"
    assert facets.read_click("only_month", None) is None
    assert facets.read_click("only_stars", "x") is None


@pytest.mark.parametrize("colours", [LIGHT, DARK])
@pytest.mark.parametrize("facet", facets.TITLES)
def test_a_chart_is_a_specification_that_altair_takes(facet, colours):
    altair = pytest.importorskip("altair")
    spec = facets.chart(facet, facets.bars(SIDES, Facets(only_stars=(5,)), facet, ALL), colours)
    altair.LayerChart.from_dict(json.loads(json.dumps(spec)))
    full = [one["value"] for one in spec["data"]["values"] if one["full"]]
    assert full == [5] if facet == "only_stars" else len(full) == len(spec["data"]["values"])


def test_what_was_clicked_in_words():
    clicked = Facets((5,), ("kettle",), ("2024-01",))
    assert clicked.said == ["5 ★", "kettle", "2024-01"]
    assert not Facets().said


# How colours look with no cones of one kind (Machado, Oliveira and Fernandes 2009), in linear RGB.
EYES = {
    "all": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted((TO_XYZ @ linear(colour))[1] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour, eye):
    xyz = TO_XYZ @ np.clip(np.array(EYES[eye]) @ linear(colour), 0, None) / (0.95047, 1, 1.08883)
    x, y, z = np.cbrt(xyz)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_ground(theme):
    assert min(contrast(colour, theme.ground) for colour in (*theme.clusters, theme.up, theme.down, theme.quiet)) >= 3
    assert contrast(theme.text, theme.ground) >= 7


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_eye_tells_colours_apart(theme, eye):
    for palette in (theme.clusters, (theme.up, theme.down, theme.quiet)):
        nearest = min(np.linalg.norm(lab(a, eye) - lab(b, eye)) for a, b in itertools.combinations(palette, 2))
        assert nearest >= 12


def test_no_two_clusters_share_colour_and_shape():
    looks = {(LIGHT.of(one), LIGHT.shape(one)) for one in range(MOST_GROUPS)}
    assert len(looks) == MOST_GROUPS <= len(SHAPES) * len(LIGHT.clusters)


def test_many_months_become_quarters_or_years_oldest_first():
    months = [f"{year}-{month:02}" for year in range(2020, 2023) for month in range(1, 13)]
    unit, counts = charts.by_period(dict.fromkeys(months, 1))
    assert (unit, len(counts), next(iter(counts.items()))) == ("quarter", 12, ("2020-Q1", 3))
    assert charts.by_period(dict.fromkeys(months[:24], 2)) == ("month", dict.fromkeys(months[:24], 2))
    spec = charts.time_chart(dict.fromkeys(months, 1), "red", LIGHT)
    assert [row["period"] for row in spec["data"]["values"]] == list(counts)
    assert spec["encoding"]["x"]["sort"] is None


def test_dates_of_a_facet_are_as_coarse_as_its_chart():
    sides = Sides([1.0] * 3, ["1999-05-01", "2004-01-31", "2010-12-01"], [None] * 3)
    bars = facets.bars(sides, Facets(), "only_month", np.ones(3, dtype=bool))
    assert [bar.value for bar in bars] == [str(year) for year in range(1999, 2011)]
    assert facets.passing(sides, Facets(only_month=("2004",))).tolist() == [False, True, False]
