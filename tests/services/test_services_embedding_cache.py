import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from services_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.errors import RetrieverError
from retriever.core.protocols import Encoder
from retriever.services import embedding_cache, embedding_store
from retriever.services.embedding_cache import CachedEncoder
from retriever.services.embedding_store import EmbeddingCache

TEXTS = ["kettle love leaks", "toy hate", "lamp happy slow", "kettle sad"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cache" / "embeddings.sqlite3"


@pytest.fixture
def cached(file):
    """Wrap an encoder in a cache of its own connection to the one file."""
    opened = []

    def wrap(encoder, **options):
        opened.append(EmbeddingCache(file, **options))
        return CachedEncoder(encoder, opened[-1])

    yield wrap
    for cache in opened:
        cache.close()


def embedded(encoder):
    """Every (text, instruction) that reached the encoder, in order."""
    return [(text, asked) for call in encoder.calls for asked in call.instructions for text in call.texts]


def test_it_is_an_encoder_that_passes_on_what_it_does_not_know(cached):
    inner = RichEncoder()
    encoder = cached(inner)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.fingerprint) == (inner.dim, inner.fingerprint)
    assert (encoder.pooling, encoder.count_tokens(["a b"])) == ("counts", [2])
    with pytest.raises(AttributeError):
        _ = encoder.no_such_thing


def test_rows_are_the_encoders_own_to_the_last_bit_and_embedded_once(cached):
    class Odd(FakeEncoder):
        def vectors(self, texts, instruction=""):
            rows = super().vectors(texts, instruction) + np.float32(1 / 3)
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    first, second = Odd(), Odd()
    wanted = first.vectors([*TEXTS, TEXTS[0]], MOOD)
    np.testing.assert_array_equal(cached(first).encode([*TEXTS, TEXTS[0]], instruction=MOOD), wanted)
    np.testing.assert_array_equal(cached(second).encode([*TEXTS, TEXTS[0]], instruction=MOOD), wanted)
    assert sorted(embedded(first)) == sorted((text, MOOD) for text in TEXTS)
    assert second.calls == []


def test_no_texts_are_no_rows(cached):
    inner = FakeEncoder()
    assert cached(inner).encode([]).shape == (0, inner.dim)
    assert inner.calls == []


def test_only_what_is_missing_is_embedded_and_in_one_pass(cached):
    inner = FakeEncoder()
    encoder = cached(inner)
    encoder.encode(TEXTS[:2], instruction=MOOD)
    inner.forget()
    mood, fault = encoder.encode_many(TEXTS, [MOOD, FAULT])
    np.testing.assert_array_equal(mood, inner.vectors(TEXTS, MOOD))
    np.testing.assert_array_equal(fault, inner.vectors(TEXTS, FAULT))
    calls = {(tuple(sorted(call.texts)), call.instructions) for call in inner.calls}
    assert calls == {(tuple(sorted(TEXTS[:2])), (FAULT,)), (tuple(sorted(TEXTS[2:])), (MOOD, FAULT))}


def test_the_key_is_the_view_and_the_text(cached):
    seen = []
    for encoder, asked in [
        (RichEncoder("a"), MOOD),
        (RichEncoder("b"), MOOD),
        (RichEncoder("a"), FAULT),
        (RichEncoder("a", steps=2), MOOD),
    ]:
        cached(encoder).encode(TEXTS, instruction=asked)
        seen.append(len(embedded(encoder)))
    half = RichEncoder("a")
    half.dtype = "bfloat16"
    cached(half).encode(TEXTS, instruction=MOOD)
    assert [*seen, len(embedded(half))] == [4] * 5
    again = RichEncoder("a", steps=2)
    cached(again).encode(TEXTS, instruction=f" {MOOD}\n")
    assert again.calls == []


def test_the_default_instruction_and_none_are_one(cached):
    inner = RichEncoder()
    encoder = cached(inner)
    encoder.encode(TEXTS, instruction=PRODUCT)
    inner.forget()
    base, named = encoder.encode_many(TEXTS, ["", PRODUCT])
    np.testing.assert_array_equal(base, named)
    assert inner.calls == []


