"""The kind of vector index is chosen once, and holds for every later build."""

import pytest
from index_fakes import ALL_WORDS, FAULT, MOOD, FakeEncoder, found, gives

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.reembedding import reembed, roll_back
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.workspace import Index

GRAPH = "HNSW4,SQ8"
TOLERANT = IndexType(factory=GRAPH, min_recall=0.1)


def corpus(start, stop):
    return [Document(f"{row:03}", f"{ALL_WORDS[row % 48]} {ALL_WORDS[row * 7 % 48]}") for row in range(start, stop)]


def factories(path, encoder=None):
    with Index(path, encoder=encoder or FakeEncoder()) as index:
        return {view.factory or view.backend for view in index.views() if view.generation}


def test_a_later_build_is_of_the_type_that_was_chosen(index, path):
    index.add(corpus(0, 40), index_type=TOLERANT)
    assert factories(path) == {GRAPH}
    first = index.views()[0].generation
    index.add(corpus(40, 60))  # past a tenth
    assert index.views()[0].generation > first
    assert factories(path) == {GRAPH}
    index.upkeep.complete([MOOD])
    index.cluster(FAULT, k=2)
    assert [view.factory for view in index.views()] == [GRAPH] * 3
    index.upkeep.repair()
    assert [view.factory for view in index.views()] == [GRAPH] * 3
    assert index.status().vector_index == {
        "backend": "faiss", "location": "", "factory": GRAPH, "min_recall": 0.1
    }  # fmt: skip


def test_another_encoder_a_repair_and_an_import_keep_it(index, path, tmp_path):
    index.add(corpus(0, 40), instructions=[MOOD], index_type=TOLERANT)
    index.close()
    for file in path.glob("views/*/*.faiss"):
        file.unlink()
    assert len(repair(path, load=gives(FakeEncoder)).generations) == 2
    assert factories(path) == {GRAPH}
    export_index(path, tmp_path / "one.tar")
    import_index(tmp_path / "one.tar", tmp_path / "there")
    assert factories(tmp_path / "there") == {GRAPH}
    reembed(path, FakeEncoder("other"))
    assert factories(path, FakeEncoder("other")) == {GRAPH}
    roll_back(path, load=lambda _: FakeEncoder())
    assert factories(path) == {GRAPH}


def test_naming_it_again_changes_the_next_build_and_repair_builds_at_once(index, path):
    index.add(corpus(0, 40), index_type=TOLERANT)
    index.add(corpus(40, 41), index_type=IndexType(backend="exact"))
    assert factories(path) == {GRAPH}  # a tail of one
    index.add(corpus(41, 60))
    assert factories(path) == {"exact"}
    index.upkeep.repair(IndexType(backend="faiss"))
    assert factories(path) == {GRAPH}  # what was not named stays as it was
    index.upkeep.repair(IndexType(factory="auto"))
    assert factories(path) == {"SQfp16"}
    assert index.status().vector_index["min_recall"] == 0.1


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (IndexType(factory="nonsense"), "nonsense"),
        (IndexType(factory="PQ7"), "PQ7"),  # 16 numbers are not seven parts
        (IndexType(min_recall=1.5), "min_recall is 1.5"),
        (IndexType(backend="fais"), "no vector backend 'fais'.*Did you mean 'faiss'"),
        (IndexType(backend="exact=http://host:6333"), "takes no address"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_is_embedded_and_forgotten(index, encoder, chosen, why):
    with pytest.raises(UsageError, match=why):
        index.add(corpus(0, 3), index_type=chosen)
    assert encoder.read == []
    assert index.status().runs[0]["status"] == "failed"
    index.add(corpus(0, 3))
    assert [view.factory for view in index.views()] == ["SQfp16"]
    with pytest.raises(UsageError, match=why):
        index.upkeep.repair(chosen)
    index.upkeep.repair()


def test_an_import_sends_no_vectors_to_a_server_that_the_archive_names(index, path, tmp_path):
    index.add(corpus(0, 3))
    chosen = {"backend": "milvus", "location": "http://127.0.0.1:1", "min_recall": 0.5, "folder": path.stat().st_ino}
    index._opened.store.settings.set("vector_index", chosen)
    with pytest.raises(RetrieverError, match="No Milvus server answers"):
        index.upkeep.repair()
    index.close()
    export_index(path, tmp_path / "one.tar")
    import_index(tmp_path / "one.tar", tmp_path / "there")
    with Index(tmp_path / "there", encoder=FakeEncoder()) as there:
        assert there.status().vector_index == {
            "backend": "faiss", "location": "", "factory": "auto", "min_recall": 0.5
        }  # fmt: skip
        assert found(there.search("kettle", mode="dense"))


@pytest.mark.parametrize("value", [3, [], "faiss", {"backend": 3, "factory": None, "min_recall": "1", "other": {}}])
def test_a_setting_of_another_kind_is_not_followed(index, value):
    index.add(corpus(0, 3))
    index._opened.store.settings.set("vector_index", value)
    index.upkeep.repair()
    assert index.status().vector_index["backend"] == "faiss"
