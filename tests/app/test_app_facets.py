import json

import numpy as np
import pytest

from retriever_app.view_models import facets
from retriever_app.view_models.clusters import Sides
from retriever_app.view_models.colours import DARK, LIGHT
from retriever_app.view_models.facets import Bar, Facets

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
    assert clicked.any
    assert not Facets().any
