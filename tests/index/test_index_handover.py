import json
import shutil

import numpy as np
import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder, found
from qdrant_client import QdrantClient, models
from qdrant_server import qdrant_server

from retriever.core.errors import InputError, OutputError, RetrieverError, UsageError
from retriever.core.types import Document
from retriever.index.durability.verify import verify
from retriever.index.handover.parquet import MANIFEST, export_parquet, import_parquet
from retriever.index.handover.qdrant import export_qdrant, field_types, point_id
from retriever.workspace import Index

ROWS = [
    Document(
        f"d {row} é",
        f"{ALL_WORDS[row % 23]} {ALL_WORDS[row % 17 + 20]}",
        {"stars": row % 5, "when": f"2024-0{1 + row % 9}-11", "tags": ["a", "b"][: row % 3], "in": {"a b": row / 2}},
    )
    for row in range(60)
]
NAMES = {"base": "", "how-does-the-writer-feel": MOOD}


@pytest.fixture
def full(path):
    """An index with two complete views and one that lacks texts."""
    with Index(path, encoder=RichEncoder()) as index:
        index.add(ROWS, instructions=[MOOD])
        index.complete([FAULT], where="stars = 1")
    return path


@pytest.fixture
def server():
    with qdrant_server() as running:
        yield running


def held(path):
    with Index(path, encoder=RichEncoder()) as index:
        store = index.store
        texts = store.documents.texts(store.documents.live_contents())
        views = {}
        for view in store.views.all():
            kept = store.vectors.get(view.view_id, list(texts))
            rows = zip(kept.content_ids.tolist(), kept.embeddings.tolist(), kept.words, strict=True)
            views[view.key] = {texts[one]: (row, words) for one, row, words in rows}
        return store.documents.get(list(store.documents.ids())), views


def test_parquet_reads_back_equal(full, tmp_path):
    done = export_parquet(full, tmp_path / "out")
    assert done.manifest["left"] == [FAULT]
    import_parquet(tmp_path / "out", tmp_path / "again")
    documents, views = held(full)
    assert held(tmp_path / "again") == (documents, {key: one for key, one in views.items() if key.instruction != FAULT})
    assert verify(tmp_path / "again", deep=True, load=lambda description: RichEncoder()).whole
    with Index(full, encoder=RichEncoder()) as one, Index(tmp_path / "again", encoder=RichEncoder()) as other:
        for asked in ("", MOOD):
            assert found(one.search("lamp sad", instruction=asked)) == found(
                other.search("lamp sad", instruction=asked)
            )
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_vectors_of_any_kind_read_back_bit_by_bit(path, tmp_path):
    class Random(FakeEncoder):
        def vectors(self, texts, instruction=""):
            chance = np.random.default_rng(7)
            rows = chance.normal(size=(len(texts), 16)).astype(np.float32)
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    with Index(path, encoder=Random()) as index:
        index.add([Document(str(row), f"text {row}") for row in range(1500)])
    export_parquet(path, tmp_path / "out")
    import_parquet(tmp_path / "out", tmp_path / "again")
    assert held(path) == held(tmp_path / "again")


def test_parquet_is_read_by_others(full, tmp_path):
    from pyarrow.parquet import read_table

    export_parquet(full, tmp_path / "out")
    table = read_table(tmp_path / "out" / "documents.parquet").to_pylist()
    assert {row["id"]: json.loads(row["metadata"]) for row in table} == {one.id: one.metadata for one in ROWS}
    vectors = read_table(tmp_path / "out" / "view-2.parquet")
    assert vectors.schema.metadata[b"instruction"] == MOOD.encode()
    assert vectors["id"].to_pylist() == [row["id"] for row in table]
    expected = RichEncoder().vectors([row["text"] for row in table], MOOD)
    np.testing.assert_array_equal(np.array(vectors["vector"].to_pylist(), np.float32), expected)


