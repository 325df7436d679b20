import math

import pytest
from retrieval_fakes import BagEncoder, RuleEncoder, bench, by_name, write_rows

from retriever.core.errors import InputError
from retriever.evaluation import instructed_retrieval
from retriever.evaluation.files import MAMS
from retriever.evaluation.files import RESTAURANTS as ACOS
from retriever.evaluation.instructed_retrieval import ACOS_ASPECTS, MAMS_ASPECTS, NAMING, OPEN, Need, pairs


def review(id, *aspects):
    """A review whose text says what its labels are: "service negative, food positive"."""
    labels = [{"aspect": aspect, "polarity": polarity} for aspect, polarity in aspects]
    return {"id": id, "text": ", ".join(f"{aspect} {polarity}" for aspect, polarity in aspects), "aspects": labels}


BAD = review("a", ("service", "negative"))
GOOD = review("b", ("staff", "positive"))


def obeying(text, instruction):
    """Documents that answer the instruction, and every query, are "yes"."""
    if "positive" not in text and "negative" not in text:
        return "yes"
    words = {"complain": "negative", "praise": "positive"}
    wanted = next(polarity for verb, polarity in words.items() if verb in instruction)
    kinds = next(kinds for aspect, kinds in MAMS_ASPECTS.items() if f"the {aspect}." in instruction)
    return "yes" if any(f"{kind} {wanted}" in text for kind in kinds) else "no"


def contrary(text, instruction):
    turned = instruction.replace("complain about", "?").replace("praise", "complain about").replace("?", "praise")
    return obeying(text, turned)


def scored(folder, encoder, rows, **options):
    write_rows(folder, MAMS, [{"split": "test", **row} for row in rows])
    return by_name(instructed_retrieval.mams(bench(folder, encoder, **options)))


def test_an_encoder_that_obeys_finds_what_is_asked_for(tmp_path):
    scores = scored(tmp_path, RuleEncoder("yes no", obeying), [BAD, GOOD])
    assert scores["mams", "nDCG@10"].value == pytest.approx(100)
    # A document that loses its relevance goes from rank 1 to rank 2: 1 - 1/2.
    assert scores["mams", "p-MRR"].value == pytest.approx(50)
    # Naming and open queries under two instructions; only naming ones change to an instruction with an answer.
    assert scores["mams", "nDCG@10"].items == 2 * (len(NAMING) + len(OPEN))
    assert scores["mams", "p-MRR"].items == 2 * len(NAMING)


def test_an_encoder_blind_to_instructions_has_no_p_mrr(tmp_path):
    scores = scored(tmp_path, BagEncoder("service negative positive"), [BAD, GOOD])
    p_mrr = scores["mams", "p-MRR"]
    assert (p_mrr.value, p_mrr.low, p_mrr.high) == (0, 0, 0)
    assert scores["mams", "nDCG@10"].value < 100
    constant = scored(tmp_path, RuleEncoder("same", lambda text, instruction: "same"), [BAD, GOOD])
    assert constant["mams", "p-MRR"].value == 0
    # All cosines tie, so the order is that of the ids: complaints come first, praise second.
    assert constant["mams", "nDCG@10"].value == pytest.approx(100 * (1 + 1 / math.log2(3)) / 2)


def test_an_encoder_that_does_the_opposite_is_below_zero(tmp_path):
    scores = scored(tmp_path, RuleEncoder("yes no", contrary), [BAD, GOOD])
    assert scores["mams", "p-MRR"].value == pytest.approx(-50)


def test_a_review_of_both_polarities_is_not_removed(tmp_path):
    both = review("c", ("service", "positive"), ("staff", "negative"))
    scores = scored(tmp_path, RuleEncoder("yes no", obeying), [BAD, GOOD, both])
    assert scores["mams", "nDCG@10"].value == pytest.approx(100)
    # Complaints: a c b. Praise: b c a. "a" goes from 1 to 3, "b" from 1 to 3, "c" is relevant to both.
    assert scores["mams", "p-MRR"].value == pytest.approx(100 * (1 - 1 / 3))


def test_an_open_query_changes_its_aspect_too(tmp_path):
    rows = [BAD, GOOD, review("d", ("food", "negative")), review("e", ("food", "positive"))]
    asked = {(one.query, one.need.aspect): one for one in pairs(["food", "service"]) if one.need.polarity == "negative"}
    assert asked[OPEN[0], "food"].changed == Need("service", "positive")
    assert asked["food", "food"].changed.instruction == "Find reviews that praise the food."
    scores = scored(tmp_path, RuleEncoder("yes no", obeying), rows)
    assert scores["mams", "nDCG@10"].value == pytest.approx(100)
    assert scores["mams", "p-MRR"].value > 0


@pytest.mark.parametrize("aspects", [MAMS_ASPECTS, ACOS_ASPECTS])
def test_every_changed_instruction_is_one_the_query_is_searched_under(aspects):
    asked = pairs(list(aspects))
    ids = {one.id for one in asked}
    assert len(ids) == len(asked) == 120
    assert all(id.split() == [id] for id in ids)
    assert all(one.changed_id in ids and one.changed_id != one.id for one in asked)
    assert len({one.need.instruction for one in asked}) == 10


def test_the_other_file_has_its_own_categories(tmp_path):
    rows = [
        review("a", ("SERVICE#GENERAL", "negative"), ("FOOD#QUALITY", "positive")),
        review("b", ("SERVICE#GENERAL", "positive")),
        review("c", ("LOCATION#GENERAL", "positive")),
    ]
    write_rows(tmp_path, ACOS, rows)
    given = bench(tmp_path, BagEncoder("SERVICE#GENERAL"))
    scores = by_name(instructed_retrieval.acos(given))
    assert scores["acos", "p-MRR"].value == 0
    assert given.search.asked == [("dense", 3, 3)]
    # Service in both polarities, food praised.
    assert scores["acos", "nDCG@10"].items == 3 * (len(NAMING) + len(OPEN))


def test_a_limit_is_that_of_the_reviews(tmp_path):
    rows = [review(f"{number:03d}", ("food", ("negative", "positive")[number % 2])) for number in range(60)]
    write_rows(tmp_path, MAMS, [{"split": "test", **row} for row in rows])
    given = bench(tmp_path, BagEncoder("food"), limit=20)
    list(instructed_retrieval.mams(given))
    assert given.search.asked == [("dense", 20, 20)]


@pytest.mark.parametrize(
    "row, problem",
    [
        ({"id": "z", "text": "t", "aspects": [{"aspect": "food"}]}, "row 2: an entry of 'aspects' lacks its"),
        ({"id": "z", "text": "t", "aspects": ["food"]}, "row 2: an entry of 'aspects' lacks its"),
        ({"id": "z", "text": "t"}, "row 2: 'aspects' is missing"),
        (BAD, "row 2: the id 'a' is there twice"),
        (review("z", ("food", "neutral")), "no aspect with both complaints and praise"),
    ],
)
def test_reviews_that_cannot_be_used_are_named(tmp_path, row, problem):
    with pytest.raises(InputError) as caught:
        scored(tmp_path, BagEncoder("x"), [BAD, row])
    assert problem in caught.value.message
    assert MAMS in caught.value.message
