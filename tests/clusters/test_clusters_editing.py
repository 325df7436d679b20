"""Changes that people make to a saved clustering, over a real index with FAISS and SQLite."""

import pytest
from index_fakes import PRODUCT

from retriever.clusters.edit_requests import ClusterEdits, usual_author
from retriever.clusters.references import find, references
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document

KINDS = ("kettle", "toy", "lamp")


@pytest.fixture
def saved(index):
    """Twelve documents in the clusters 0 lamp, 1 kettle, 2 toy: five, four and three."""
    counts = {"kettle": 4, "toy": 3, "lamp": 5}
    index.add([Document(f"{kind}{row}", f"{kind} {row}") for kind in KINDS for row in range(counts[kind])])
    found = index.cluster(PRODUCT, k=3)
    assert [one.label for one in found.clusters] == ["lamp", "kettle", "toy"]
    index.clusterings.save("products", found)
    return index


def edit(index, **edits):
    return index.clusterings.edit("products", ClusterEdits(**edits), author="Ada")


def sizes(found):
    return {one["label"]: one["size"] for one in found.to_json()["clusters"]}


def test_a_cluster_is_renamed_by_number_or_name_and_keeps_its_name_when_documents_join(saved):
    edit(saved, rename={"1": "  Bright  things ", "KETTLE": "Kitchen = all"})
    saved.add([Document("new", "lamp new")])
    found = saved.clusterings.get("products")
    assert sizes(found) == {"Bright things": 6, "Kitchen = all": 4, "toy": 3}
    assert found.new == ["new"]


def test_clusters_are_merged_and_later_documents_go_along(saved):
    found = edit(saved, merge=[["ket", "3"]])
    assert list(sizes(found).items()) == [("kettle / toy", 7), ("lamp", 5)]  # named from all members, the largest first
    saved.add([Document("new", "toy new")])
    again = saved.clusterings.get("products")
    assert (sizes(again), again.assignments["new"]) == ({"kettle / toy": 8, "lamp": 5}, 1)
    merged = again.to_json()["clusters"][0]
    assert set(merged["keywords"]) == {"kettle", "toy"}  # described anew: 1 - 1/8 is the cosine of two kinds
    assert 0.87 < merged["cohesion"] < 1
    assert again.to_json()["k"] == 2


def test_a_merged_cluster_is_split_again_and_later_documents_go_to_the_nearest_part(saved):
    edit(saved, merge=[["kettle", "toy"]], rename={"2": "Both"})
    found = edit(saved, split={"Both": 2})
    assert sizes(found) == {"lamp": 5, "kettle": 4, "toy": 3}
    assert set(found.assignments.values()) == {0, 1, 3}  # numbers are given once
    saved.add([Document("new", "toy new"), Document("other", "kettle new")])
    assert sizes(saved.clusterings.get("products")) == {"lamp": 5, "kettle": 5, "toy": 4}


def test_a_cluster_that_cannot_be_split_is_left(saved):
    with pytest.raises(UsageError, match="too alike to be split into 2"):
        edit(saved, split={"toy": 2})
    with pytest.raises(UsageError, match="has 3 documents and cannot be split into 4"):
        edit(saved, split={"toy": 4})
    assert saved.clusterings.get("products").edits == []


def test_a_moved_document_stays_where_it_was_put_until_it_says_something_else(saved):
    found = edit(saved, move={"toy0": "kettle", "toy1": "none"})
    assert (found.assignments["toy0"], found.assignments["toy1"], sizes(found)["toy"]) == (1, -1, 1)
    saved.add([Document("toy0", "lamp now")])
    assert saved.clusterings.get("products").assignments["toy0"] == 0
    with pytest.raises(InputError, match="no document 'gone'"):
        edit(saved, move={"gone": "toy"})


