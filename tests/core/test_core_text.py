import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from retriever.core.errors import UsageError
from retriever.core.patterns import LONGEST, TextPattern
from retriever.core.text import composed, escape_markdown, is_blank, readable_markdown
from retriever.core.words import distinct, in_whole_words, is_fragment, shown_words, stem

HOSTILE = [
    "<script>alert(1)</script>",
    "[a](javascript:alert(1)) ![b](x)",
    "`code` *bold* __under__ ~~gone~~ $x$ &lt; &#60;",
    "# no heading",
    "1. no list",
    "2) nor this",
    "- nor this",
    "+ nor this",
    "> no quote",
    "a | b",
    "---",
    "===",
    "http://a.example www.b.example c@d.example <http://e.example>",
    "back\\slash \\* end\\",
    "two\nlines\n\n# of it",
    "2024-05 rose 3.5 to 4.1 (+0.6)",
]
FRAMES = ["# {}", "- {}", "> {}", "{}", "| a | {} |\n|---|---|\n"]


def words(html):
    """Return the text of HTML that holds no other elements than those of the frame."""
    return re.sub(r"\s+", " ", re.sub(r"</?(h1|ul|li|blockquote|p|table|thead|tr|th)>", "", html)).strip()


def shown(markdown):
    renderer = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return words(renderer.render(markdown))


def as_html(text):
    for sign, spelled in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(sign, spelled)
    return " ".join(text.split())


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("escape", [escape_markdown, readable_markdown])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_shown_as_it_is(text, escape, frame):
    found = shown(frame.format(escape(text))).replace("\u2060", "")
    expected = f"a {as_html(text)}" if frame.startswith("|") else as_html(text)
    assert found == expected


@given(st.text(st.sampled_from("ab1 #*_-+.()[]<>|`\\~!=&:@$\n"), max_size=12))
def test_any_text_is_shown_as_it_is(text):
    if " ".join(text.split()):
        assert shown("> " + readable_markdown(text)).replace("\u2060", "") == as_html(text)


@pytest.mark.parametrize("hostile", [*HOSTILE, ":red[a]", "a\n\n- b"])
def test_every_sign_that_means_something_to_a_page_is_escaped(hostile):
    escaped = escape_markdown(hostile)
    assert "\n" not in escaped
    special = [at for at, one in enumerate(escaped) if one in "![]()<>$:#`*|"]
    assert all(escaped[at - 1] == "\\" for at in special)


@pytest.mark.parametrize("escape", [escape_markdown, readable_markdown])
@pytest.mark.parametrize(
    "address",
    ["http://evil.example/x", "see HTTPS://evil.example", "www.evil.example", "(WWW.evil.example)", "a@b.example",
     "a.b-@b.example", "http://www.evil.example/a@b.example"],
)  # fmt: skip
def test_addresses_become_no_links(address, escape):
    shown = escape(address).replace("\\", "")  # as Markdown is read before links are looked for in it
    assert not re.search(r"https?://|www\.|[-.\w+]@[-\w]", shown, re.IGNORECASE)
    assert shown.replace("\u2060", "") == address


def test_words_that_are_no_addresses_stay_as_they_are():
    assert escape_markdown("3 @ 5, http and www") == "3 \\@ 5, http and www"


def test_what_is_not_rendered_reads_well():
    line = "From 2024-05 to 2024-06, +0.6 (of 4.1), it's 3.5 %: up!"
    assert readable_markdown(line) == line


# Letters.


@pytest.mark.parametrize(
    "text",
    [
        "", " \n\t", "\u200b", "\u200b\u200d \u2060", "\ufeff", "\u202e", "\u2066\u2069", "\x00\x07\x1b",
        "\u3164", "\u2800", "\ufe0f", "\u00ad", "\U000e0100",
    ],
)  # fmt: skip
def test_a_text_without_a_visible_character_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", [".", "-", "👍", "\u202eevil", "水", "\u200bא", "\U0001f468\u200d\U0001f469", "\u0301"]
)
def test_a_text_with_one_is_not(text):
    assert not is_blank(text)


