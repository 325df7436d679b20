import pytest

PRODUCT, MOOD = "Which product is it?", "What is the mood?"
BOTH = ["--instruction", PRODUCT, "--instruction", MOOD]


def test_hits_side_by_side(indexed):
    ran = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2", "--json")
    assert list(ran.document) == ["schema_version", "query", "instructions", "overlap", "documents"]
    assert ran.document["instructions"] == [PRODUCT, MOOD]
    ranks = {one["id"]: one["ranks"] for one in ran.document["documents"]}
    assert 1 in ranks["r4"]
    shown = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2")
    assert shown.out.splitlines()[0].split() == ["A", "B", "id", "A", "answers", "B", "answers"]
    assert f"A: {PRODUCT}\nB: {MOOD}\n" in shown.err


def test_flows_between_clusters(indexed, tmp_path):
    ran = indexed("compare", *BOTH, "-k", "2", "--html", "page.html", "--json")
    assert sum(one["size"] for one in ran.document["flows"]) == 5
    assert [len(each) for each in ran.document["clusters"]] == [2, 2]
    assert "cluster under A" in (tmp_path / "page.html").read_text()
    shown = indexed("compare", *BOTH, "-k", "2")
    assert f"{ran.document['moved']} documents are in another cluster" in shown.err


@pytest.mark.parametrize("instructions", [[], ["--instruction", "a"], [*BOTH, "--instruction", "c"]])
def test_two_instructions_are_asked_for(indexed, instructions):
    assert indexed("compare", *instructions).failed_with(2, "Two instructions are compared")
