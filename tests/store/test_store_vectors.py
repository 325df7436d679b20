import numpy as np
import pytest

from retriever.core.errors import EncoderError, IndexDamagedError, RetrieverError
from retriever.core.similarity import normalise
from retriever.core.types import Document
from retriever.store.generations import StoredIndex
from retriever.store.views import ViewKey

BASE = ViewKey("f", "", "mean", None, None, "fp32", 2)


@pytest.fixture
def ids(store):
    return store.documents.upsert([Document(f"d{n}", f"text {n}") for n in range(5)]).content_ids


def rows(n, dim=2):
    return normalise(np.random.default_rng(0).standard_normal((n, dim)))


def test_vectors_come_back_normalised_as_fp16_allows(store, ids):
    view_id = store.views.ensure(ViewKey("f", "", "mean", None, None, "fp32", 576)).view_id
    vectors = rows(5, 576)
    store.vectors.put(view_id, ids, vectors, [["a", "é"], [], ["c"], ["d"], ["e"]])
    found = store.vectors.get(view_id, [ids[3], 99, ids[0], ids[3]])
    assert found.content_ids.tolist() == [ids[3], ids[0]]
    assert found.words == [["d"], ["a", "é"]]
    assert found.embeddings.dtype == np.float32
    np.testing.assert_array_equal(found.embeddings, normalise(vectors[[3, 0]].astype(np.float16)))
    np.testing.assert_allclose(found.embeddings, vectors[[3, 0]], atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(found.embeddings, axis=1), 1, atol=1e-6)


def test_a_stored_vector_is_never_overwritten(store, view_id, ids):
    first, second = np.float32([[1, 0]]), np.float32([[0, 1]])
    store.vectors.put(view_id, ids[:1], first)
    store.vectors.put(view_id, ids[:2], np.repeat(second, 2, axis=0), [["x"], ["y"]])
    found = store.vectors.get(view_id, ids[:2])
    np.testing.assert_array_equal(found.embeddings, [[1, 0], [0, 1]])
    assert found.words == [[], ["y"]]


@pytest.mark.parametrize("bad", [[np.nan, 1], [np.inf, 0], [0, 0], [1e9, 0], [1e-9, 0]])
def test_unusable_vectors_are_refused_with_their_text(store, view_id, ids, bad):
    vectors = rows(5)
    vectors[2] = bad
    message = r"NaN, infinity or only zeros for 1 of 5 texts; the first is content 3, which begins 'text 2'"
    with pytest.raises(EncoderError, match=message):
        store.vectors.put(view_id, ids, vectors)
    assert store.vectors.count(view_id) == 0


@pytest.mark.parametrize(("shape", "words"), [((5, 3), None), ((4, 2), None), ((5, 2), [["a"]])])
def test_a_wrong_shape_is_refused(store, view_id, ids, shape, words):
    with pytest.raises(EncoderError, match="holds vectors of 2 numbers, but 5 contents"):
        store.vectors.put(view_id, ids, np.ones(shape, dtype=np.float32), words)


def test_vectors_need_a_text(store, view_id):
    with pytest.raises(RetrieverError, match="FOREIGN KEY"):
        store.vectors.put(view_id, [99], rows(1))


def test_missing_keeps_the_order_and_pending_leaves_out_the_dead(store, view_id, ids):
    store.vectors.put(view_id, ids[1:3], rows(2))
    assert store.vectors.missing(view_id, [ids[4], ids[2], ids[0], ids[4], 99]) == [ids[4], ids[0], 99]
    store.documents.delete(["d4"])
    assert store.vectors.pending(view_id).tolist() == [ids[0], ids[3]]


def test_scan_pages_in_the_order_of_storing(store, view_id, ids):
    other = store.views.ensure(BASE).view_id
    vectors = rows(5)
    for n in (3, 1, 4, 0, 2):
        store.vectors.put(view_id, [ids[n]], vectors[[n]])
        store.vectors.put(other, [ids[n]], vectors[[0]])
    batches = list(store.vectors.scan(view_id, batch=2))
    assert [batch.content_ids.tolist() for batch in batches] == [[ids[3], ids[1]], [ids[4], ids[0]], [ids[2]]]
    np.testing.assert_allclose(np.concatenate([b.embeddings for b in batches]), vectors[[3, 1, 4, 0, 2]], atol=1e-3)
    (rest,) = store.vectors.scan(view_id, after=batches[0].last)
    assert rest.content_ids.tolist() == [ids[4], ids[0], ids[2]]
    assert rest.last == store.vectors.last_id(view_id)


