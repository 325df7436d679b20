from collections import Counter
from dataclasses import replace

import pytest
from index_fakes import FAULT, MOOD, FakeEncoder
from shard_fakes import Twins, UnevenEncoder, make, text_of

from retriever.core.errors import FilterError, UsageError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document


@pytest.fixture
def twins(tmp_path):
    made: list[Twins] = []

    def get(**options):
        made.append(make(tmp_path, **options))
        return made[-1]

    yield get
    for one in made:
        one.single.close()
        one.sharded.close()


@pytest.mark.parametrize(("kind", "two"), [(FakeEncoder, False), (UnevenEncoder, True)])
def test_a_thousand_random_queries_are_answered_as_by_one_index(twins, kind, two):
    both = twins(kind=kind, two=two)
    paths = Counter()
    for _ in range(10):
        both.change()
        for _ in range(50):
            paths[both.compare(both.request())] += 1
    assert min(paths["base"], paths["complete"], paths["lazy"]) > 10
    both.single.compact()
    both.sharded.compact()
    for _ in range(20):
        both.compare(both.request())


def test_percentiles_are_of_the_whole_and_made_anew_when_it_has_grown(twins):
    both = twins(n=90, parts=3)
    request = SearchRequest(["toy love"], MOOD, mode="dense")
    both.compare(request)
    before = both.sharded.search("toy love", instruction=MOOD, mode="dense")
    assert all(hit.percentile is not None for hit in before.hits)
    both.add([replace(text_of(both.rng), id=f"new{number}") for number in range(150)])
    both.compare(request)
    kept = both.sharded.fleet.manifest.of(both.sharded.readers.view_key(MOOD)).similarities
    assert kept.vectors == both.single.store.vectors.count(2)


def test_several_queries_and_what_resembles_a_document(twins):
    both = twins()
    both.compare(SearchRequest(["toy love", "mug", "well-known and sad"], MOOD, 7, "stars >= 2"))
    for id in both.rng.sample(both.ids, 5):
        for asked in ("", MOOD, FAULT):
            one, other = (index.search_like(id, instruction=asked, k=5) for index in (both.single, both.sharded))
            assert replace(one, took_ms=0, verdict=None) == replace(other, took_ms=0)


def test_a_field_that_one_shard_alone_knows_is_a_field_of_all(twins):
    both = twins()
    both.add([Document("x", "toy mug", {"rare": 1})])
    both.compare(SearchRequest(["toy"], "", 50, "rare = 1"))
    with pytest.raises(FilterError, match="rarer"):
        both.sharded.search("toy", where="rarer = 1")


def test_documents_that_change_their_text_are_in_one_shard_only(twins):
    both = twins()
    texts = {one.id: one.text for one in both.single.documents(both.ids).values()}
    ids = both.rng.sample(both.ids, 30)
    both.add([Document(id, texts[other], {"stars": 1}) for id, other in zip(ids, reversed(ids), strict=True)])
    assert len(both.sharded.store.documents) == len(both.single.store.documents)
    assert both.sharded.documents(both.ids) == both.single.documents(both.ids)
    both.add(
        [Document(ids[0], texts[ids[1]], {}), Document(ids[0], texts[ids[2]], {}), Document(ids[0], texts[ids[0]])]
    )
    for _ in range(30):
        both.compare(both.request())


def test_what_is_told_of_the_shards_is_what_one_index_tells(twins):
    both = twins()
    both.change()
    both.compare(SearchRequest(["toy love"], FAULT))
    one, other = both.single.status(), both.sharded.status()
    assert (other.documents, other.texts) == (one.documents, one.texts)
    keep = ("instruction", "vectors", "coverage", "lazy", "dim", "bytes")
    assert [[getattr(view, name) for name in keep] for view in other.views] == [
        [getattr(view, name) for name in keep] for view in one.views
    ]
    both.sharded.complete([FAULT])
    both.single.complete([FAULT])
    assert [view.coverage for view in both.sharded.views()] == [1, 1, 1]
    both.compare(SearchRequest(["toy love"], FAULT))


def test_regular_expressions(twins):
    both = twins()
    for mode in ("dense", "lexical", "hybrid"):
        both.compare(SearchRequest(["toy love"], MOOD, 50, "stars >= 2", mode, regex="(toy|mug).*(love|sad)"))
    one, other = (index.search_pattern("o[yw]", k=12, where="even = true") for index in (both.single, both.sharded))
    assert replace(one, took_ms=0) == replace(other, took_ms=0)
    with pytest.raises(UsageError, match="no regular expression"):
        both.sharded.search("toy", regex="(")


def test_what_shards_do_not_do_is_refused(twins):
    both = twins()
    with pytest.raises(UsageError, match="no hits are marked"):
        both.sharded.search("toy", more=both.ids[:1])