@pytest.mark.parametrize("change", ["a byte", "no file", "another name", "no manifest", "a link", "no views", "short"])
def test_what_was_changed_is_refused_and_leaves_nothing(full, tmp_path, change):
    out = tmp_path / "out"
    export_parquet(full, out)
    file, manifest = out / "view-1.parquet", json.loads((out / MANIFEST).read_text())
    match change:
        case "a byte":
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case "no file":
            file.unlink()
        case "another name":
            manifest["files"][0]["name"] = "../x.parquet"
        case "no manifest":
            manifest = []
        case "a link":
            shutil.move(file, tmp_path / "x")
            file.symlink_to(tmp_path / "x")
        case "no views":
            del manifest["views"][0]["fingerprint"]
        case "short":
            manifest["documents"] = 61
    (out / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="out"):
        import_parquet(out, tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []


def test_what_exists_is_not_overwritten(full, tmp_path):
    for write in (export_parquet, lambda path, to: export_qdrant(path, str(to))):
        with pytest.raises(UsageError, match="exists already"):
            write(full, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((OutputError, UsageError)):
        export_parquet(full, tmp_path / "file" / "out")


def test_a_folder_of_qdrant_answers_as_the_index_does(full, tmp_path):
    done = export_qdrant(full, str(tmp_path / "out"), "reviews")
    assert (done.points, done.sent, done.vectors, done.left) == (60, 60, NAMES, [FAULT])
    client = QdrantClient(path=str(tmp_path / "out"))
    try:
        assert client.count("reviews").count == 60
        with Index(full, encoder=RichEncoder()) as index:
            view = {one.key.instruction: one for one in index.store.views.all()}
            for using, asked in NAMES.items():
                query = index.encoder.encode_views(["lamp sad toy"], [asked])[0].embeddings
                points = client.query_points("reviews", query=query[0].tolist(), using=using, limit=60).points
                contents = index.store.documents.live_contents()
                stored = index.store.vectors.get(view[asked].view_id, contents)
                scores = dict(zip(stored.content_ids.tolist(), (stored.embeddings @ query[0]).tolist(), strict=True))
                documents = index.store.documents.expand(contents)
                expected = {one.id: scores[content] for content, each in documents.items() for one in each}
                assert {one.payload["id"]: one.score for one in points} == pytest.approx(expected, abs=1e-6)
        first = client.retrieve("reviews", [point_id(ROWS[7].id)], with_vectors=True)[0]
        assert first.payload["text"] == ROWS[7].text
        assert first.payload["metadata"] == ROWS[7].metadata
        assert set(first.vector) == set(NAMES)
        assert set(first.payload["words"]) == set(NAMES)
        liked = models.Filter(must=[models.FieldCondition(key="metadata.stars", match=models.MatchValue(value=2))])
        assert {one.payload["metadata"]["stars"] for one in client.scroll("reviews", liked, limit=60)[0]} == {2}
    finally:
        client.close()


def test_a_server_is_filled_behind_an_alias_that_moves_in_one_step(full, server):
    done = export_qdrant(full, server.url, "reviews")
    assert server.client.count("reviews").count == 60
    assert server.collections == [done.stored_in]
    assert {count for *_, count in server.indexed} == {0}
    assert ("metadata.stars", "integer", 0) in server.indexed
    again = export_qdrant(full, server.url, "reviews")
    assert (again.stored_in, again.sent) == (done.stored_in, 0)
    with Index(full, encoder=RichEncoder()) as index:
        index.delete([ROWS[0].id])
    other = export_qdrant(full, server.url, "reviews")
    assert other.stored_in != done.stored_in
    assert server.client.count("reviews").count == 59
    assert server.collections == [other.stored_in]
    assert server.switches == [1, 2, 2]


def test_an_export_that_was_interrupted_goes_on_and_nobody_saw_half_of_it(full, server, monkeypatch):
    monkeypatch.setattr("retriever.index.handover.qdrant._REQUEST_BYTES", 60_000)
    server.fail_at = 3
    with pytest.raises(RetrieverError, match="refuses: 400"):
        export_qdrant(full, server.url, "reviews")
    assert server.client.get_aliases().aliases == []
    (half,) = server.collections
    before = server.client.count(half).count
    assert 0 < before < 60
    done = export_qdrant(full, server.url, "reviews")
    assert (done.stored_in, done.sent) == (half, 60 - before)


def test_a_collection_of_somebody_else_is_left_alone(full, server):
    server.client.create_collection("reviews", vectors_config=models.VectorParams(size=2, distance="Dot"))
    with pytest.raises(UsageError, match="none of ours"):
        export_qdrant(full, server.url, "reviews")
    assert server.collections == ["reviews"]
    with pytest.raises(UsageError, match="cannot name a collection"):
        export_qdrant(full, server.url, "../x")
    with pytest.raises(RetrieverError, match="No Qdrant server answers"):
        export_qdrant(full, "http://127.0.0.1:1")


def test_fields_have_the_index_that_fits_them():
    rows = [
        {"a": 1, "b": 1.5, "c": "x", "d": "2024-01-02", "e": True, "f": {"g": 3}, "h": ["p", "q"], "i": None, "j": 1},
        {"a": 2, "b": 2, "c": "y", "d": "2024-01-02T10:00:00Z", "e": None, "k": "x" * 300, "l m": 1, "j": "one"},
    ]
    assert field_types([Document(str(row), "t", one) for row, one in enumerate(rows)]) == {
        "metadata.a": "integer",
        "metadata.b": "float",
        "metadata.c": "keyword",
        "metadata.d": "datetime",
        "metadata.e": "bool",
        "metadata.f.g": "integer",
        "metadata.h": "keyword",
        'metadata."l m"': "integer",
    }


def test_two_instructions_that_read_alike_have_two_names(path, tmp_path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(ROWS[:3])
        for asked in (PRODUCT, f"{PRODUCT.upper()}"):
            index.store.views.ensure(index.readers.view_key(asked))
            contents = index.store.documents.live_contents()
            view = index.store.views.find(index.readers.view_key(asked))
            index.store.vectors.put(view.view_id, contents, np.eye(3, 16, dtype=np.float32))
    done = export_qdrant(path, str(tmp_path / "out"))
    assert list(done.vectors) == ["base", "what-kind-of-product-is-it", "what-kind-of-product-is-it-3"]
