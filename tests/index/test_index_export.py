import json
import shutil

import numpy as np
import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder, RichEncoder, found

from retriever.core.errors import InputError, OutputError, UsageError
from retriever.core.types import Document
from retriever.index.upkeep.export import MANIFEST, export_parquet, import_parquet
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index

ROWS = [
    Document(
        f"d {row} é",
        f"{ALL_WORDS[row % 23]} {ALL_WORDS[row % 17 + 20]}",
        {"stars": row % 5, "when": f"2024-0{1 + row % 9}-11", "tags": ["a", "b"][: row % 3], "in": {"a b": row / 2}},
    )
    for row in range(60)
]


@pytest.fixture
def full(path):
    """An index with two complete views and one that lacks texts."""
    with Index(path, encoder=RichEncoder()) as index:
        index.add(ROWS, instructions=[MOOD])
        index.upkeep.complete([FAULT], where="stars = 1")
    return path


def held(path):
    with Index(path, encoder=RichEncoder()) as index:
        store = index._opened.store
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
    with pytest.raises(UsageError, match="exists already"):
        export_parquet(full, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((OutputError, UsageError)):
        export_parquet(full, tmp_path / "file" / "out")
