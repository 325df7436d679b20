import pytest

from retriever.clusters.arithmetic.naming import typical_sentence
from retriever.clusters.quotes import LONGEST, MOST, Source, quotes
from retriever.core.text import without_loose_marks

WORDS = {"broken": 1.0, "battery": 0.8, "died": 0.5}
TONE = {"broken": -1.0, "died": -0.5, "great": 0.5, "back": 0.0}


def said(*reviews, words=WORDS, tone=TONE):
    sources = [Source(f"r{row}", text, stars, *answer) for row, (text, stars, *answer) in enumerate(reviews)]
    return [(quote.id, quote.text) for quote in quotes(sources, words, tone)]


def test_a_quote_is_the_sentence_that_says_what_sets_the_group_apart():
    review = "I take my words back. My friend came by. The battery is broken after a week. It was a gift."
    assert said((review, 1)) == [("r0", "The battery is broken after a week.")]


def test_what_says_nothing_of_the_group_is_not_quoted():
    assert said(("I take my words back. I take them all back.", 1)) == []


def test_a_quote_can_stand_alone():
    long = f"The battery died {'and died ' * LONGEST}."
    assert said((long, 1), ("Broken battery.", 1), ("Is the battery really broken?", 1)) == []
    ranked = said(("But the battery died on me.", 1), ("The battery died on Monday.", 1), words={"battery": 1.0})
    assert ranked[0] == ("r1", "The battery died on Monday.")


def test_a_review_whose_stars_are_far_from_the_groups_is_not_quoted():
    bad = [(f"The battery number {word} is broken.", 1) for word in ("one", "two", "three")]
    praise = "My old charger died, unlike this great gadget."
    assert "r3" not in dict(said(*bad, (praise, 5), tone={}))
    assert "r3" in dict(said(*bad, (praise, 2), tone={}))


def test_a_sentence_whose_words_go_with_other_stars_than_its_review_is_not_quoted():
    praise = "The battery is great, great, really great."
    assert said((f"{praise} It broke.", 1), tone={"great": 0.5}) == []
    assert said((f"{praise} It broke.", 5), tone={"great": 0.5}) == [("r0", praise)]


def test_two_quotes_do_not_say_the_same_with_the_same_words():
    same = [("The battery is broken already.", 1)] * 4
    assert len(said(*same)) == 1
    other = [(f"The battery died when {word}.", 1) for word in ("swimming", "cooking", "driving", "sleeping")]
    assert len(said(*other, words={"battery": 0.1, "swimming": 1.0, "cooking": 1.0, "driving": 1.0})) <= MOST


def test_the_sentence_with_the_answer_is_quoted_where_the_answer_is_known():
    review = "The battery was fine for me. The hinge snapped off in May."
    assert said((review, 2, "hinge snapped"), words={"battery": 0.4}) == [("r0", "The hinge snapped off in May.")]


def test_without_ratings_and_in_another_language():
    assert said(("Der Akku ist kaputt gegangen.", None), words={"akku": 1.0}, tone={}) == [
        ("r0", "Der Akku ist kaputt gegangen.")
    ]


def test_a_quote_begins_without_what_ends_the_sentence_before_it():
    review = 'He said " no battery here . "" The battery is broken after a week .'
    assert [text for _, text in said((review, 1))] == ["The battery is broken after a week ."]
    assert typical_sentence(['He asked : " Just how good ? " But the battery is broken .'], ["battery", "broken"]) == (
        "But the battery is broken ."
    )


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ('"" But I needed it .', "But I needed it ."),
        ("” He said so.", "He said so."),
        ("... The stories", "The stories"),
        ('" The Cat in the Hat " book', '" The Cat in the Hat " book'),
        ('"" The Cat " book', '" The Cat " book'),
        ("“Great” toy", "“Great” toy"),
        ("(which had marks)", "(which had marks)"),
        ("$ 20 buys it", "$ 20 buys it"),
        ('"', ""),
        ("", ""),
    ],
)
def test_loose_marks(sentence, shown):
    assert without_loose_marks(sentence) == shown
