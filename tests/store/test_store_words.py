import random
from functools import reduce
from operator import add

import numpy as np
import pytest

from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.documents import Documents
from retriever.store.words import WordCounts

VOCABULARY = "run running well-known kettle café the a toy 東京 x1 it's leaks leaking well known".split()


@pytest.fixture
def stores(tmp_path):
    """Give one database, and three that hold a third of its texts each, under the same ids."""
    rng = random.Random(4)
    whole = Store.open(tmp_path / "whole" / "corpus.sqlite3", create=True)
    texts = [" ".join(rng.choices(VOCABULARY, k=rng.randint(1, 40))) for _ in range(90)]
    whole.documents.upsert([Document(f"d{rng.random()}", text, {"n": number % 3}) for number, text in enumerate(texts)])
    parts = [Store.open(tmp_path / f"part{number}" / "corpus.sqlite3", create=True) for number in range(3)]
    last = whole.parts.last_ids()
    for part, (first, until) in zip(parts, [(0, 20), (21, 50), (51, 10_000)], strict=True):
        part.parts.take(whole.path, first, until, last)
    yield whole, parts
    for store in (whole, *parts):
        store.close()


def of_parts(parts, query, k, where=None):
    """What the parts find, merged."""
    counts = reduce(add, [part.words.counts(query) for part in parts])
    found = []
    for part in parts:
        allowed = part.documents.live_contents() if where is None else part.documents.matching(where)
        condition = None if where is None else where.compile(part.documents.fields())
        found += part.words.ranked(query, k, counts, allowed, condition)
    return [(one.content_id, one.score) for one in sorted(found, key=lambda one: (-one.score, one.first))[:k]]


@pytest.mark.parametrize(
    "query", ["kettle", "run the toy", "well-known café", "東京 x1 it's leaking", "nothing", "???"]
)
@pytest.mark.parametrize("k", [1, 7, 200])
def test_parts_with_the_counts_of_all_score_as_one_to_the_last_bit(stores, query, k):
    whole, parts = stores
    for where in (None, filter_of("n = 1")):
        expected = [(hit.content_id, hit.score) for hit in whole.documents.lexical(query, k, where)]
        assert of_parts(parts, query, k, where) == expected


def filter_of(text):
    from retriever.store.filters import parse_filter

    return parse_filter(text)


def test_alone_a_part_would_score_otherwise(stores):
    whole, parts = stores
    alone = {hit.content_id: hit.score for hit in parts[0].documents.lexical("kettle", 50)}
    told = {hit.content_id: hit.score for hit in whole.documents.lexical("kettle", 50)}
    assert any(told[one] != score for one, score in alone.items())


def test_counts_are_those_of_the_table(stores):
    whole, parts = stores
    counts = whole.words.counts("kettle toy")
    assert counts == reduce(add, [part.words.counts("kettle toy") for part in parts])
    assert counts.texts == whole.documents.count_contents()
    assert counts.hits == tuple(len(whole.documents.lexical(word, 1000)) for word in ("kettle", "toy"))
    with pytest.raises(ValueError, match="zip"):
        counts + WordCounts(1, 1, (1,))


def test_texts_of_deleted_documents_count_until_they_are_removed_and_are_not_found(stores):
    whole, parts = stores
    gone = list(whole.documents.ids())[::4]
    for store in (whole, *parts):
        store.documents.delete(gone)
    expected = [(hit.content_id, hit.score) for hit in whole.documents.lexical("run toy", 100)]
    assert of_parts(parts, "run toy", 100) == expected
    for store in (whole, *parts):
        store.documents.collect_garbage()
    expected = [(hit.content_id, hit.score) for hit in whole.documents.lexical("run toy", 100)]
    assert of_parts(parts, "run toy", 100) == expected


def test_a_part_without_texts(stores, tmp_path):
    whole, parts = stores
    with Store.open(tmp_path / "empty" / "corpus.sqlite3", create=True) as empty:
        assert isinstance(empty.documents, Documents)
        assert empty.words.counts("kettle") == WordCounts(0, 0, (0,))
        assert empty.words.ranked("kettle", 5, whole.words.counts("kettle"), np.empty(0, np.int64)) == []
        assert of_parts([*parts, empty], "kettle", 5) == of_parts(parts, "kettle", 5)
