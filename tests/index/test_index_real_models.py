"""Workers with the model that ships, over the example reviews."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.index.workers.embedder import Workers
from retriever.workspace import Index

REVIEWS = Path(__file__).parents[2] / "examples/reviews.jsonl"

pytestmark = pytest.mark.model


KIND = "What kind of product is this review about?"
ROWS = 24


def stored(path, workers):
    rows = [json.loads(line) for line in REVIEWS.read_text(encoding="utf-8").splitlines()[:ROWS]]
    with Index(path, device="cpu") as index:
        options = IndexingOptions(workers=workers)
        index.add([Document(str(row["id"]), row["text"]) for row in rows], instructions=[KIND], options=options)
        contents = index._opened.store.documents.live_contents()
        return {
            view.key: index._opened.store.vectors.get(view.view_id, contents)
            for view in index._opened.store.views.all()
        }


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("alone") / "index", Workers())


@pytest.mark.parametrize(
    "pool", ["processes", pytest.param("ray", marks=pytest.mark.skipif(find_spec("ray") is None, reason="no ray"))]
)
def test_workers_give_the_vectors_of_this_process(alone, tmp_path, pool):
    found = stored(tmp_path / "index", Workers(2, pool, "local", device="cpu", piece=ROWS // 2))
    assert found.keys() == alone.keys()
    for key, one in alone.items():
        assert found[key].embeddings.shape == (ROWS, key.dim)
        # Batches of other texts and other threads: the last bits of a product differ, in bfloat16 more of them.
        cosines = np.sum(found[key].embeddings * one.embeddings, axis=1)
        assert cosines.min() > (0.9999 if key.dtype == "float32" else 0.995)
        same = [first[:2] == second[:2] for first, second in zip(found[key].words, one.words, strict=True)]
        assert np.mean(same) > 0.8
