import pytest
from derived import DERIVED, RULES
from text_words import clean

LONG = " ".join(["The kettle stands on the shelf and the cups stand beside it ."] * 10)  # 120 words
HITS = [
    ("asks", "Does it come with a lid ?", "something is asked"),
    ("asks", "It comes with a lid .", "nothing is asked"),
    ("number", "We ordered 3 lamps .", "3"),
    ("number", "It cost $1,250.50 in all.", "1,250.50"),
    ("number", "The two lamps hang there.", "two"),
    ("money", "I paid a high price for the lamp .", "money is mentioned"),
    ("money", "Only $ 12 , and it shines .", "money is mentioned"),
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
    ("person_of_speech", "He left the US for his job .", "other people are spoken of"),
    ("tense", "We were tired and went home .", "the past"),
    ("tense", "I painted it green .", "the past"),
    ("tense", "It is heavy and does not move .", "the present"),
    ("tense", "They will open a second shop .", "the future"),
    ("tense", "It wo n't last .", "the future"),
    ("length", "Nice lamp .", "short"),
    ("length", "a lamp " * 20, "of medium length"),
    ("length", LONG, "long"),
    ("tone", "Wow ! What a lamp !", "loud"),
    ("tone", "DO NOT LEAVE this THING alone .", "loud"),
    ("tone", "The lamp stands by the door .", "calm"),
    ("negation", "It does n't shine .", "something is denied"),
    ("negation", "There is no switch .", "something is denied"),
    ("negation", "It shines all night .", "nothing is denied"),
    ("comparison", "Much brighter than our old one .", "compared with something else"),
    ("comparison", "It is more useful than a candle .", "compared with something else"),
    ("comparison", "The lamp stands by the door .", "not compared"),
    ("recommendation", "I highly recommend it to all .", "recommended"),
    ("recommendation", "I would not recommend it to anyone .", "advised against"),
    ("recommendation", "Do n't buy this lamp .", "advised against"),
    ("bought_for", "Bought this for my 4 year old granddaughter .", "granddaughter"),
    ("bought_for", "I got it for myself and love it .", None),
    ("bought_for", "I bought it for myself .", "the buyer"),
    ("problem", "It stopped working on day three .", "it stopped working"),
    ("problem", "The tank leaks .", "it leaks"),
    ("problem", "One came cracked .", "it arrived damaged"),
    ("problem", "The lid is too tight for me .", "it is too small"),
    ("problem", "There was a missing screw , missing screws in fact .", "a part is missing"),
    ("request", "Please cancel my order .", "help or action is asked for"),
    ("request", "Could you please look at it ?", "help or action is asked for"),
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
    ("number", "We ordered 3 lamps like the AB12 ."),
    ("money", "A cheap trick ."),
    ("time_unit", "It lasted two days or three weeks ."),
    ("time_unit", "She is 3 years old ."),
    ("time_unit", "It lasted two days and a week ."),
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
