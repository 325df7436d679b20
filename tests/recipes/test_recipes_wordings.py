import re
from functools import cache
from itertools import chain, product

import pytest
from derived import DERIVED
from label_types import load_label_types

from retriever.encoders.options import DEFAULT_INSTRUCTION
from retriever.evaluation import generic, instructed_retrieval
from retriever.evaluation.wordings import WORDING_KINDS, all_wordings
from retriever.training.rows import normalise_text

TYPES = load_label_types()
EVERY = [(one.name, one.wordings, one.held_out) for one in (*TYPES.values(), *DERIVED)]
EVALUATED = [
    DEFAULT_INSTRUCTION,
    "What kind of product is the review about?",
    "How does the customer feel about the product?",
    generic.INTENT_INSTRUCTION,
    generic.RELATION_INSTRUCTION,
    instructed_retrieval.INSTRUCTION.replace("{verb}", "complain about"),
    instructed_retrieval.INSTRUCTION.replace("{verb}", "praise"),
    *chain.from_iterable(
        (one.instruction, *chain.from_iterable(one.of(kind) for kind in WORDING_KINDS))
        for one in all_wordings().values()
    ),
]
PRODUCTS = [
    "Apex_AD2600_Progressive_scan_DVD player",
    *"Creative_Labs_Nomad_Jukebox_Zen_Xtra_40GB MicroMP3 Canon_G3 Linksys_Router Nokia_6600 Nokia_6610 ipod".split(),
    *"norton Diaper_Champ Nikon_coolpix_4300 Hitachi_router Canon_S100 Canon_PowerShot_SD500".split(),
]
CLOSED = {
    "review_category": "electronics home book toy beauty",
    "review_polarity": "positive negative neutral",
    "star_rating": "1 2 3 4 5",
    "aspect_sentiment": "POS NEG NEU positive negative neutral",
    "ekman_emotion": "joy neutral anger surprise sadness fear disgust",
    "comment_sentiment": "positive negative neutral ambiguous",
}
COUNTS = {"banking_intent": 77, "emotion": 28, "relation": 35, "relation_unnamed": 35, "product_subcategory": 11}


@cache
def word_set(wording):
    return frozenset(normalise_text(wording).split())


def near(one, other):
    """Whether two wordings are one but for three tenths of their words."""
    left, right = word_set(one), word_set(other)
    return len(left & right) >= 0.7 * len(left | right)


def test_every_label_type_is_there():
    assert list(TYPES) == [
        "review_category",
        "product_subcategory",
        "review_polarity",
        "star_rating",
        "aspect_mentioned",
        "aspect_sentiment",
        "aspect_opinion",
        "product_name",
        "banking_intent",
        "emotion",
        "ekman_emotion",
        "comment_sentiment",
        "relation",
        "relation_unnamed",
        "head_entity",
        "tail_entity",
    ]
    assert {name for name, one in TYPES.items() if one.whole_type_held_out} == {
        "star_rating",
        "ekman_emotion",
        "head_entity",
    }
    assert all(bool(one.why) == one.whole_type_held_out for one in TYPES.values())


@pytest.mark.parametrize("one", TYPES.values(), ids=TYPES)
def test_a_label_type_has_its_wordings_and_each_names_its_fields(one):
    assert (len(one.wordings), len(one.held_out)) == (24, 6)
    for wording in (*one.wordings, *one.held_out):
        assert set(re.findall(r"\{(\w+)\}", wording)) == set(one.fields), wording


@pytest.mark.parametrize("one", DERIVED, ids=lambda one: one.name)
def test_a_derived_label_has_its_wordings(one):
    assert (len(one.wordings), len(one.held_out)) == (12, 3)
    assert not any(sign in wording for wording in (*one.wordings, *one.held_out) for sign in "{}")


def test_no_wording_is_there_twice():
    everything = [normalise_text(one) for _, trained, held_out in EVERY for one in (*trained, *held_out)]
    assert len(everything) > 900
    assert sorted({one for one in everything if everything.count(one) > 1}) == []


def test_no_held_out_wording_is_nearly_a_trained_one():
    trained = [one for _, wordings, _ in EVERY for one in wordings]
    held_out = [one for _, _, wordings in EVERY for one in wordings]
    assert [pair for pair in product(held_out, trained) if near(*pair)] == []


def test_no_wording_is_nearly_one_that_is_used_to_measure():
    written = [one for _, trained, held_out in EVERY for one in (*trained, *held_out)]
    assert len(EVALUATED) > 190
    assert [pair for pair in product(written, EVALUATED) if near(*pair)] == []


def test_wordings_that_differ_in_a_word_or_two_are_near():
    assert near("What kind of product is this review about?", "What kind of product is the review about?")
    assert near("Does the text contain a number?", "does the text contain any number")
    assert not near("What did the buyer order?", "What sort of article did the customer buy?")


@pytest.mark.parametrize("one", TYPES.values(), ids=TYPES)
def test_answers_are_words_and_tell_the_values_apart(one):
    assert bool(one.answers) or one.open
    for value, answers in one.answers.items():
        assert 1 <= len(set(answers)) == len(answers) <= 3, value
        for answer in answers:
            assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9' -]*", answer) and len(answer.split()) <= 9, answer
    owners = {}
    for value, answers in one.answers.items():
        for answer in answers:
            owners.setdefault(normalise_text(answer), set()).add(value.lower()[:3])  # POS and positive are one label
    assert [answer for answer, values in owners.items() if len(values) > 1] == []


@pytest.mark.parametrize("name", [*CLOSED, *COUNTS, "product_name"])
def test_every_value_of_a_closed_type_has_an_answer(name):
    one = TYPES[name]
    assert not one.open
    if name in COUNTS:
        assert len(one.answers) == COUNTS[name]
    else:
        assert set(one.answers) == set(CLOSED.get(name, "").split() or PRODUCTS)


def test_an_open_type_answers_in_the_words_of_the_text_and_a_closed_one_does_not():
    assert TYPES["aspect_mentioned"].answers_to("miscellaneous") == ("something else", "other things")
    assert TYPES["aspect_mentioned"].answers_to("battery life") == ("battery life",)
    assert TYPES["banking_intent"].answers_to("card_arrival")[0] == "when the card arrives"
    with pytest.raises(KeyError):
        TYPES["banking_intent"].answers_to("card_departure")


def test_a_relation_is_called_the_same_whether_the_names_are_given_or_not():
    assert list(TYPES["relation"].answers) == list(TYPES["relation_unnamed"].answers)