def test_an_accent_and_its_letter_are_one_character():
    assert composed("cafe\u0301") == "caf\u00e9"
    assert composed("\u1112\u1161\u11ab") == "\ud55c"
    assert composed("plain") == "plain"


# Whole words.


def test_a_fragment_is_completed_from_the_text_or_left_out():
    words = ["right", "charg", "charging", "unsatis"]
    assert in_whole_words(words, "It stopped Charging.") == ["right", "charging"]
    assert in_whole_words(words, "Unsatisfied!") == ["right", "charging", "unsatisfied"]  # a whole word stays
    assert in_whole_words([], "It stopped.") == []


def test_a_fragment_is_the_commonest_word_that_it_begins_and_no_stop_word():
    assert in_whole_words(["kettl"], "Kettles like a kettle, a kettle.") == ["kettle"]
    assert in_whole_words(["wher"], "Where is it?") == []


def test_a_fragment_that_the_text_does_not_say_is_completed_as_in_training():
    assert in_whole_words(["pat", "disappro"], "The kettle leaks.") == ["patio", "disapproval"]
    assert in_whole_words(["pat"], "A pattern on the patch, a patch.") == ["patch"]


@pytest.mark.parametrize("word", ["bra", "cam", "mot", "zen"])
def test_a_word_whose_token_mostly_begins_others_is_shown_where_the_text_says_it(word):
    assert in_whole_words([word], "The kettle leaks.") == []
    assert in_whole_words([word], f"A {word} for me.") == [word]


def test_shown_words_are_whole_and_leave_out_the_question_but_not_what_somebody_named():
    words = ["product", "charg", "charger", "pat", "per", "kinds"]
    assert shown_words(words, "The charger!", "What kind of product?") == ["charger", "patio"]
    assert shown_words(words, "The charger!", "What kind of product?", 1) == ["product", "charger", "patio"]


@pytest.mark.parametrize(
    "word",
    "amphibian admin sunburn stakeholder collide centimeter simplify dedicate invertebrate upload fertilize "
    "labor labour usb usa chris apps charge battery refund".split(),
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


# The forms of a word.


@pytest.mark.parametrize(
    "forms",
    [
        "work works worked working worker workers",
        "book books book's",
        "battery batteries",
        "charge charges charged charging charger",
        "use uses used using",
        "run running",
        "glass glasses",
        "movie movies",
        "easy easily",
        "Toy toys",
    ],
)
def test_the_regular_forms_of_a_word_have_one_stem(forms):
    assert len(set(map(stem, forms.split()))) == 1


@pytest.mark.parametrize("words", ["bus bust", "need ned", "thing th", "red r", "water wat", "paper pap", "string str"])
def test_words_that_look_alike_stay_apart(words):
    assert len(set(map(stem, words.split()))) == 2


def test_of_an_answer_each_word_is_kept_once_and_none_of_the_question():
    assert distinct("work workers mine working link".split()) == ["work", "mine", "link"]
    assert distinct(["books", "is", "the", "reviewed", "author", "book"], "What do reviews say?") == ["books", "author"]


# Patterns.


def test_matches_are_counted_and_empty_ones_are_none():
    assert TextPattern("(?i)charg(er|ing)").count("Charger, charging, charged") == 2
    assert TextPattern("x*").count("abc") == 0


def test_a_pattern_that_never_ends_is_stopped():
    pattern = TextPattern("(a|aa)+$", seconds=0.3)
    with pytest.raises(UsageError, match=r"longer than 0\.3 seconds"):
        pattern.count("a" * 60 + "b")


def test_the_time_is_for_all_texts_together():
    pattern = TextPattern("a", seconds=0.0)
    with pytest.raises(UsageError, match="longer than 0 seconds"):
        pattern.count("a")


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "is empty"),
        ("(", r"'\(' is no regular expression: missing \) at position 1"),
        ("*", "nothing to repeat"),
        ("a" * (LONGEST + 1), f"has {LONGEST + 1} characters"),
        ("(" * 480 + "a" + ")" * 480, "nests too deeply"),
        ("\ud800", "not valid UTF-8"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, problem):
    with pytest.raises(UsageError, match=problem):
        TextPattern(pattern)
