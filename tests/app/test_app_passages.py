import pytest

from retriever.core.results import Hit
from retriever.core.types import Document
from retriever.index.profiling import Columns
from retriever_app.view_models import cards, passages

TEXT = "I bought it in May. It stopped working after two days!\nNo refund (really...). Never again"


def said(text, spans):
    return [text[start:end] for start, end in spans]


def test_sentences_end_at_marks_and_lines():
    assert said(TEXT, passages.sentences(TEXT)) == [
        "I bought it in May.",
        "It stopped working after two days!",
        "No refund (really...).",
        "Never again",
    ]
    assert passages.sentences(" \n ") == []
    assert said("It cost 3.50 euros", passages.sentences("It cost 3.50 euros")) == ["It cost 3.50 euros"]


@pytest.mark.parametrize(
    "words",
    ["stop stops stopped stopping", "battery batteries battery's", "charge charged charging charges", "happy happily"],
)
def test_forms_of_a_word_are_alike(words):
    assert len({passages.stem(word) for word in words.split()} - {"happi"}) == 1


def test_the_sentence_that_answers_says_most_of_the_query():
    assert said(TEXT, [passages.answering(TEXT, "stopped working", [])]) == ["It stopped working after two days!"]
    assert said(TEXT, [passages.answering(TEXT, "money back", ["refund", "money"])]) == ["No refund (really...)."]
    assert passages.answering(TEXT, "colour", ["red"]) is None
    assert passages.answering("It stopped.", "stopped", []) is None
    assert passages.answering(TEXT, "", []) is None


def test_words_of_the_query_are_marked_and_all_else_shown_as_it_is():
    text = "It *stopped*: [a](b)\n<b>stops</b>"
    spans = passages.shared(text, passages.stems("stopping it"))
    assert said(text, spans) == ["stopped", "stops"]
    assert passages.marked(text, spans) == (
        r"It \*:blue-background[stopped]\*\: \[a\]\(b\)" "  \n" r"\<b\>:blue-background[stops]\</b\>"
    )


def hit(id, text, words=()):
    return Hit(Document(id, text), 0.5, 0.5, words)


def test_a_card_shows_the_sentence_and_marks_words():
    (card,) = cards.hit_cards([hit("a", TEXT)], Columns(), {}, "stopped working")
    assert card.answer == r"It :blue-background[stopped] :blue-background[working] after two days\!"
    assert card.answer in card.marked
    (card,) = cards.hit_cards([hit("a", TEXT)], Columns(), {})
    assert (card.answer, card.marked) == ("", "")


def test_the_sentence_is_found_at_the_end_of_a_long_review():
    long = "It looks fine on the table. " * 60 + "Then it stopped working."
    (card,) = cards.hit_cards([hit("a", long)], Columns(), {}, "stopped working")
    assert card.is_long
    assert card.answer.startswith("Then it :blue-background[stopped]")
    assert card.marked == ""


def test_hits_that_say_nearly_the_same_are_folded():
    text = "The very same review of a kettle that leaks from day one on and cannot be sent back"
    hits = [hit("a", text), hit("b", "Something else."), hit("c", text.upper() + " ever"), hit("d", "something ELSE.")]
    first, second = cards.hit_cards(hits, Columns(), {}, "kettle")
    assert [one.id for one in first.alike] == ["c"]
    assert [one.id for one in second.alike] == ["d"]
    assert [one.rank for one in (first, second, *first.alike)] == [1, 2, 3]
    apart = [hit("a", "The kettle broke."), hit("b", "The toy broke.")]
    assert len(cards.hit_cards(apart, Columns(), {}, "broke")) == 2