def test_changes_are_taken_back_one_by_one_and_the_history_stays(saved):
    before = sizes(saved.clusterings.get("products"))
    edit(saved, rename={"1": "Light"})
    saved.clusterings.edit("products", ClusterEdits(merge=[["Light", "toy"]]))
    assert saved.clusterings.undo("products").change.kind == "merge"
    assert sizes(saved.clusterings.get("products")) == {"Light": 5, "kettle": 4, "toy": 3}
    edit(saved, move={"toy0": "kettle"})
    assert [saved.clusterings.undo("products").change.kind for _ in range(2)] == ["move", "rename"]
    assert sizes(saved.clusterings.get("products")) == before
    with pytest.raises(InputError, match="There is no change of 'products' to undo"):
        saved.clusterings.undo("products")
    edits = saved.clusterings.get("products").to_json()["edits"]
    assert [one["author"] for one in edits] == ["Ada", usual_author(), "Ada"]
    does = ["cluster 1 is called 'Light'", "cluster 1 takes in 3", "toy0 goes to cluster 2"]
    assert [one["does"] for one in edits] == does
    assert all(one["made"] <= one["undone"] for one in edits)


def test_of_several_changes_all_are_made_or_none(saved):
    with pytest.raises(UsageError, match="no cluster 'shoe'") as caught:
        edit(saved, merge=[["lamp", "toy"]], rename={"kettle": "Kitchen", "shoe": "Shoes"})
    assert caught.value.hint == "There are: 1 (lamp / toy), 2 (Kitchen)."
    assert saved.clusterings.get("products").edits == []


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ({"rename": {"1": "Toy"}}, "There is a cluster 'Toy' already"),
        ({"rename": {"1": " "}}, "Cluster 1 gets no name"),
        ({"merge": [["1", "lamp"]]}, "One cluster alone"),
        ({"rename": {"7": "Seven"}}, "no cluster '7'"),
        ({"rename": {"0": "Zero"}}, "no cluster '0': clusters count from 1"),
        ({"rename": {" ": "Blank"}}, "no cluster ''"),
    ],
)
def test_what_makes_no_sense_is_refused(saved, edits, problem):
    with pytest.raises(UsageError, match=problem):
        edit(saved, **edits)


def test_edits_of_a_clustering_that_is_not_there(saved):
    with pytest.raises(InputError, match="no saved clustering 'moods'"):
        saved.clusterings.edit("moods", ClusterEdits(rename={"1": "Light"}))
    with pytest.raises(InputError, match="no saved clustering 'moods'"):
        saved.clusterings.undo("moods")


def test_names_with_commas_are_quoted_in_lists():
    assert references('3, "bad, broken",price') == ["3", "bad, broken", "price"]
    assert references("book / screen,5") == ["book / screen", "5"]
    with pytest.raises(UsageError, match="is no list of clusters"):
        references('3,"bad')


def test_a_cluster_goes_by_the_beginning_of_its_name_where_it_has_that_alone():
    labels = {0: "bad content, screen", 2: "Bad screen / price", 3: "5 stars"}
    assert [find(named, labels) for named in ("1", " bad  C", "BAD SCREEN / price", "5 s")] == [0, 0, 2, 3]
    with pytest.raises(UsageError, match="Several clusters have names that begin with 'bad'") as caught:
        find("bad", labels)
    assert "1 (bad content, screen), 3 (Bad screen / price)" in caught.value.hint
    with pytest.raises(UsageError, match="no cluster '5'"):  # a number is none of a name's beginning
        find("5", labels)
    assert find("bad", {0: "bad", 1: "bad luck"}) == 0


def test_python_counts_from_0_and_what_is_shown_from_1(saved):
    found = saved.clusterings.get("products")
    shown = found.to_json()
    assert [cluster.number for cluster in found.clusters] == sorted(set(found.labels.tolist())) == [0, 1, 2]
    assert [cluster["cluster"] for cluster in shown["clusters"]] == [1, 2, 3]
    assert shown["assignments"] == {id: number + 1 for id, number in found.assignments.items()}
    moved = edit(saved, move={"toy0": "none"})
    assert (moved.assignments["toy0"], moved.to_json()["assignments"]["toy0"]) == (-1, -1)
