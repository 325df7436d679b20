import json

import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, documents
from shard_fakes import make

from retriever.core.errors import IndexDamagedError, IndexNotFoundError, UsageError
from retriever.core.types import Document
from retriever.index.durability.verify import verify
from retriever.shards import splitting
from retriever.shards.manifest import Manifest, is_sharded
from retriever.shards.opening import opened_index, require_shards
from retriever.shards.runs import joined, runs_of
from retriever.shards.splitting import shard_index
from retriever.workspace import Index


@pytest.fixture
def single(tmp_path):
    with Index(tmp_path / "single", encoder=FakeEncoder()) as index:
        index.add(documents("toy sad", "toy love", "lamp love", "mug hate", "pan sad", "toy sad"), instructions=[MOOD])
        yield index


def test_every_shard_is_a_whole_index_of_its_own(tmp_path):
    both = make(tmp_path, n=90, parts=3)
    both.compare(both.request())
    told = [part.documents for part in both.sharded.fleet.manifest.parts]
    assert sum(told) == 90
    assert max(told) - min(told) <= 10  # documents with one text stay together
    both.sharded.close()
    found = []
    for number in range(3):
        folder = both.sharded.path / f"shard-{number:04}"
        assert verify(folder, deep=True, load=lambda _: both.sharded._given).whole
        with Index(folder, encoder=both.sharded._given) as shard:
            assert shard.search("toy love", instruction=MOOD).path == "complete"
            found += shard.store.documents.ids()
    assert sorted(found) == sorted(both.ids)


def test_documents_with_equal_texts_stay_together(single, tmp_path):
    shard_index(single.path, 5, tmp_path / "shards")
    with Index(tmp_path / "shards" / "shard-0000") as first:
        assert list(first.store.documents.ids()) == ["a", "f"]


def test_what_cannot_be_split(single, tmp_path):
    with pytest.raises(UsageError, match="5 texts cannot be split into 6 shards"):
        shard_index(single.path, 6, tmp_path / "shards")
    assert not (tmp_path / "shards").exists()
    with pytest.raises(IndexNotFoundError):
        shard_index(tmp_path / "nothing", 2, tmp_path / "shards")
    (tmp_path / "shards").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        shard_index(single.path, 2, tmp_path / "shards")


def test_a_split_that_fails_leaves_nothing(single, tmp_path, monkeypatch):
    made, build = [], splitting.build_generation

    def fails(*arguments):
        made.append(arguments)
        if len(made) == 3:
            raise KeyboardInterrupt
        return build(*arguments)

    monkeypatch.setattr(splitting, "build_generation", fails)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        shard_index(single.path, 2, tmp_path / "shards")
    assert sorted(tmp_path.iterdir()) == before


def test_a_lazy_view_goes_along(single, tmp_path):
    lazy = single.search("toy love", instruction=FAULT)
    shard_index(single.path, 2, tmp_path / "shards")
    with opened_index(tmp_path / "shards") as opened:
        opened._given = FakeEncoder()
        assert opened.search("toy love", instruction=FAULT).hits == lazy.hits


def test_every_shard_keeps_its_share_of_the_limit_of_lazy_views(tmp_path):
    both = make(tmp_path, n=200, parts=2)
    both.sharded.close()
    both.single.lazy_limit = 20 * 32  # vectors of 16 numbers, two bytes each
    shard_index(both.single.path, 2, tmp_path / "limited")
    with opened_index(tmp_path / "limited") as opened:
        opened._given, opened._search_options = both.sharded._given, both.sharded._search_options
        for query in ("toy love", "mug sad", "kettle leaks slow", "bike dim", "shoe hot proud"):
            opened.search(query, instruction=FAULT)
        lazy = next(view for view in opened.views() if view.instruction == FAULT)
    assert 0 < lazy.vectors <= 20


def test_the_manifest_is_read_back_and_refused_where_it_is_another(single, tmp_path):
    folder = tmp_path / "shards"
    shard_index(single.path, 2, folder)
    assert is_sharded(folder)
    assert [part.documents for part in require_shards(folder).parts] == [3, 3]
    path = folder / "shards.json"
    text = path.read_text()
    for changed, message in (
        ("{", "is damaged"),
        ("[]", "no manifest"),
        (text.replace('"format": 1', '"format": 2'), "newer version"),
        (text.replace("shard-0000", "../single"), "no folders"),
        (text.replace('"first"', '"frist"'), "is damaged"),
    ):
        path.write_text(changed)
        with pytest.raises(IndexDamagedError, match=message):
            Manifest.read(folder)
    with pytest.raises(IndexNotFoundError, match="no shards"):
        Manifest.read(single.path)
    with pytest.raises(UsageError, match="was not split"):
        require_shards(single.path)


def test_the_manifest_holds_what_orders_hits(tmp_path):
    both = make(tmp_path, n=90, parts=3)
    document = json.loads((both.sharded.path / "shards.json").read_text())
    view = both.single.store.views.all()[1]
    told = next(one for one in document["views"] if one["instruction"] == MOOD)
    assert told["vectors"] == both.single.store.vectors.count(view.view_id)
    assert told["typical"] == pytest.approx(both.single.searcher(view).shift.tolist())
    assert sum(part["tokens"] for part in document["shards"]) == both.single.store.words.counts("").tokens
    both.sharded.close()


def test_runs_of_neighbours():
    import numpy as np

    rng = np.random.default_rng(0)
    every = np.flatnonzero(rng.random(500) < 0.7)
    halves = [every[rng.random(len(every)) < 0.5], np.empty(0, np.int64)]
    halves.append(np.setdiff1d(every, halves[0]))
    np.testing.assert_array_equal(joined([runs_of(one) for one in halves]), every)
    assert len(runs_of(np.arange(10_000)).starts) == 1


def test_a_document_that_is_new_goes_to_the_smallest_shard(tmp_path):
    both = make(tmp_path, n=60, parts=3)
    smallest = min(range(3), key=lambda part: both.sharded.fleet.manifest.parts[part].documents)
    both.add([Document("new", "quite another text")])
    answers = both.sharded.fleet.ask("documents_of", ["new"])
    assert [part for part, found in answers.items() if found] == [smallest]
    both.sharded.close()
