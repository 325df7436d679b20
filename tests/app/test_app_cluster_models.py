import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from app_fakes import MOOD, PRODUCT, REVIEWS, load_encoder

from retriever.clusters.arithmetic.intervals import Interval
from retriever.clusters.comparing import compare_clusters, compare_ranks
from retriever.clusters.groups import groups_of
from retriever.clusters.map import map_places
from retriever.clusters.numbers import GroupNumbers, count
from retriever.index.profiling import Columns
from retriever.workspace import Index
from retriever_app.view_models import cluster_charts, clusters, comparison, flows
from retriever_app.view_models.colours import LIGHT
from retriever_app.view_models.comparison import CARD, STEP
from retriever_app.view_models.grouping import Part
from retriever_app.view_models.text import about

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
    return clusters.cards(found, sides, count(groups, stars), passing)


def test_a_card_counts_stars_and_months_of_its_reviews(found):
    kettle, lamp, toy = cards_of(found, COLUMNS)
    assert (kettle.name, kettle.size) == ("1 kettle", "2 reviews · 33% · 3.0 ★")
    assert kettle.tally.ratings == {5: 1, 4: 0, 3: 0, 2: 0, 1: 1}
    months = [f"2024-{month:02}" for month in range(1, 7)]
    assert list(kettle.tally.months) == list(lamp.tally.months) == months
    assert [one for one, count in lamp.tally.months.items() if count] == ["2024-03", "2024-04"]
    assert sum(toy.tally.months.values()) == 2
    assert set(kettle.quotes) <= {"The kettle broke.", "I love this kettle."}
    assert len(kettle.quotes) == 2


def test_without_stars_and_dates_a_card_has_neither(found):
    card = cards_of(found, Columns())[0]
    assert (card.size, card.tally.ratings, card.tally.months) == ("2 reviews · 33%", {}, {})


def test_a_card_says_share_and_impact_with_their_intervals(found):
    kettle = cards_of(found, COLUMNS)[0]
    said = "10 to 70 % of such reviews; without them the mean would be -0.17 ★ (-2.60 to +2.10), which may be chance"
    assert kettle.figures == said
    assert cards_of(found, Columns())[0].figures == "10 to 70 % of such reviews"
    sure = GroupNumbers(0, "x", [], Interval(0.5, 0.4, 0.6), 1.0, 9, Interval(0.5, 0.25, 0.75))
    assert (
        clusters.figures(sure) == "40 to 60 % of such reviews; without them the mean would be +0.50 ★ (+0.25 to +0.75)"
    )


def test_a_card_counts_only_what_passes(found):
    kettle, lamp, toy = cards_of(found, COLUMNS, np.array([True, False, True, False, False, False]))
    assert [one.size for one in (kettle, lamp, toy)] == [
        "1 review · 50% · 1.0 ★",
        "1 review · 50% · 2.0 ★",
        "0 reviews · 0%",
    ]
    assert sum(kettle.tally.ratings.values()) == 1


@pytest.mark.parametrize(
    ("stars", "scale"),
    [([], []), ([None], []), ([1, 4.5], [5, 4, 3, 2, 1]), ([0, 3], [5, 4, 3, 2, 1, 0]), ([7, 10], [*range(10, 0, -1)])],
)
def test_the_scale_of_ratings(stars, scale):
    assert clusters.scale_of(stars) == scale


def test_months_leave_none_out_over_new_year():
    assert clusters.months_of(["2024-02-10", None, "2023-11-30"]) == ["2023-11", "2023-12", "2024-01", "2024-02"]


def test_who_chose_the_number_of_clusters_is_said(index, found):
    assert clusters.headline(found) == "6 reviews in 3 clusters."
    assert clusters.headline(index.cluster(PRODUCT)) == "6 reviews in 2 clusters, the number that sets them most apart."
    alone = index.cluster(PRODUCT, ids=["r1"])
    assert clusters.headline(alone) == "1 review in 1 cluster: they are too few, or too alike, for more."


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
    assert kettle == {"label": "1 kettle", "colour": LIGHT.of(0), "shape": LIGHT.shape(0), "x": -0.75, "y": 0.5}
    assert lamp["colour"] != kettle["colour"]


def test_where_colours_are_used_up_shapes_tell_clusters_apart():
    assert LIGHT.of(0) == LIGHT.of(7)
    assert LIGHT.shape(0) != LIGHT.shape(7)


def test_rows_to_take_away_keep_fields_that_are_named_like_ours(make):
    rows = [{**REVIEWS[0], "cluster": "b2b", "words": 3}, *REVIEWS[1:]]
    with Index(make("other", rows), encoder=load_encoder()) as index:
        row = clusters.rows(index.cluster(PRODUCT, k=1), [0])[0]
    assert (row["cluster"], row["field cluster"], row["field words"]) == (1, "b2b", 3)
    assert (row["id"], row["text"], row["stars"], row["words"]) == ("r1", "The kettle broke.", 1, "kettle")


def test_parts_have_names(found):
    assert clusters.part_name(found, Part(clusters=(0, 2))) == "1 kettle and 3 toy"
    assert clusters.part_name(found, Part(area=(0, 0, 1, 0, 1, 1))) == "An area of the map"
    assert clusters.part_name(found, Part(clusters=(1,), area=(0, 0, 1, 0, 1, 1))) == "An area of the map: 2 lamp"


