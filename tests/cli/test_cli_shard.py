import pytest


@pytest.fixture
def sharded(indexed):
    indexed("search", "kettle", "--instruction", "What mood?")
    return indexed("shard", "indexes/default", "--parts", "2", "-o", "shards/two")


def test_an_index_is_split_and_searched_as_one(sharded, indexed):
    assert sharded.code == 0
    assert sharded.out.startswith("shards/two: 5 documents in 2 shards of 2 to 3. ")
    for options in ([], ["--instruction", "What mood?"], ["--where", "stars <= 2"], ["--mode", "lexical"]):
        one = indexed("search", "kettle", "--json", *options).document
        other = indexed("search", "kettle", "--json", "--index", "shards/two", *options).document
        del one["took_ms"], other["took_ms"]
        assert other == one
    assert indexed("search", "kettle", "--index", "shards/two").out == indexed("search", "kettle").out


def test_as_json(indexed):
    document = indexed("shard", "indexes/default", "-o", "s", "--parts", "3", "--json").document
    assert list(document) == ["schema_version", "index", "folder", "documents", "shards"]
    assert [list(one) for one in document["shards"]] == [["folder", "documents", "texts"]] * 3


def test_what_cannot_be_split_or_searched(sharded, indexed, tmp_path):
    assert indexed("shard", "indexes/default", "-o", "shards/two").failed_with(2, "shards/two exists already")
    assert indexed("shard", "indexes/default", "-o", "x", "--parts", "9").failed_with(2, "5 texts cannot be split")
    assert indexed("shard", "nowhere", "-o", "x").failed_with(1, "There is no index at nowhere")
    assert not (tmp_path / "x").exists()
    (tmp_path / "shards" / "two" / "shards.json").write_text("{")
    assert indexed("search", "kettle", "--index", "shards/two").failed_with(4, "shards.json is damaged")


def test_serving_shards_takes_ray_and_shards(sharded, indexed, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    ran = indexed("serve", "--shards", "shards/two", "--port", "0")
    assert ran.failed_with(1, "pip install retriever[ray]")
    assert indexed("serve", "--shards", "nowhere", "--port", "0").failed_with(1, "There are no shards at")
    assert indexed("serve", "--shards", "indexes/default", "--port", "0").failed_with(2, "was not split")
