"""Clusters of a question that a language model answers are made of a sample, and their shares are estimated."""

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.clusters.edit_requests import ClusterEdits
from retriever.core.errors import UsageError
from retriever.core.types import Document
from retriever.index.sources.limits import ReadingLimits
from retriever.workspace import Index

WHO = "Which product is it about?"
PRODUCTS = KEYWORDS[PRODUCT][:4]
TEXTS = [f"{PRODUCTS[min(row % 10, 3)]} is what I bought {row}" for row in range(400)]
SHARES = {"knife": 0.0, "kettle": 0.1, "toy": 0.1, "lamp": 0.1} | {PRODUCTS[3]: 0.7}


@pytest.fixture
def reader(monkeypatch):
    return loads(monkeypatch, FakeReader(PRODUCTS))


@pytest.fixture
def index(tmp_path, reader):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as opened:
        opened.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        opened.teaching.read_by(WHO, NAME)
        yield opened


def label_shares(clustering):
    return {
        clustering.clusters[number].label: estimate
        for number, estimate in clustering.sampled.shares.items()
        if number >= 0
    }


def test_a_sample_is_read_and_shares_of_all_texts_are_estimated(index, reader):
    clustering = index.cluster(WHO, k=4, read=150)
    assert len(reader.asked) == len(set(reader.asked)) == 150
    sampled = clustering.sampled
    assert (sampled.reader, sampled.texts, sampled.read) == (NAME, 400, 150)
    assert 100 <= sampled.drawn <= 150
    assert len(clustering.material.documents) == 150
    for label, estimate in label_shares(clustering).items():
        truth = sum(text.startswith(label) for text in TEXTS) / len(TEXTS)
        if estimate.interval:
            assert estimate.interval.low <= truth <= estimate.interval.high
            assert estimate.interval.low < estimate.interval.high
    assert any(estimate.interval for estimate in label_shares(clustering).values())
    assert "150 of 400 texts were read by chat:fake" in sampled.sentence


def test_shares_follow_clusters_that_people_merge(index):
    found = index.cluster(WHO, k=4, read=150)
    index.clusterings.save("who", found)
    merged = index.clusterings.edit("who", ClusterEdits(merge=[["1", "2"]]))
    assert set(merged.sampled.shares) == {0, 2, 3, -1}
    assert merged.sampled.to_json()["shares"].keys() == {"1", "3", "4", "-1"}
    before, after = ({number: each.cases for number, each in one.sampled.shares.items()} for one in (found, merged))
    assert after == {0: before[0] + before[1], **{number: before[number] for number in (2, 3, -1)}}


def test_a_larger_budget_adds_to_what_was_read_and_the_same_reads_nothing(index, reader):
    index.cluster(WHO, k=4, read=120)
    index.cluster(WHO, k=4, read=120)
    assert len(reader.asked) == 120
    index.cluster(WHO, k=4, read=200)
    assert len(set(reader.asked)) == len(reader.asked) == 200


def test_what_searches_read_counts_and_is_not_read_again(index, reader):
    index.search("toy", instruction=WHO)
    searched = len(reader.asked)
    clustering = index.cluster(WHO, k=4, read=150)
    assert len(set(reader.asked)) == len(reader.asked) == 150
    assert searched > 0
    assert 100 <= clustering.sampled.drawn <= 150


def test_when_all_are_read_shares_are_exact(index, reader):
    clustering = index.cluster(WHO, k=4, read="all")
    assert len(reader.asked) == 400
    assert clustering.sampled.whole
    for label, estimate in label_shares(clustering).items():
        truth = sum(text.startswith(label) for text in TEXTS) / len(TEXTS)
        assert (estimate.interval.value, estimate.interval.low, estimate.interval.high) == (truth, truth, truth)


def test_a_text_that_the_base_view_lacks_stops_no_clustering(index):
    base = index._opened.sources.view(index._opened.sources.base)
    index._opened.store.vectors.remove_oldest(base.view_id, 1)
    assert len(index.cluster(WHO, k=4, read=150).clusters) == 4


def test_texts_that_stay_unread_are_said_and_a_limit_holds(tmp_path, index, reader):
    reader.silent = set(TEXTS[::2])
    clustering = index.cluster(WHO, k=4, read=150)
    assert 0 < clustering.sampled.read < 150
    path = index.path
    with Index(path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), limits=ReadingLimits(texts=7)) as few:
        asked = len(reader.asked)
        few.cluster(WHO, k=4, read="all")
        assert len(reader.asked) == asked + 7


def test_answers_that_were_handed_in_are_clustered_as_far_as_they_reach(index, reader):
    other = "Who is it for?"
    index.teaching.give_answers(other, {f"d{row:03}": ("my little toy", "a lamp shop")[row % 2] for row in range(40)})
    clustering = index.cluster(other, k=2)
    assert reader.asked == []
    assert (clustering.sampled.reader, clustering.sampled.read, clustering.sampled.drawn) == ("given", 40, 0)
    assert all(estimate.interval is None for estimate in clustering.sampled.shares.values())
    assert {cluster.label: [str(phrase) for phrase in cluster.phrases] for cluster in clustering.clusters} == {
        "my little toy": ["my little toy (20)"],
        "a lamp shop": ["a lamp shop (20)"],
    }


def test_a_budget_of_nothing_is_refused(index):
    with pytest.raises(UsageError, match="0 texts are to be read"):
        index.cluster(WHO, read=0)
