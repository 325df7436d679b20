import pytest
from index_fakes import FakeEncoder

from retriever.clusters.comparing import compare_clusters
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.map import map_places, write_map
from retriever.clusters.report import make_report
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

# Every review speaks of one thing or of two; of all six pairs of four topics there are three.
TOPICS = ("kettle", "toy", "lamp", "knife")
PAIRS = [(one, other) for place, one in enumerate(TOPICS) for other in TOPICS[place + 1 :]]
REVIEWS = [
    *(Document(f"{one}-{other}-{n}", f"The {one} came . A {other} came too .", {"stars": n})
      for one, other in PAIRS for n in (1, 2, 3)),
    *(Document(f"{one}-{n}", f"My {one} is here . Their {one} is here too .", {"stars": n})
      for one in TOPICS for n in (1, 2)),
]  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with Index(tmp_path_factory.mktemp("units") / "index", encoder=FakeEncoder()) as index:
        index.add(REVIEWS, options=IndexingOptions(units="sentences"))
        yield index


@pytest.fixture(scope="module")
def topics(index):
    return index.cluster(k=4, by=["stars"])


def numbers(document):
    return {one["label"]: one["cluster"] for one in document["clusters"]}


def test_both_topics_of_every_review_are_found_and_counted(topics):
    document = topics.to_json()
    assert (document["documents"], document["units"], document["k"]) == (26, 52, 4)
    assert {one["label"]: (one["size"], one["documents"]) for one in document["clusters"]} == dict.fromkeys(
        TOPICS, (9 + 4, 9 + 2)
    )
    named = numbers(document)
    assert all(
        {named[word] - 1 for word in TOPICS if word in one.text.split()} == set(topics.topics[one.id])
        for one in REVIEWS
    )


def test_whole_reviews_show_one_topic_each(tmp_path):
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(REVIEWS)
        found = index.cluster(k=4)
    assert found.to_json()["units"] is None
    assert [one.documents for one in found.clusters] == [one.size for one in found.clusters]
    assert all(len(numbers) == 1 for numbers in found.topics.values())


def test_values_are_counted_by_review(topics):
    for one in topics.to_json()["clusters"]:
        assert one["by"]["stars"]["counts"] == {"1": 4, "2": 4, "3": 3}


def test_a_saved_clustering_takes_in_the_sentences_of_new_reviews(index, topics):
    index.clusterings.save("topics", topics)
    named = numbers(topics.to_json())
    index.add([Document("new", "That toy again . Some knife again . Nothing else here at all .", {"stars": 1})])
    saved = index.clusterings.get("topics")
    shown = saved.to_json()
    assert (shown["documents"], shown["units"]) == (27, 55)
    assert shown["new"] == ["new#1", "new#2", "new#3"]
    assert [shown["assignments"][f"new#{number}"] for number in (1, 2)] == [named["toy"], named["knife"]]
    assert {named["toy"] - 1, named["knife"] - 1} <= set(saved.topics["new"])
    sizes = {one["label"]: (one["size"], one["documents"]) for one in shown["clusters"]}
    assert sizes["toy"] == (14, 12)
    index.delete(["new"])
    assert index.clusterings.get("topics").to_json()["units"] == 52


def test_some_reviews_or_the_sentences_of_one_cluster_are_clustered_again(index, topics):
    chosen = [id for id, number in topics.assignments.items() if number == 0]
    again = index.cluster(k=1, ids=chosen)
    assert set(again.assignments) == set(chosen)
    assert len(index.cluster(k=1, ids=["kettle-toy-1", "lamp-1"]).assignments) == 4
    assert len(index.cluster(k=1, where="stars = 3").assignments) == 36 / 3 * 1


def test_two_clusterings_of_sentences_are_compared_and_drawn(index, topics, tmp_path):
    other = index.cluster(k=2)
    found = compare_clusters(topics, other)
    assert sum(len(one.ids) for one in found.flows) == 52
    assert index.clusterings.still_holds(topics)
    write_map(tmp_path / "map.html", topics, map_places(topics))
    page = (tmp_path / "map.html").read_text()
    assert "The kettle came ." in page
    assert "kettle-toy-1#1" in page


def test_numbers_count_reviews_and_not_their_sentences(index, topics):
    rows = groups_of(topics)
    whole = rows.by_document()
    assert (len(rows.documents), len(whole.documents)) == (52, 26)
    assert {one.id for one in whole.documents} == {one.id for one in REVIEWS}
    assert dict(zip(whole.names, whole.members.sum(axis=1).tolist(), strict=True)) == dict.fromkeys(TOPICS, 9 + 2)
    both = whole.members[[whole.names.index("kettle"), whole.names.index("toy")]].all(axis=0)
    assert sorted(whole.ids(both)) == [f"kettle-toy-{n}" for n in (1, 2, 3)]
    assert whole.by_document() is whole


def test_a_report_of_sentences_quotes_them_and_counts_reviews(index, topics):
    index.clusterings.save("told", topics)
    found = index.clusterings.get("told")
    report = make_report(found, numbers_of(index, groups_of(found), stars="stars"), {})
    assert report.numbers.documents == 26
    for section in report.sections:
        assert len(section.numbers.reviews) == 9 + 2
        assert all(section.numbers.name in quote.text for quote in section.quotes)
