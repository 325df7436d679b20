from dataclasses import replace

import numpy as np
import pytest

from retriever.clusters.arithmetic.naming import answer_words, keywords, labels_of, names_that_hold, typical_sentence
from retriever.clusters.phrases import title
from retriever.clusters.quotes import Source, quotes, typical_words
from retriever.core.languages import language
from retriever.core.types import Document
from retriever.index.languages import FIELD, with_others
from retriever_app import cards
from retriever_app.pages.teach.model import excerpt

GERMAN, FRENCH, JAPANESE = language("de"), language("fr"), language("ja")
TEXTS = [
    "Die Batterien waren nach einem Tag leer.",
    "Die Batterie ist leer und lädt nicht.",
    "Der Koffer hat ein schlechtes Schloss.",
    "Das Schloss am Koffer klemmt immer.",
]
LABELS = np.array([0, 0, 1, 1])


def bags(texts, spoken):
    return [set(spoken.words(text)) for text in texts]


def test_forms_of_a_word_count_together_and_its_stop_words_do_not():
    assert keywords(bags(TEXTS, GERMAN), LABELS, 2, GERMAN) == [["batterie", "leer"], ["koffer", "schloss"]]
    assert typical_words({"schlösser": 0.5, "schloss": 0.9, "koffer": 0.7}, GERMAN) == ["schloss", "koffer"]
    assert labels_of([["koffer"], ["koffern", "schloss"]], GERMAN) == ["koffer", "schloss"]
    assert answer_words(["Batterien", "und", "Farbe"], "Welche Farbe?", GERMAN) == {"batterien"}


def test_words_without_a_topic_are_left_out_in_all_languages_that_texts_are_in():
    texts = ["Der Koffer ist zu.", "La valise de la cliente", "鞄の鍵が壊れました。", "The lock of the bag"]
    codes = ["de", "fr", "ja", "de"]
    documents = [Document(text, text, {FIELD: code}) for text, code in zip(texts, codes, strict=True) for _ in "ab"]
    spoken = with_others(GERMAN, [*documents, Document("own", "", {FIELD: ["fr"]}), Document("odd", "", {FIELD: "xx"})])
    assert (spoken.code, spoken.others) == ("de", ("fr", "ja"))
    assert [spoken.words(text) for text in texts] == [
        ["koffer"], ["valise", "cliente"], ["鞄", "鍵"], ["the", "lock", "of", "the", "bag"]
    ]  # fmt: skip
    denied = [spoken.denies(text) for text in ("kein netz", "pas de bruit", "壊れない", "no lock")]
    assert denied == [True, True, True, False]
    for code in ("en", "fr"):
        mixed = replace(language(code), others=tuple({"en", "fr"} - {code}))
        assert mixed.words("The lock doesn't hold, l'huile de la serrure") == ["lock", "hold", "huile", "serrure"]
    assert with_others(GERMAN, documents[:2]) == GERMAN


def test_groups_of_an_index_in_several_languages_are_named_by_words_with_a_topic(index):
    leaks = ["La bouilloire et la fuite de la semaine.", "La fuite de la bouilloire et de la lampe."]
    rows = [*[(text, "fr") for text in leaks], ("Der Koffer ist leider zu klein.", "de"), ("Der Koffer ist zu.", "de")]
    index.add([Document(str(row), text, {FIELD: code}) for row, (text, code) in enumerate(rows)])
    (cluster,) = index.cluster(k=1).clusters
    assert not {"la", "de", "et", "der", "ist"} & {*cluster.text_keywords}
    assert {"fuite", "koffer"} <= {*cluster.text_keywords}


def test_a_name_of_single_characters_holds_for_the_texts_with_them():
    texts = ["音が大きい。", "音が変だ。", "水が漏れる。", "水の味が悪い。"]
    written = bags(texts, JAPANESE)
    named = keywords(written, LABELS, 2, JAPANESE)
    names, held = names_that_hold(([[], []], [[]] * 4), (named, written), LABELS, JAPANESE)
    assert (names, held) == (["音", "水"], [1.0, 1.0])


def test_a_typical_sentence_ends_where_the_script_ends_it():
    texts = ["とても安く買えました。バッテリーがすぐに切れた。色はきれいです。"]
    assert typical_sentence(texts, ["バッテリー"], JAPANESE) == "バッテリーがすぐに切れた。"


@pytest.mark.parametrize(
    ("spoken", "text", "word", "quote"),
    [
        (GERMAN, "Alles kam an. Die Akkus waren nach einem Tag leer.", "akku", ""),
        (GERMAN, "Alles kam gut an. Die Batterien waren bald leer.", "batterie", "Die Batterien waren bald leer."),
        (JAPANESE, "届くのは早かった。バッテリーがすぐに切れた。", "バッテリー", "バッテリーがすぐに切れた。"),
    ],
)
def test_a_quote_is_a_sentence_with_a_form_of_the_word(spoken, text, word, quote):
    found = quotes([Source("a", text)], {word: 1.0}, {}, language=spoken)
    assert [each.text for each in found] == ([quote] if quote else [])


def test_an_answer_that_is_denied_is_another_in_every_language():
    assert title(["pas de bruit", "bruit", "pas de bruit"], np.ones(3, np.float32), FRENCH).text == "pas de bruit"
    answers, near = ["kein Netz", "Netz", "Netzes", "Netz"], np.ones(4, np.float32)
    assert (title(answers, near, GERMAN).text, title(answers, near, GERMAN).holds) == ("Netz", 0.75)
    assert title(answers, near).holds == 1.0  # in English "kein" denies nothing


def test_the_marked_sentence_goes_by_forms_and_by_characters():
    text = "Der Versand war schnell. Die Batterien hielten nicht."
    span = cards.answering(text, "Batterie", [], GERMAN)
    assert text[span.start : span.end] == "Die Batterien hielten nicht."
    assert cards.answering(text, "die", [], GERMAN) is None
    japanese = "届くのは早かった。電池がすぐ切れた。色はいい。"
    span = cards.answering(japanese, "電池切れ", [], JAPANESE)
    assert japanese[span.start : span.end] == "電池がすぐ切れた。"
    long = "Schön. Gut. Die Batterie ist leer. Nett. Fein."
    assert "Die Batterie ist leer." in excerpt(long, "Was fehlt?", {"Batterien": ""}, GERMAN)
