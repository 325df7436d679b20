import math

import pytest
from retrieval_fakes import BagEncoder, RuleEncoder, bench, by_name, write_rows

from retriever.core.errors import InputError
from retriever.evaluation import instructed_retrieval
from retriever.evaluation.instructed_retrieval import (
    ACOS_ASPECTS,
    MAMS_ASPECTS,
    NAMING,
    OPEN,
    Need,
    conditions,
    dimensions,
    pairs,
    rankings_of,
)
from retriever.evaluation.suites import DataFile


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
    write_rows(folder, DataFile.MAMS, [{"split": "test", **row} for row in rows])
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
    write_rows(tmp_path, DataFile.RESTAURANTS, rows)
    given = bench(tmp_path, BagEncoder("SERVICE#GENERAL"))
    scores = by_name(instructed_retrieval.acos(given))
    assert scores["acos", "p-MRR"].value == 0
    assert given.search.asked == [("dense", 3, 3)]
    # Service in both polarities, food praised.
    assert scores["acos", "nDCG@10"].items == 3 * (len(NAMING) + len(OPEN))


def test_a_limit_is_that_of_the_reviews(tmp_path):
    rows = [review(f"{number:03d}", ("food", ("negative", "positive")[number % 2])) for number in range(60)]
    write_rows(tmp_path, DataFile.MAMS, [{"split": "test", **row} for row in rows])
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
    assert DataFile.MAMS in caught.value.message


DIMENSIONS = {dimension.name: dimension for dimension in dimensions()}


def test_the_set_has_six_dimensions_with_a_text_for_every_condition_of_a_topic():
    assert list(DIMENSIONS) == ["audience", "keyword", "format", "language", "length", "source"]
    texts = [document.text for dimension in DIMENSIONS.values() for document in dimension.documents]
    assert len(set(texts)) == len(texts) == 64
    for dimension in DIMENSIONS.values():
        names = [condition.name for condition in dimension.conditions]
        assert len(dimension.topics) == 4
        assert all(list(topic.texts) == names for topic in dimension.topics)
        instructions = [(one.instruction, one.reversed_instruction) for one in dimension.conditions]
        assert len({text for pair in instructions for text in pair}) == 2 * len(names)


def test_texts_meet_the_conditions_that_plain_code_can_see():
    for topic in DIMENSIONS["keyword"].topics:
        for word in topic.texts:
            assert [name for name, text in topic.texts.items() if word in text] == [word]
    for topic in DIMENSIONS["length"].topics:
        sentence, paragraph, article = (topic.texts[name] for name in ("sentence", "paragraph", "article"))
        assert sentence.count(".") == 1 < paragraph.count(".") < article.count(".")
        assert (paragraph.count("\n\n"), article.count("\n\n")) == (0, 2)
        assert 2 * len(sentence) < len(paragraph) < len(article) / 2


QUERIES = [topic.query for dimension in DIMENSIONS.values() for topic in dimension.topics]
PLACES = {
    text: (f"topic{QUERIES.index(topic.query)}", name)
    for dimension in DIMENSIONS.values()
    for topic in dimension.topics
    for name, text in topic.texts.items()
}
ASKED = {one.instruction: one.name for dimension in DIMENSIONS.values() for one in dimension.conditions}
DENIED = {one.reversed_instruction: one.name for dimension in DIMENSIONS.values() for one in dimension.conditions}


class Follows(BagEncoder):
    """Sees topics, under a condition who meets it too, and under its denial nothing but who does not."""

    def __init__(self):
        super().__init__(" ".join(["met", "other", *(f"topic{number}" for number in range(len(QUERIES)))]))

    def words(self, text, instruction):
        if text in QUERIES:
            return [f"topic{QUERIES.index(text)}", *["met"] * bool(instruction)]
        topic, name = PLACES[text]
        if instruction in ASKED:
            return [topic, "met" if name == ASKED[instruction] else "other"]
        if instruction in DENIED:
            return ["other"] if name == DENIED[instruction] else [topic, "met"]
        return [topic, "other"]


def test_an_encoder_that_ignores_the_instruction_scores_nothing(tmp_path):
    scores = by_name(conditions(bench(tmp_path, RuleEncoder("one", lambda text, instruction: "one"))))
    assert {one.value for one in scores.values()} == {0.0}
    assert [name for _, name in scores if "," not in name] == ["SICR", "WISE"]
    assert [one.metric for one in scores.values() if one.headline] == ["SICR", "WISE"]


def test_an_encoder_that_follows_conditions_complies_but_for_texts_that_were_first_already(tmp_path):
    scores = by_name(conditions(bench(tmp_path, Follows())))
    # Texts of a topic tie at first, and the first of them by id is first: one of two, or one of three.
    shares = {name: 1 - 1 / len(dimension.conditions) for name, dimension in DIMENSIONS.items()}
    for name, share in shares.items():
        assert scores["conditions", f"{name}, SICR"].value == pytest.approx(100 * share)
        assert (
            scores["conditions", f"{name}, WISE"].value == 100
        )  # first under the condition, and lower under its denial
    assert scores["conditions", "SICR"].value == pytest.approx(100 * sum(shares.values()) / 6)
    assert "4 of them answered already" in scores["conditions", "format, SICR"].note


def test_a_query_is_searched_three_ways_among_the_texts_of_its_dimension(tmp_path):
    encoder = RuleEncoder("one", lambda text, instruction: "one")
    work = bench(tmp_path, encoder, limit=2)
    cases = rankings_of(work, DIMENSIONS["format"])
    assert len(cases) == 2 * 3
    assert {(case.judged, len(case.original)) for case in cases} == {(3, 12)}
    condition = DIMENSIONS["format"].conditions[0]
    topics = {query for query, _ in encoder.read} & {topic.query for topic in DIMENSIONS["format"].topics}
    assert len(topics) == 2
    for query in topics:
        assert {"", condition.instruction, condition.reversed_instruction} <= {
            asked for text, asked in encoder.read if text == query
        }
    assert work.search.asked == [("dense", 12, 12)]
