import re
from dataclasses import replace

import pytest
from index_fakes import MOOD, PRODUCT, documents

from retriever.clusters.comparing import compare_clusters, compare_ranks, write_page
from retriever.clusters.references import NONE
from retriever.core.errors import OutputError, UsageError


@pytest.fixture
def mixed(index):
    index.add(documents("toy love", "toy hate", "toy love x", "lamp love", "lamp hate", "lamp hate x"))
    return index


def test_flows_say_who_moved(mixed):
    found = compare_clusters(mixed.cluster(PRODUCT, k=2), mixed.cluster(MOOD, k=2))
    flows = {(one.first, one.second): (sorted(one.ids), one.stays) for one in found.flows}
    # By product abc | def, by mood acd | bef.
    assert flows == {
        (0, 0): (["a", "c"], True),
        (0, 1): (["b"], False),
        (1, 0): (["d"], False),
        (1, 1): (["e", "f"], True),
    }
    assert [len(one.ids) for one in found.flows] == [2, 2, 1, 1]
    assert found.moved == 2
    assert found.rand == pytest.approx(-1 / 9)  # 4 pairs agree less than 4.2 by chance: (2 - 36/15) / (6 - 36/15)
    document = found.to_json()
    assert document["instructions"] == [PRODUCT, MOOD]
    assert document["moved"] == 2
    assert document["flows"][0] == {"from": 1, "to": 1, "size": 2, "stays": True, "examples": ["a", "c"]}


def test_groups_of_one_name_are_counterparts_however_few_documents_they_share(mixed):
    first, second = mixed.cluster(PRODUCT, into=["toy", "lamp"]), mixed.cluster(MOOD, into=["love", "hate"])
    found = compare_clusters(first, second)
    assert [(one.first, one.second) for one in found.flows if one.stays] == [(0, 0), (1, 1)]
    swapped = [replace(cluster, label=name) for cluster, name in zip(second.clusters, ("Lamp", "toy"), strict=True)]
    found = compare_clusters(first, replace(second, clusters=swapped))
    assert [(one.first, one.second) for one in found.flows if one.stays] == [(0, 1), (1, 0)]
    assert found.moved == 4


def test_groups_are_compared_with_a_clustering_that_has_none(mixed):
    groups = mixed.cluster(PRODUCT, k=2)
    none = replace(groups, clusters=[], places={document.id: (NONE,) for document in groups.material.documents})
    flows = compare_clusters(none, groups).flows
    assert [(flow.first, flow.stays) for flow in flows] == [(NONE, False)] * 2
    assert [flow.stays for flow in compare_clusters(groups, none).flows] == [False] * 2


def test_the_same_clustering_has_not_moved(mixed):
    one = mixed.cluster(PRODUCT, k=2)
    found = compare_clusters(one, mixed.cluster(PRODUCT, k=2))
    assert (found.moved, found.rand, found.information) == (0, 1, 1)


def test_clusters_of_different_documents_are_not_compared(mixed):
    one = mixed.cluster(PRODUCT, k=2)
    mixed.delete(["a"])
    with pytest.raises(UsageError, match="different documents"):
        compare_clusters(one, mixed.cluster(MOOD, k=2))


def test_ranks_and_answers_stand_side_by_side(mixed):
    mixed.upkeep.complete([PRODUCT, MOOD])
    first, second = (mixed.search("toy hate", instruction=one, k=3, mode="dense") for one in (PRODUCT, MOOD))
    found = compare_ranks(first, second)
    assert [hit.document.id for hit in first.hits] == ["a", "b", "c"]
    assert [hit.document.id for hit in second.hits] == ["b", "e", "f"]
    assert [(one.hit.document.id, one.ranks) for one in found.moved] == [
        ("a", (1, None)),
        ("b", (2, 1)),
        ("e", (None, 2)),
        ("c", (3, None)),
        ("f", (None, 3)),
    ]
    assert [list(one) for one in found.moved[1].words] == [["toy"], ["hate"]]
    assert found.overlap == pytest.approx(1 / 3)


def test_pages_show_what_is_hostile_and_run_nothing(index, tmp_path):
    index.add(documents("toy <script>alert(1)</script> love", "lamp hate"))
    ranks = compare_ranks(*(index.search("<b>toy</b>", instruction=one, k=2) for one in (PRODUCT, MOOD)))
    flows = compare_clusters(*(index.cluster(one, k=2) for one in (PRODUCT, MOOD)))
    first, second = flows.clusterings
    hostile = [replace(one, label="<script>alert(2)</script>") for one in first.clusters]
    flows = replace(flows, clusterings=(replace(first, clusters=hostile), second))
    for name, found in {"ranks": ranks, "flows": flows}.items():
        write_page(tmp_path / name, found)
        page = (tmp_path / name).read_text()
        assert "<script" not in page
        assert "default-src 'none'" in page
        assert PRODUCT in page
    assert "&lt;b&gt;toy" in (tmp_path / "ranks").read_text()
    assert re.findall(r'"width: ([\d.]+)rem', (tmp_path / "flows").read_text()) == ["9.00", "9.00"]
    with pytest.raises(OutputError, match="cannot be written"):
        write_page(tmp_path / "gone" / "page.html", flows)
