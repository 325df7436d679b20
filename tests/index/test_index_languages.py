import gzip
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from index_fakes import FakeEncoder

from retriever.core.errors import UsageError
from retriever.core.languages import ENGLISH, language
from retriever.core.types import Document
from retriever.core.verdicts import Verdict, verdict_of
from retriever.encoders.catalog import CATALOG
from retriever.index.indexing import IndexingOptions
from retriever.index.languages import FIELD, hear, language_of
from retriever.index.reembedding import reembed
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.export import export_parquet, import_parquet
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.index.verdicts.stored import Judgement, of_language
from retriever.store.database import DATABASE
from retriever.workspace import Index

TEXTS = Path(__file__).parents[2] / "benchmarks" / "data" / "multilingual_texts.jsonl.gz"
with gzip.open(TEXTS, "rt", encoding="utf-8") as lines:
    ROWS = [json.loads(line) for line in lines]
AUTO = IndexingOptions(language="auto")


def reviews(code, count=60):
    return [Document(f"{code}-{row['id']}", row[code]) for row in ROWS[:count]]


def by_words(index, query):
    return [hit.document.id for hit in index.search(query, mode="lexical", k=3).hits]


@pytest.mark.parametrize(
    ("code", "query", "first"),
    [
        ("de", "stinkende Duschvorhänge", "de-r-002"),
        ("fr", "les semelles décollées", "fr-r-189"),
        ("es", "auriculares: dejan de cargar", "es-r-058"),
        ("pt", "zíperes emperrados", "pt-r-175"),
        ("ja", "静かな木のおもちゃ、電池なし", "ja-r-116"),
    ],
)
def test_auto_hears_the_language_and_searches_its_words(index, code, query, first):
    report = index.add(reviews(code), options=AUTO)
    assert index.status().language == code
    assert report.notes[0].startswith("Words are searched as ")
    assert "60 texts looked at" in report.notes[0]
    assert by_words(index, query)[0] == first
    assert index.add(reviews(code), options=AUTO).notes == []


def test_english_is_heard_without_a_note_and_stored_as_ever(index):
    report = index.add(reviews("en"), options=AUTO)
    assert (report.notes, index.status().language) == ([], "en")
    assert index._opened.store._db.number("SELECT COUNT(words) FROM contents") == 0


def test_an_index_that_was_told_no_language_says_how_it_gets_one(index):
    (note,) = index.add(reviews("de")).notes
    assert note == "Texts looked at: German 100%. Add --language auto to search their words accordingly."
    assert index.status().language == "en"
    index.add(reviews("de"), options=IndexingOptions(language="de"))
    assert by_words(index, "Stiefeln")[0] in {"de-r-189", "de-r-193", "de-r-201"}


def test_a_few_texts_and_those_of_few_words_are_taken_for_english(index):
    assert index.add(reviews("de", 10)).notes == []
    assert language_of("Sehr gut!") == ""
    assert hear(["Sehr gut!", ""]).count == 0


def test_a_language_is_remembered_and_can_be_changed(index):
    index.add(reviews("de", 30), options=IndexingOptions(language="de"))
    index.add(reviews("de"))
    assert by_words(index, "Igelfamilien") == ["de-r-175"]
    report = index.add([], options=IndexingOptions(language="en"))
    assert report.notes[:1] == ["The words of the stored texts are searched as English from now on."]
    assert by_words(index, "Igelfamilien") == []
    with pytest.raises(UsageError, match="Unknown language 'deu'"):
        index.add([], options=IndexingOptions(language="deu"))


@pytest.mark.parametrize(("language", "notes"), [("de", 1), ("en", 0)])
def test_english_vectors_for_an_index_in_another_language_are_told_when_they_are_made(index, language, notes):
    index.add(reviews("de", 4), options=IndexingOptions(language=language))
    english = FakeEncoder("minilm")
    english.spec = replace(english.spec, name=CATALOG["minilm"].spec)
    done = reembed(index.path, plain=english)
    assert ["base encoder of this index reads English" in note for note in done.notes] == [True] * notes