def test_an_interrupted_run_keeps_its_whole_chunks(cached, monkeypatch):
    monkeypatch.setattr(embedding_cache, "CHUNK", 1)

    class Stopped(FakeEncoder):
        def encode_many(self, texts, instructions, **options):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().encode_many(texts, instructions, **options)

    stopped, rest = Stopped(), FakeEncoder()
    with pytest.raises(KeyboardInterrupt):
        cached(stopped).encode(TEXTS, instruction=MOOD)
    np.testing.assert_array_equal(cached(rest).encode(TEXTS, instruction=MOOD), rest.vectors(TEXTS, MOOD))
    assert (len(embedded(stopped)), len(embedded(rest))) == (2, 2)
    assert set(embedded(stopped)) | set(embedded(rest)) == {(text, MOOD) for text in TEXTS}


def test_progress_says_what_is_done_and_left(file, monkeypatch):
    monkeypatch.setattr(embedding_cache, "CHUNK", 3)
    told = []
    with EmbeddingCache(file) as cache:
        CachedEncoder(FakeEncoder(), cache, on_progress=told.append).encode_many(TEXTS, [MOOD, FAULT])
        assert [(one.done, one.total) for one in told] == [(6, 8), (8, 8)]
        assert (told[0].left > 0, told[1].left) == (True, 0)
        told.clear()
        CachedEncoder(FakeEncoder(), cache, on_progress=told.append).encode_many(TEXTS, [MOOD, FAULT])
    assert told == []


def test_words_are_not_kept(cached):
    read = []
    [encoded] = cached(RichEncoder()).encode_many_with_words(TEXTS, [MOOD], on_tokens=read.append)
    assert encoded.words == [[], [], [], []]
    assert read == [3 + 2 + 3 + 2]
    assert cached(RichEncoder()).encode_with_words(TEXTS, instruction=MOOD).words == encoded.words


def _not_sqlite(file):
    file.write_bytes(b"no database at all " * 500)


def _other_format(file):
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def _changed_vector(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE rowid = 1")
    database.close()


def _cut_vector(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE vectors SET vector = substr(vector, 5) WHERE rowid = 1")
    database.close()


@pytest.mark.parametrize("damage", [_not_sqlite, _other_format, _changed_vector, _cut_vector])
def test_a_damaged_file_is_set_aside_said_and_never_trusted(file, damage):
    with EmbeddingCache(file) as cache:
        CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)
    damage(file)
    inner = FakeEncoder()
    with EmbeddingCache(file) as cache:
        rows = CachedEncoder(inner, cache).encode(TEXTS, instruction=MOOD)
        [note] = cache.notes
    np.testing.assert_array_equal(rows, inner.vectors(TEXTS, MOOD))
    assert len(embedded(inner)) == 4
    aside = file.with_name("embeddings.sqlite3.damaged")
    assert aside.is_file()
    assert str(aside) in note
    again = FakeEncoder()
    with EmbeddingCache(file) as cache:
        CachedEncoder(again, cache).encode(TEXTS, instruction=MOOD)
        assert (again.calls, cache.notes) == ([], [])


def test_the_least_recently_used_encoder_makes_room(file, monkeypatch):
    times = iter(f"2026-01-01T00:00:{second:02}" for second in range(60))
    monkeypatch.setattr(embedding_store, "utc_now", lambda: next(times))
    room = 2 * len(TEXTS) * 4 * FakeEncoder.dim  # two views

    def misses(name, asked=MOOD):
        inner = FakeEncoder(name)
        with EmbeddingCache(file, max_bytes=room) as cache:
            CachedEncoder(inner, cache).encode(TEXTS, instruction=asked)
        return len(embedded(inner))

    assert [misses("old"), misses("new"), misses("old")] == [4, 4, 0]
    assert misses("third") == 4  # drops "new", whose last use is longest ago
    assert [misses("old"), misses("third"), misses("new")] == [0, 0, 4]
    with sqlite3.connect(file) as database:
        assert database.execute("SELECT SUM(LENGTH(vector)) FROM vectors").fetchone()[0] <= room
    database.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "folder").mkdir()
    with EmbeddingCache(tmp_path / "folder") as cache, pytest.raises(RetrieverError, match="folder cannot be opened"):
        CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)


def test_an_encoder_without_settings_is_fine(cached):
    plain = SimpleNamespace(dim=2, fingerprint="f", encode_many=lambda texts, asked, **_: [np.eye(2, dtype="f4")])
    np.testing.assert_array_equal(cached(plain).encode(["a", "b"]), np.eye(2))
