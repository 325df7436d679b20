import shutil

import pytest
from tiny_families import FAMILIES

from retriever import load_encoder, open_index
from retriever.core.errors import UsageError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.sources.encoders import load_encoders
from retriever.workspace import Index

CAUSE = "Find texts that name the cause."
TEXTS = {
    "r1": "the toy broke because the battery is dull",
    "r2": "kettle boils water fast",
    "r3": "a sharp knife and a heavy lid",
    "r4": "love the red lamp, hate the blue cable",
    "r5": "my child broke the handle of the toy",
    "r6": "terrible mood and a slow dog",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with the tiny models of families, by their names."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("qwen3-embedding", "embedding-gemma", "multilingual-e5"):
        shutil.move(FAMILIES[name](tmp_path_factory.mktemp("built")), folder / name)
    return folder


@pytest.fixture
def indexed(models, tmp_path, monkeypatch):
    """Index the texts with a base encoder that is named by a relative folder, and go to another directory."""

    def make(name):
        monkeypatch.chdir(models)
        question, base = load_encoders(None, f"st:{name}", new=True, device="cpu")
        with Index(tmp_path / "index", encoder=question, plain=base) as index:
            index.add([Document(id, text, {}) for id, text in TEXTS.items()])
        monkeypatch.chdir(tmp_path)
        return tmp_path / "index"

    return make


def close(hits, vector, vectors):
    """Whether hits have the cosines of a vector with the texts', highest first, as halves hold them."""
    cosines = dict(zip(TEXTS, (vectors @ vector).tolist(), strict=True))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    return all(abs(hit.score - cosines[hit.document.id]) < 1e-3 for hit in hits)


def test_an_index_finds_its_brought_model_from_another_directory(indexed):
    path = indexed("multilingual-e5,dim=16")
    with open_index(path, device="cpu") as index:
        assert index.status().plain["dim"] == 16
        assert len(index.search("toy", mode="dense", k=6).hits) == 6


def test_queries_and_documents_are_read_by_their_roles(indexed, models):
    path = indexed("embedding-gemma")
    encoder = load_encoder(f"st:{models / 'embedding-gemma'}", device="cpu")
    documents = encoder.encode(list(TEXTS.values()))
    (sought,) = encoder.encode_queries(["what broke"])
    (first,) = encoder.encode_queries([TEXTS["r1"]])
    with open_index(path, device="cpu") as index:
        hits = index.search("what broke", mode="dense", k=6).hits
        alike = index.search(like="r1", mode="dense", k=5).hits
    assert close(hits, sought, documents)
    assert not close(hits, encoder.encode(["what broke"])[0], documents)
    assert close(alike, documents[0], documents)
    assert not close(alike, first, documents)
    assert (len(hits), len(alike)) == (6, 5)


def test_a_search_under_an_instruction_reads_nothing_where_queries_carry_it(indexed, models):
    path = indexed("qwen3-embedding")
    encoder = load_encoder(f"st:{models / 'qwen3-embedding'}", device="cpu")
    documents = encoder.encode(list(TEXTS.values()))
    with open_index(path, device="cpu") as index:
        results = list(index.search_progressively(SearchRequest("broke", instruction=CAUSE, mode="dense", k=6)))
        assert [view.instruction for view in index.views()] == [""]
        assert index.status().plain is None
    (query,) = encoder.encode_queries(["broke"], instruction=CAUSE)
    (result,) = results
    assert result.final
    assert result.path == "base"
    assert len(result.hits) == 6
    assert close(result.hits, query, documents)
    assert not close(result.hits, encoder.encode_queries(["broke"])[0], documents)


def test_clusters_under_an_instruction_read_the_texts_under_it(indexed):
    path = indexed("qwen3-embedding")
    with open_index(path, device="cpu") as index:
        index.cluster(CAUSE, k=2)
        assert [(view.instruction, view.coverage) for view in index.views()] == [("", 1.0), (CAUSE, 1.0)]
        after = index.search("broke", instruction=CAUSE, mode="dense")
        assert after.path == "base"


def test_examples_teach_a_question_on_a_brought_model(indexed):
    path = indexed("qwen3-embedding")
    with open_index(path, device="cpu") as index:
        examples = [(id, "toy" if id in ("r1", "r5", "r6") else "kitchen") for id in TEXTS]
        index.teaching.teach(CAUSE, examples)
        result = index.search("battery", instruction=CAUSE, mode="dense", k=6)
        assert result.path == "complete"
        assert len(result.hits) == 6


def test_a_model_that_takes_instructions_in_queries_is_not_put_beside_another_base(models, tmp_path):
    name = f"st:{models / 'qwen3-embedding'}"
    with pytest.raises(UsageError, match="on texts that it has read itself"):
        load_encoders(name, "minilm", new=True, device="cpu")
    with (
        pytest.raises(UsageError, match="on texts that it has read itself"),
        open_index(tmp_path / "index", encoder=load_encoder(name, device="cpu"), plain=load_encoder("minilm")) as index,
    ):
        index.add([Document("r1", "text", {})])