def test_a_new_vector_is_above_every_watermark_even_after_garbage(store, view_id, ids):
    store.vectors.put(view_id, ids, rows(5))
    watermark = store.vectors.last_id(view_id)
    store.documents.delete(["d4"])
    assert store.vectors.count_live(view_id) == 4
    store.documents.collect_garbage()
    (new,) = store.documents.upsert([Document("new", "new")]).content_ids
    store.vectors.put(view_id, [new], rows(1))
    assert [batch.content_ids.tolist() for batch in store.vectors.scan(view_id, after=watermark)] == [[new]]


def test_a_vector_of_the_wrong_length_is_damage(store, view_id, ids):
    store.vectors.put(view_id, ids[:1], rows(1))
    store._db.write("UPDATE vectors SET vector = x'00'")
    with pytest.raises(IndexDamagedError, match=f"in view {view_id} is not what was stored"):
        store.vectors.get(view_id, ids)


def test_every_part_of_the_key_makes_another_view(store):
    keys = [
        BASE,
        ViewKey("g", "", "mean", None, None, "fp32", 2),
        ViewKey("f", "by mood", "mean", None, None, "fp32", 2),
        ViewKey("f", "", "last", None, None, "fp32", 2),
        ViewKey("f", "", "mean", 2, None, "fp32", 2),
        ViewKey("f", "", "mean", None, 2, "fp32", 2),
        ViewKey("f", "", "mean", None, None, "bf16", 2),
        ViewKey("f", "", "mean", None, None, "fp32", 3),
    ]
    views = [store.views.ensure(key) for key in keys]
    assert store.views.all() == views
    assert [view.key for view in views] == keys
    assert [store.views.ensure(key) for key in keys] == views
    assert store.views.find(ViewKey("f", " by mood\n", "mean", None, None, "fp32", 2)) == views[2]
    assert store.views.find(ViewKey("h", "", "mean", None, None, "fp32", 2)) is None


def test_the_database_itself_refuses_a_key_twice(store):
    store.views.ensure(BASE)
    with pytest.raises(RetrieverError, match="UNIQUE"):
        store._db.write(
            "INSERT INTO views SELECT 99, fingerprint, instruction, pooling, steps, look_ahead, dtype, dim, '', '', 0, "
            "0 FROM views"
        )


def test_a_dropped_view_leaves_its_files_to_be_removed(store, view_id, ids):
    store.vectors.put(view_id, ids, rows(5))
    generation = store.generations.activate(view_id, StoredIndex("faiss", {"path": "a.faiss"}, 5, 5))
    store.views.drop(view_id)
    assert store.views.all() == []
    assert store._db.number("SELECT COUNT(*) FROM vectors") == 0
    assert [each.handle for each in store.generations.obsolete()] == [{"path": "a.faiss"}]
    assert store.generations.active(view_id) is None
    assert store.views.ensure(BASE).view_id > generation.view_id


def test_one_generation_of_a_view_is_active(store, view_id):
    other = store.views.ensure(BASE).view_id
    assert store.generations.active(view_id) is None
    first = store.generations.activate(view_id, StoredIndex("faiss", {"path": "a"}, 5, 7))
    unrelated = store.generations.activate(other, StoredIndex("faiss", {"path": "b"}, 5, 7))
    details = {"nprobe": 8, "measured": [0.5, 0.97]}
    second = store.generations.activate(view_id, StoredIndex("exact", {"path": "c", "dim": 4}, 6, 9, 0.97, details))
    assert store.generations.active(view_id) == second
    assert store.generations.active(other) == unrelated
    assert (second.backend, second.handle, second.size, second.watermark) == ("exact", {"path": "c", "dim": 4}, 6, 9)
    assert (second.recall, second.details, second.active) == (0.97, details, True)
    assert [each.generation_id for each in store.generations.obsolete()] == [first.generation_id]
    store.generations.forget(first.generation_id)
    store.generations.forget(second.generation_id)
    assert store.generations.obsolete() == []
    assert store.generations.active(view_id) == second
