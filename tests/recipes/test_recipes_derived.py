import re
from functools import cache
from itertools import chain, product

import pytest
from label_types import DERIVED, RULES, load_label_types
from text_words import clean

from retriever.encoders.methods import DEFAULT_INSTRUCTION
from retriever.evaluation import generic, instructed_retrieval
from retriever.evaluation.wordings import WORDING_KINDS, all_wordings
from retriever.training.rows import normalise_text

LONG = " ".join(["The kettle stands on the shelf and the cups stand beside it ."] * 10)  # 120 words
HITS = [
    ("asks", "Does it come with a lid ?", "something is asked"),
    ("asks", "It comes with a lid .", "nothing is asked"),
    ("number", "We ordered 3 lamps .", "3"),
    ("number", "It cost $1,250.50 in all.", "1,250.50"),
    ("number", "The two lamps hang there.", "two"),
    ("money", "I paid a high price for the lamp .", "money is mentioned"),
    ("money", "The lamp shines all night .", "money is not mentioned"),
    ("time_unit", "It died after three weeks .", "weeks"),
    ("time_unit", "A few minutes later we sat down .", "minutes"),
    ("family_member", "My mom reads under it .", "mother"),
    ("family_member", "Their nephews came along .", "nephew"),
    ("occupation", "Two nurses looked after him .", "nurse"),
    ("place_kind", "We keep it in the kitchen .", "kitchen"),
    ("country", "They moved to Norway last spring .", "Norway"),
    ("person_of_speech", "I 've had mine since spring .", "the writer speaks of themselves"),
    ("person_of_speech", "Hold your breath !", "the reader is spoken to"),
    ("person_of_speech", "She went home with her dog .", "other people are spoken of"),
    ("tense", "We were tired and went home .", "the past"),
    ("tense", "It is heavy and does not move .", "the present"),
    ("tense", "They will open a second shop .", "the future"),
    ("length", "Nice lamp .", "short"),
    ("length", "a lamp " * 20, "of medium length"),
    ("length", LONG, "long"),
    ("tone", "Wow ! What a lamp !", "loud"),
    ("tone", "The lamp stands by the door .", "calm"),
    ("negation", "It does n't shine .", "something is denied"),
    ("negation", "It shines all night .", "nothing is denied"),
    ("comparison", "Much brighter than our old one .", "compared with something else"),
    ("comparison", "The lamp stands by the door .", "not compared"),
    ("recommendation", "I highly recommend it to all .", "recommended"),
    ("recommendation", "I would not recommend it to anyone .", "advised against"),
    ("bought_for", "Bought this for my 4 year old granddaughter .", "granddaughter"),
    ("bought_for", "I got it for myself and love it .", None),
    ("bought_for", "I bought it for myself .", "the buyer"),
    ("problem", "It stopped working on day three .", "it stopped working"),
    ("problem", "The tank leaks .", "it leaks"),
    ("problem", "One came cracked .", "it arrived damaged"),
    ("problem", "The lid is too tight for me .", "it is too small"),
    ("problem", "There was a missing screw , missing screws in fact .", "a part is missing"),
    ("request", "Please cancel my order .", "help or action is asked for"),
    ("request", "The lamp stands by the door .", "nobody is asked to do anything"),
    ("politeness", "Thank you all !", "thanks"),
    ("politeness", "I 'm so sorry about that .", "an apology"),
    ("politeness", "The lamp stands by the door .", "neither thanks nor an apology"),
    ("swearing", "What a load of bullshit .", "foul language"),
    ("swearing", "The lamp stands by the door .", "clean language"),
    ("food", "They had run out of dumplings .", "dumpling"),
    ("body_part", "Two teeth came out .", "tooth"),
    ("animal", "The puppies sleep on it .", "puppy"),
    ("weather", "It rained on our way there .", "rain"),
    ("color", "The grey one came .", "gray"),
    ("material", "It has a bamboo lid .", "bamboo"),
    ("clothing", "He lost both gloves .", "glove"),
    ("vehicle", "My bike has a basket .", "bicycle"),
    ("certainty", "Maybe it will do .", "unsure"),
    ("certainty", "It is definitely the switch .", "certain"),
    ("first_word", "\"Lamps are nice,\" he said .", "lamps"),
    ("last_word", "He said that lamps are nice !", "nice"),
    ("longest_word", "The enormous lamp fell down .", "enormous"),
    ("main_word", "The lamp is a lamp like every lamp on the shelf .", "lamp"),
    ("sentence_count", "The lamp came today .", "one"),
    ("sentence_count", "The lamp came today . It shines !", "two"),
    ("sentence_count", "It came. It shone. It fell. It broke. We cried.", "many"),
]  # fmt: skip
MISSES = [
    ("asks", "Tell me when it comes ."),
    ("number", "We ordered 3 lamps and 2 chairs ."),
    ("number", "The MP3 player came ."),
    ("money", "A cheap trick ."),
    ("time_unit", "It lasted two days or three weeks ."),
    ("time_unit", "She is 3 years old ."),
    ("family_member", "My son and my wife like it ."),
    ("occupation", "They work hard ."),
    ("place_kind", "A kitchen knife with a wooden handle ."),
    ("place_kind", "We keep it in the kitchen drawer ."),
    ("country", "From Norway to Japan ."),
    ("country", "A norway spruce ."),
    ("person_of_speech", "The lamp fell ."),
    ("tense", "It was good and is bad ."),
    ("tense", "Painted doors look fresh ."),
    ("length", "a lamp " * 12),
    ("length", "a lamp " * 10),
    ("tone", "The lamp stands by the door !"),
    ("negation", "We could hardly see ."),
    ("comparison", "It is more than 3 feet long , like the other ."),
    ("recommendation", "A friend recommended the place ."),
    ("recommendation", "I would not hesitate to recommend it ."),
    ("bought_for", "I bought it for my son and daughter ."),
    ("bought_for", "We got it for my son-in-law ."),
    ("problem", "It never leaks ."),
    ("problem", "It leaks and is too small ."),
    ("request", "Can you believe it ?"),
    ("politeness", "Thanks to the rain we stayed in ."),
    ("swearing", "The damn lamp fell ."),
    ("food", "Pizza and sushi , side by side ; pizza and more sushi ."),
    ("body_part", "It looks fine ."),
    ("animal", "Cats chase dogs here , as dogs and cats do ."),
    ("weather", "It was a nice day ."),
    ("color", "The Red Sox won ."),
    ("material", "Soft to the touch ."),
    ("clothing", "A hat and a scarf ."),
    ("vehicle", "We walked ."),
    ("certainty", "Maybe , or definitely ."),
    ("first_word", "3 lamps came ."),
    ("last_word", "They are 3"),
    ("longest_word", "The red cat sat ."),
    ("longest_word", "Enormous elephant ."),
    ("main_word", "A lamp and a chair , the chair by the lamp ."),
    ("sentence_count", "Dr. Smith came today ."),
    ("sentence_count", "It came today"),
]


