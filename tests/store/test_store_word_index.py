import sqlite3
from contextlib import closing

import pytest

from retriever.core.languages import ENGLISH, language
from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.schema import require_own_schema

GERMAN = ["Die Akkus sind schnell leer", "Der Koffer hat ein gutes Schloss", "Das WLAN-Kabel riecht schön"]
JAPANESE = ["バッテリーがすぐ切れた", "音が大きい扇風機", "水の味が悪い"]


def put(store, texts):
    store.documents.upsert([Document(f"d{number}", text) for number, text in enumerate(texts)])


def found(store, query):
    """Return the ids of the documents that a query finds by its words, the best first."""
    hits = [hit.content_id for hit in store.documents.lexical(query, 10)]
    return [document.id for content in store.documents.expand(hits).values() for document in content]


@pytest.mark.parametrize(
    ("code", "texts", "query", "ids"),
    [
        ("de", GERMAN, "schnelle Koffers", ["d0", "d1"]),
        ("de", GERMAN, "Ist der die Schlösser", ["d1"]),
        ("de", GERMAN, "schoener", ["d2"]),
        ("de", GERMAN, "Regenschirm", []),
        ("de", GERMAN, "WLAN-Kabeln", ["d2"]),
        ("de", GERMAN, "wlan kein Kabel", ["d2"]),
        ("fr", ["Les appareils bruyants", "Le prix"], "l'appareil est-il bruyant ?", ["d0"]),
        ("ja", JAPANESE, "バッテリー", ["d0"]),
        ("ja", JAPANESE, "味", ["d2"]),
        ("ja", JAPANESE, "機", ["d1"]),
        ("zh", ["电池没电了", "声音太大"], "电池的问题", ["d0"]),
        ("ko", ["배터리가 빨리 닳아요", "소리가 커요"], "배터리는", ["d0"]),
        ("th", ["แบตเตอรี่หมดเร็ว", "เสียงดังมาก"], "แบตเตอรี่", ["d0"]),
    ],
)
def test_texts_are_found_by_the_words_of_their_language(store, code, texts, query, ids):
    store.words.speak(language(code))
    put(store, texts)
    assert sorted(found(store, query)) == ids
    assert not store.inspection.words_differ()


def test_english_is_stored_and_found_as_ever(store):
    put(store, ["The batteries run", "A kettle"])
    assert store.words.language is ENGLISH
    assert store._db.rows("SELECT words FROM contents") == [(None,), (None,)]
    assert found(store, "battery is running") == ["d0"]


def test_another_language_indexes_stored_texts_anew_and_back(store):
    put(store, GERMAN)
    assert found(store, "Koffern") == []
    store.words.speak(language("de"))
    assert found(store, "Koffern") == ["d1"]
    revision = store.documents_revision()
    store.words.speak(language("de"))
    assert store.documents_revision() == revision
    store.words.speak(ENGLISH)
    assert found(store, "Koffern") == []
    assert found(store, "Koffer") == ["d1"]
    assert store._db.number("SELECT COUNT(*) FROM contents WHERE words IS NOT NULL") == 0


def test_a_word_index_in_another_language_is_rebuilt_from_the_texts(store):
    store.words.speak(language("de"))
    put(store, GERMAN)
    store._db.write("UPDATE contents SET words = 'etwas anderes'")
    assert store.inspection.words_differ()
    store.words.rebuild()
    assert not store.inspection.words_differ()
    assert found(store, "Koffern") == ["d1"]


def test_removed_texts_leave_the_word_index(store):
    store.words.speak(language("ja"))
    put(store, JAPANESE)
    store.documents.delete(["d0"])
    store.documents.collect_garbage()
    assert found(store, "バッテリー") == []
    assert not store.inspection.words_differ()


def test_the_schema_of_either_word_index_is_ours_and_no_other(path):
    for code in ("en", "de"):
        with Store.open(path, create=True) as store:
            store.words.speak(language(code))
        require_own_schema(path)
    with closing(sqlite3.connect(path)) as database:
        (made,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'contents_fts'").fetchone()
    assert "categories" in made
