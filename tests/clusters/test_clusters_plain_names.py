"""Categories in an index with a plain reader, which has a small say."""

import numpy as np
import pytest
from index_fakes import PRODUCT, FakeEncoder

from retriever.clusters.classifying import PLAIN, Plain, fitted
from retriever.core.types import Document
from retriever.workspace import Index


class Blank(FakeEncoder):
    """Sees nothing in any text: all names are equally near."""

    def _row(self, text, keywords):
        return [0.25] * 16


@pytest.fixture
def two(path):
    plain = FakeEncoder("plain")
    with Index(path, encoder=Blank("question"), plain=plain) as index:
        index.add([Document("a", "kettle 1"), Document("b", "toy 1"), Document("c", "kettle 2")])
        yield index


def test_where_the_view_tells_nothing_the_plain_reader_decides(two):
    found = two.classify(PRODUCT, ["kettle", "toy"])
    assert found.assignments == {"a": 0, "b": 1, "c": 0}
    assert found.names.shape == (2, 32)


def test_documents_that_come_later_are_read_by_both(two):
    two.save_classification("products", two.classify(PRODUCT, ["kettle", "toy"]))
    two.add([Document("d", "toy 2"), Document("A", "kettle 3")])
    assert {id: two.saved_clustering("products").assignments[id] for id in ("A", "d")} == {"A": 0, "d": 1}


def test_the_plain_readers_part_by_hand():
    vectors, names = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    alone = fitted(vectors, names, vectors.mean(axis=0))
    both = fitted(vectors, names, vectors.mean(axis=0), Plain(vectors, names[::-1]))
    assert both.scores == pytest.approx((1 - PLAIN) * alone.scores + PLAIN * np.array([[0, 1], [1, 0]]), abs=1e-6)
    assert both.reach == pytest.approx(alone.reach)