def test_documents_in_several_languages_get_a_field_to_filter_by(index):
    both = [*reviews("fr", 30), *reviews("de", 20), Document("own", ROWS[40]["de"], {FIELD: "Swiss"})]
    mixed = both[:50]
    report = index.add(mixed, options=AUTO)
    assert "each document has the field language" in report.notes[1]
    assert index.get(["fr-r-002", "de-r-002"])["de-r-002"].metadata == {FIELD: "de"}
    hits = index.search("plastique Plastik", mode="lexical", where="language = 'de'").hits
    assert {hit.document.id[:2] for hit in hits} == {"de"}
    again = index.add([*mixed, both[50]])
    assert (again.added, again.updated, again.unchanged) == (1, 0, 50)
    assert index.get(["own"])["own"].metadata == {FIELD: "Swiss"}


def test_of_several_languages_the_commonest_is_taken_even_where_it_is_below_half(index):
    mixed = [*reviews("ja", 12), *reviews("de", 10), *reviews("fr", 10), *reviews("en", 10)]
    notes = index.add(mixed, options=AUTO).notes
    assert index.status().language == "ja"
    assert notes[0].startswith("Words are searched as Japanese (42 texts looked at: Japanese 29%")
    assert "language = 'ja'" in notes[1]
    assert by_words(index, "玉ねぎ")[0] == "ja-r-027"
    assert by_words(index, "Duschvorhang") == ["de-r-002"]


def test_an_index_that_was_told_no_language_hears_several_too(index):
    (note,) = index.add([*reviews("ja", 12), *reviews("de", 10), *reviews("fr", 10)]).notes
    assert note.startswith("Texts looked at: Japanese 38%")


def test_documents_that_say_their_language_keep_what_they_say(index):
    own = [Document(document.id, document.text, {FIELD: "?"}) for document in [*reviews("fr", 20), *reviews("de", 20)]]
    index.add(own, options=AUTO)
    assert {document.metadata[FIELD] for document in index.get([own[0].id, own[-1].id]).values()} == {"?"}


def test_sentences_are_told_apart_by_the_abbreviations_of_the_language(index):
    text = "Der Preis mit MwSt. und Versand war hoch. Das Kabel fehlt leider ganz."
    index.add([Document("a", text)], options=IndexingOptions(language="de", units="sentences"))
    assert index.get(["a#1"])["a#1"].text == "Der Preis mit MwSt. und Versand war hoch."


def test_a_verdict_of_a_model_that_ships_doubts_itself_on_texts_in_another_language():
    verdict = Verdict("What broke?", "followed", 0.9, 40, [("lid", 12)], measured=True)
    assert of_language(Judgement(verdict, {}), ENGLISH).verdict is verdict
    doubted = of_language(Judgement(verdict, {}), language("de")).verdict
    assert doubted.level == "unclear"
    assert doubted.sentence.startswith("This model reads English, and the texts are German: it may not follow")
    assert doubted.sentence.endswith("Let a language model read the texts, or teach the question with examples.")
    assert verdict_of(doubted.to_json()) == doubted


@pytest.mark.parametrize(("out", "take_in"), [(export_index, import_index), (export_parquet, import_parquet)])
def test_an_exported_index_keeps_its_language_and_tells_later_documents_apart(index, tmp_path, out, take_in):
    index.add([*reviews("de"), *reviews("fr", 20)], options=AUTO)
    index.close()
    out(index.path, tmp_path / "out")
    take_in(tmp_path / "out", tmp_path / "other")
    with Index(tmp_path / "other", encoder=FakeEncoder()) as other:
        assert other.status().language == "de"
        assert by_words(other, "Igelfamilien") == ["de-r-175"]
        other.add(reviews("fr", 21)[20:])
        assert list(other.documents(where="language = 'fr'"))[-1].text == reviews("fr", 21)[20].text


def test_a_damaged_language_is_taken_out_and_words_are_english_again(index):
    index.add(reviews("de", 20), options=IndexingOptions(language="de"))
    index.close()
    with closing(sqlite3.connect(index.path / DATABASE)) as database, database:
        database.execute("UPDATE settings SET value = '\"?\"' WHERE key = 'language'")
    assert not verify(index.path).whole
    assert "setting language: set it again" in repair(index.path, load=lambda _: FakeEncoder()).lost
    assert verify(index.path, deep=True, load=lambda _: FakeEncoder()).whole
    with Index(index.path, encoder=FakeEncoder()) as again:
        assert again.status().language == "en"
        assert by_words(again, "Duschvorhang") == ["de-r-002"]
