import pytest

from retriever.core.words import in_whole_words, is_fragment


def test_a_fragment_is_completed_from_the_text_or_left_out():
    words = ["right", "charg", "charging", "disappro"]
    assert in_whole_words(words, "It stopped Charging.") == ["right", "charging"]
    assert in_whole_words(words, "I disapprove!") == ["right", "charging", "disapprove"]  # a whole word stays
    assert in_whole_words([], "It stopped.") == []


@pytest.mark.parametrize(
    "word",
    "amphibian admin sunburn stakeholder collide centimeter simplify dedicate invertebrate upload fertilize "
    "labor labour usb usa chris apps charge battery refund zen".split(),
)
def test_an_answer_that_is_a_word_is_shown_though_the_text_does_not_say_it(word):
    assert in_whole_words([word], "A frog jumped into the pond and was gone.") == [word]


@pytest.mark.parametrize("word", "disappro charg antidepress immunos phthal adjud ingred thous beaut electr".split())
def test_what_begins_english_words_and_is_none_is_a_fragment(word):
    assert is_fragment(word)


@pytest.mark.parametrize("word", ["netflix", "kühlschrank", "wlan", "long-life"])
def test_a_word_of_another_vocabulary_that_begins_no_english_one_is_shown(word):
    assert in_whole_words([word], "It came on Monday.") == [word]


def test_a_text_that_says_a_word_makes_it_one():
    assert in_whole_words(["jos"], "Jos from the shop called, not Josie.") == ["jos"]
