import pytest

from retriever.core.requests import SearchOptions

PRODUCT, MOOD = "Which product is it?", "What is the mood?"
COMPLETE = f"retriever views --complete '{MOOD}'"
BOTH = ["--instruction", PRODUCT, "--instruction", MOOD]


def test_hits_side_by_side(indexed):
    ran = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2", "--json")
    assert " ".join(ran.document) == "schema_version query instructions paths verdicts overlap documents"
    assert ran.document["instructions"] == [PRODUCT, MOOD]
    ranks = {one["id"]: one["ranks"] for one in ran.document["documents"]}
    assert 1 in ranks["r4"]
    shown = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2")
    assert shown.out.splitlines()[0].split() == ["A", "B", "id", "A", "answers", "B", "answers"]
    assert f"A: {PRODUCT}\nB: {MOOD}\n" in shown.err


def test_an_answer_from_candidates_is_called_approximate(indexed, tmp_path, monkeypatch):
    indexed("views", "--complete", PRODUCT)
    frugal = SearchOptions(token_budget=40)  # for one text
    monkeypatch.setattr("retriever.index.open_index.SearchOptions", lambda: frugal)
    ran = indexed("compare", *BOTH, "--query", "I love this lamp", "--html", "page.html")
    assert (tmp_path / "page.html").read_text().count("is approximate: candidates alone were read") == 1
    assert "A is approximate" not in ran.err
    assert f"B is approximate: candidates alone were read under its instruction. `{COMPLETE}` makes it exact" in ran.err
    indexed("views", "--complete", MOOD)
    assert "approximate" not in indexed("compare", *BOTH, "--query", "I love this lamp").err
    paths = indexed("compare", *BOTH, "--query", "I love this lamp", "--json").document["paths"]
    assert paths == ["complete", "complete"]


def test_an_empty_instruction_is_compared_by_vectors_too(indexed):
    document = indexed("compare", "--instruction", "", "--instruction", MOOD, "--query", "a lamp", "--json").document
    assert document["paths"] == ["base", "complete"]
    assert {id: ranks[0] for id, ranks in ranks_of(document).items()} == ranks_of_search(indexed, "a lamp")


def ranks_of(document):
    return {one["id"]: one["ranks"] for one in document["documents"]}


def ranks_of_search(indexed, query):
    hits = indexed("search", query, "--mode", "hybrid", "--json").document["hits"]
    return {hit["id"]: hit["rank"] for hit in hits}


def test_clusters_are_compared_without_reading_outside_of_the_filter(indexed):
    ran = indexed("compare", *BOTH, "-k", "2", "--where", "category = 'kitchen'", "--json")
    assert sum(one["size"] for one in ran.document["flows"]) == 2
    assert [one["vectors"] for one in indexed("views", "--json").document["views"]] == [5, 2, 2]


@pytest.mark.parametrize("k", ["many", "6"])
def test_what_cannot_be_clustered_is_refused_before_anything_is_embedded(indexed, k):
    assert indexed("compare", *BOTH, "-k", k).failed_with(2, k)
    assert len(indexed("views", "--json").document["views"]) == 1


def test_flows_between_clusters(indexed, tmp_path):
    ran = indexed("compare", *BOTH, "-k", "2", "--html", "page.html", "--json")
    assert sum(one["size"] for one in ran.document["flows"]) == 5
    assert [len(each) for each in ran.document["clusters"]] == [2, 2]
    assert "cluster under A" in (tmp_path / "page.html").read_text()
    shown = indexed("compare", *BOTH, "-k", "2")
    assert f"{ran.document['moved']} documents are in another cluster" in shown.err


@pytest.mark.parametrize(
    ("argv", "says"),
    [(["--query", "a lamp", "-k", "2"], "-k is for clusters"), (["--hits", "3"], "--hits is for a query")],
)
def test_an_option_of_the_other_comparison_is_refused(indexed, argv, says):
    assert indexed("compare", *BOTH, *argv).failed_with(2, says)


@pytest.mark.parametrize("instructions", [[], ["--instruction", "a"], [*BOTH, "--instruction", "c"]])
def test_two_instructions_are_asked_for(indexed, instructions):
    assert indexed("compare", *instructions).failed_with(2, "Two instructions are compared")