@pytest.mark.parametrize(("name", "text", "answer"), HITS)
def test_a_rule_reads_its_label(name, text, answer):
    assert RULES[name](text) == answer


@pytest.mark.parametrize(("name", "text"), MISSES)
def test_a_rule_is_silent_where_it_is_not_sure(name, text):
    assert RULES[name](text) is None


def test_every_rule_is_tried_both_ways():
    assert {name for name, _, answer in HITS if answer} == {name for name, _ in MISSES} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_nothing_is_read_off_markup_or_off_no_words(name):
    for text in ("", "...", "<b>My mom is red</b>", "See https://example.org now ."):
        assert RULES[name](text) is None


def test_content_is_read_off_short_texts_alone_and_form_off_all():
    assert RULES["family_member"]("My uncle has it . " * 5) == "uncle"
    assert RULES["family_member"]("My uncle has it . " * 20) is None
    assert RULES["first_word"]("My uncle has it . " * 20) == "my"


def test_split_apostrophes_are_joined_again():
    assert clean("I do n't , it 's , can 't , the dogs ' dish") == "I don't , it's , can't , the dogs ' dish"


def test_every_label_has_wordings_and_a_rule_and_four_are_kept_out_of_training():
    assert [one.name for one in DERIVED if one.held_out_type] == [
        "comparison",
        "animal",
        "last_word",
        "sentence_count",
    ]
    assert {one.name for one in DERIVED} == set(RULES)
    assert all(one.rule is RULES[one.name] for one in DERIVED)


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