def test_reading_takes_as_long_as_it_took(index):
    status = index.status()
    run = next(run for run in status.runs if run["statistics"].get("embedded"))
    run["statistics"] |= {"embedded": {"1": 10, "2": 10}, "seconds": 40}
    assert clusters.expected_seconds(status, 100) == 200
    status = replace(
        status, plain={"name": "plain"}
    )  # the base view says nothing of what reading under an instruction takes
    base = next(view.view for view in status.views if not view.instruction)
    run["statistics"]["embedded"] = {str(base): 90, "2": 10}
    assert clusters.expected_seconds(status, 100) == 400
    run["statistics"]["embedded"] = {str(base): 90}
    assert clusters.expected_seconds(status, 100) == 10
    status.runs.clear()
    assert clusters.expected_seconds(status, 100) == 10


@pytest.mark.parametrize(
    ("seconds", "said"), [(3, "half a minute"), (50, "1 minute"), (640, "11 minutes"), (9000, "2 hours")]
)
def test_durations_without_false_precision(seconds, said):
    assert about(seconds) == said


def test_bars_say_shares():
    bars = cluster_charts.stars_chart({5: 3, 4: 0, 1: 1}, "#000000", LIGHT)["data"]["values"]
    assert [(one["stars"], one["said"]) for one in bars] == [("5 ★", "75%"), ("4 ★", "0%"), ("1 ★", "25%")]


@pytest.fixture
def change(index, found):
    return compare_clusters(found, index.cluster(MOOD, k=2))


def test_ribbons_are_as_thick_as_what_flows_and_fill_both_sides(change):
    chart = flows.flow_chart(change, (), LIGHT)
    corners = chart["layer"][0]["data"]["values"]
    bars = chart["layer"][1]["data"]["values"]
    for one in corners:
        assert one["bottom"] - one["top"] == pytest.approx(one["reviews"] / len(REVIEWS), abs=1e-4)
    for side, x in ((0, 0.0), (1, 1.0)):
        ends = sorted((one["top"], one["bottom"]) for one in corners if one["x"] == x)
        edges = sorted((one["top"], one["bottom"]) for one in bars if one["side"] == side)
        assert sum(low - top for top, low in ends) == pytest.approx(1, abs=1e-3)
        for top, low in ends:
            assert any(begin - 1e-4 <= top and low <= end + 1e-4 for begin, end in edges)
        assert all(before[1] <= after[0] + 1e-4 for before, after in itertools.pairwise(ends))
    assert json.dumps(chart)


def test_a_chosen_flow_stands_out(change):
    flow = change.flows[0]
    chart = flows.flow_chart(change, (flow.first, flow.second), LIGHT)
    assert chart["layer"][0]["params"][0]["value"] == [{"flow": f"{flow.first},{flow.second}"}]
    assert flows.read_flow(flows.spell(flow.first, flow.second)) == (flow.first, flow.second)
    row = flows.table(change)[0]
    assert row["reviews"] == len(flow.ids)
    first, second = change.clusterings
    assert row["of the first"] == f"{len(flow.ids) / first.clusters[flow.first].measures.size:.0%}"
    assert row["if unrelated"] == f"{second.clusters[flow.second].measures.size / 6:.0%}"
    assert "→" in flows.flow_name(change, flow)


def test_how_alike_two_groupings_are_is_said_in_words(change, found):
    assert change.rand < 0.05
    assert flows.sentence(change).endswith("under one question says nothing of where it is under the other.")
    somewhat = replace(change, rand=0.3)
    assert f"somewhat alike (adjusted Rand index 0.30): {change.moved} of 6 reviews are" in flows.sentence(somewhat)
    assert "says hardly anything of" in flows.sentence(replace(change, rand=0.1))
    assert "0 of 6 reviews" in flows.sentence(compare_clusters(found, found))
    assert "nearly the same" in flows.sentence(compare_clusters(found, found))


@pytest.fixture
def compared(index):
    return compare_ranks(
        index.search("kettle", instruction=PRODUCT, k=3, mode="dense"),
        index.search("hate love", instruction=MOOD, k=3, mode="dense"),
    )


def test_lines_lead_from_card_to_card(compared):
    chart = comparison.lines_chart(compared, LIGHT)
    ends = {}
    for one in chart["layer"][0]["data"]["values"]:
        ends.setdefault(one["id"], []).append((one["x"], one["y"]))
    for moved in compared.moved:
        drawn = dict(ends[moved.hit.document.id])
        for x, rank in enumerate(moved.ranks):
            if rank is not None:
                assert drawn[x] == (rank - 1) * STEP + CARD / 2
    stubs = {one["y"] for one in chart["layer"][1]["data"]["values"]}
    alone = [moved for moved in compared.moved if None in moved.ranks]
    assert len(chart["layer"][1]["data"]["values"]) == len(alone) > 0
    assert stubs <= {rank * STEP + CARD / 2 for rank in range(3)}


def test_cards_say_where_the_hit_is_on_the_other_side(compared):
    left, right = (comparison.side(compared, which, COLUMNS) for which in (0, 1))
    assert [line.rank for line in left] == [line.rank for line in right] == [1, 2, 3]
    places = {line.id: line.rank for line in right}
    for line in left:
        if line.id not in places:
            assert (line.mark, line.way) == ("only here", None)
        else:
            sign = {1: "▼", 0: "=", -1: "▲"}[(line.rank > places[line.id]) - (line.rank < places[line.id])]
            assert line.mark == f"{sign} {places[line.id]} there"
    assert {line.mark for line in left} != {"only here"}


def test_what_was_compared_in_a_sentence_and_in_rows(compared):
    both = [one for one in compared.moved if None not in one.ranks]
    assert f"{len(both)} of 3 hits are on both sides" in comparison.sentence(compared)
    rows = comparison.rows(compared)
    assert [row["id"] for row in rows] == [one.hit.document.id for one in compared.moved]
    assert rows[0]["rank under the first"] == compared.moved[0].ranks[0]
