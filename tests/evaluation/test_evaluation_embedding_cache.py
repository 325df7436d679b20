import os
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.errors import RetrieverError
from retriever.core.protocols import Encoder
from retriever.evaluation.run import embedding_cache
from retriever.evaluation.run.embedding_cache import CachedEncoder, EmbeddingCache

TEXTS = ["kettle love leaks", "toy hate", "lamp happy slow", "kettle sad"]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def cached(folder):
    """Wrap an encoder in a cache of its own connections to the one folder."""
    opened = []

    def wrap(encoder, **options):
        opened.append(EmbeddingCache(folder, **options))
        return CachedEncoder(encoder, opened[-1])

    yield wrap
    for cache in opened:
        cache.close()


def embedded(encoder):
    """Every (text, instruction) that reached the encoder, in order."""
    return [(text, asked) for call in encoder.calls for asked in call.instructions for text in call.texts]


def test_it_is_the_encoder_it_wraps(cached):
    inner = RichEncoder()
    encoder = cached(inner)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.fingerprint) == (inner.dim, inner.fingerprint)
    assert (encoder.spec, encoder.count_tokens(["a b"])) == (inner.spec, [2])


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
    half.spec = replace(half.spec, dtype="bfloat16")
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
    monkeypatch.setattr(embedding_cache, "CHUNK_TEXTS", 1)

    class Stopped(FakeEncoder):
        def encode_views(self, texts, instructions, **options):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().encode_views(texts, instructions, **options)

    stopped, rest = Stopped(), FakeEncoder()
    with pytest.raises(KeyboardInterrupt):
        cached(stopped).encode(TEXTS, instruction=MOOD)
    np.testing.assert_array_equal(cached(rest).encode(TEXTS, instruction=MOOD), rest.vectors(TEXTS, MOOD))
    assert (len(embedded(stopped)), len(embedded(rest))) == (2, 2)
    assert set(embedded(stopped)) | set(embedded(rest)) == {(text, MOOD) for text in TEXTS}


def test_progress_says_what_is_done_and_left(folder, monkeypatch):
    monkeypatch.setattr(embedding_cache, "CHUNK_TEXTS", 3)
    told = []
    with EmbeddingCache(folder) as cache:
        CachedEncoder(FakeEncoder(), cache, on_progress=told.append).encode_many(TEXTS, [MOOD, FAULT])
        assert [(one.done, one.total) for one in told] == [(6, 8), (8, 8)]
        assert (told[0].left > 0, told[1].left) == (True, 0)
        told.clear()
        CachedEncoder(FakeEncoder(), cache, on_progress=told.append).encode_many(TEXTS, [MOOD, FAULT])
    assert told == []


def test_words_are_not_kept(cached):
    read = []
    [encoded] = cached(RichEncoder()).encode_views(TEXTS, [MOOD], words=5, on_tokens=read.append)
    assert encoded.words == [[], [], [], []]
    assert read == [3 + 2 + 3 + 2]
    assert cached(RichEncoder()).encode_with_words(TEXTS, instruction=MOOD).words == encoded.words


def _not_sqlite(file):
    file.write_bytes(b"no database at all " * 500)


def _changed_vector(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE rowid = 1")
    database.close()


def _cut_vector(file):
    with sqlite3.connect(file) as database:
        database.execute("UPDATE vectors SET vector = substr(vector, 5) WHERE rowid = 1")
    database.close()


@pytest.mark.parametrize("damage", [_not_sqlite, _changed_vector, _cut_vector])
def test_a_damaged_file_is_set_aside_said_and_never_trusted(folder, damage):
    with EmbeddingCache(folder) as cache:
        CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)
    [file] = folder.iterdir()
    damage(file)
    inner = FakeEncoder()
    with EmbeddingCache(folder) as cache:
        rows = CachedEncoder(inner, cache).encode(TEXTS, instruction=MOOD)
        [note] = cache.notes
    np.testing.assert_array_equal(rows, inner.vectors(TEXTS, MOOD))
    assert len(embedded(inner)) == 4
    aside = file.with_name(f"{file.name}.damaged")
    assert aside.is_file()
    assert str(aside) in note
    again = FakeEncoder()
    with EmbeddingCache(folder) as cache:
        CachedEncoder(again, cache).encode(TEXTS, instruction=MOOD)
        assert (again.calls, cache.notes) == ([], [])


def test_the_least_recently_used_encoder_makes_room(folder):
    def misses(name, room=10**9):
        inner = FakeEncoder(name)
        with EmbeddingCache(folder, max_bytes=room) as cache:
            CachedEncoder(inner, cache).encode(TEXTS, instruction=MOOD)
        return len(embedded(inner))

    assert misses("old") == 4
    [old] = folder.iterdir()
    assert misses("new") == 4
    [new] = set(folder.iterdir()) - {old}
    os.utime(old, (3, 3))
    os.utime(new, (2, 2))
    room = 2 * max(path.stat().st_size for path in folder.iterdir()) - 1
    (folder / "embeddings.sqlite3").write_bytes(bytes(room))
    os.utime(folder / "embeddings.sqlite3", (1, 1))  # what an earlier version left
    assert misses("third", room=room) == 4  # drops that, then "new", whose last use is longest ago
    assert [misses("old"), misses("third"), misses("new")] == [0, 0, 4]


def test_an_encoder_that_alone_exceeds_the_bound_is_kept_as_far_as_there_is_room(folder, monkeypatch):
    monkeypatch.setattr(embedding_cache, "CHUNK_TEXTS", 1)
    with EmbeddingCache(folder, max_bytes=1) as cache:
        rows = CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)
    np.testing.assert_array_equal(rows, FakeEncoder().vectors(TEXTS, MOOD))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with EmbeddingCache(tmp_path) as cache:
        CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)
    [file] = tmp_path.iterdir()
    file.unlink()
    file.mkdir()
    with EmbeddingCache(tmp_path) as cache, pytest.raises(RetrieverError, match=f"{file.name} cannot be opened"):
        CachedEncoder(FakeEncoder(), cache).encode(TEXTS, instruction=MOOD)


def test_texts_over_the_limit_are_counted_once_and_only_where_they_are_read(cached):
    long = ["kettle love hate toy lamp slow leaks", "one two three four five six", "seven words are more than six are"]
    encoder = cached(RichEncoder())
    assert encoder.notes == []
    encoder.encode_many([*long, long[0]], [MOOD, FAULT])
    encoder.encode(long, instruction=PRODUCT)
    assert encoder.notes == ["2 texts were cut to the encoder's limit."]
    again = cached(RichEncoder())
    again.encode(long, instruction=MOOD)
    assert again.notes == []
