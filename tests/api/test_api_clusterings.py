import pytest
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import PRODUCT

from retriever.workspace import Index

CLASSIFY = "/indexes/reviews/classify"
SAVED = "/indexes/reviews/clusterings/products"
WAITED = {"params": {"wait": 60}}


@pytest.fixture
def server(make, serve, indexes, encoder):
    make(texts=[f"a {word} {n}" for n, word in enumerate(["kettle", "toy", "lamp"] * 4)])
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.save_classification("products", index.classify(PRODUCT, ["kettle", "toy"]))
    return serve(tokens=TOKENS)


def done(response):
    assert response.status_code == 200, response.text
    assert response.json()["status"] == "done", response.text
    return response.json()["result"]


def test_categories_come_as_the_command_line_gives_them(server, indexes, encoder):
    body = {"instruction": PRODUCT, "into": ["kettle", {"name": "toy", "description": "a toy"}], "several": True}
    result = done(server.post(CLASSIFY, body, token=READER, **WAITED))
    assert [(one["label"], one["description"]) for one in result["clusters"]] == [("kettle", ""), ("toy", "a toy")]
    assert (result["assignments"]["r1"], result["assignments"]["r2"]) == (0, 1)
    assert result["several"] is True


def test_what_cannot_be_classified_is_told(server):
    body = {"instruction": PRODUCT, "into": ["toy", "Toy"]}
    assert refused(server.post(CLASSIFY, body, token=READER, **WAITED), 400, "invalid_request", "'Toy' is there twice")
    body = {"instruction": " ", "into": ["toy", "lamp"]}
    assert refused(server.post(CLASSIFY, body, token=READER, **WAITED), 400, "invalid_request", "answers to a question")


def test_saved_clusterings_are_named_and_shown(server):
    assert server.get("/indexes/reviews/clusterings", token=READER).json() == {"clusterings": ["products"]}
    assert done(server.post(SAVED, token=READER, **WAITED))["saved"]["name"] == "products"
    assert refused(server.post(f"{SAVED}x", token=READER, **WAITED), 400, "invalid_request", "no saved clustering")


def test_only_who_may_write_changes_a_clustering(server):
    body = {"rename": {"toy": "Plaything"}, "author": "Ada"}
    assert refused(server.post(f"{SAVED}/edits", body, token=READER), 403, "forbidden")
    result = done(server.post(f"{SAVED}/edits", body, token=WRITER, **WAITED))
    assert [one["label"] for one in result["clusters"]] == ["kettle", "Plaything"]
    assert [(one["author"], one["undone"]) for one in result["edits"]] == [("Ada", None)]
    undone = done(server.post(f"{SAVED}/edits", {"undo": True}, token=WRITER, **WAITED))
    assert [one["label"] for one in undone["clusters"]] == ["kettle", "toy"]
    nothing = server.post(f"{SAVED}/edits", {}, token=WRITER, **WAITED)
    assert refused(nothing, 400, "invalid_request", "undo, or neither")


def test_a_search_goes_towards_and_away_from_hits_and_holds_an_expression(server):
    body = {"query": "kettle", "instruction": PRODUCT, "mode": "dense", "k": 12}
    plain = [one["id"] for one in server.post("/indexes/reviews/search", body, token=READER).json()["hits"]]
    marked = {**body, "more": ["r2"], "less": ["r3"]}
    steered = [one["id"] for one in server.post("/indexes/reviews/search", marked, token=READER).json()["hits"]]
    toys, lamps = {"r2", "r5", "r8", "r11"}, {"r3", "r6", "r9", "r12"}
    assert max(map(steered.index, toys)) < min(map(steered.index, lamps))
    assert set(plain[:4]) == {"r1", "r4", "r7", "r10"}
    held = server.post("/indexes/reviews/search", {**body, "regex": "lamp (2|5)"}, token=READER).json()["hits"]
    assert {one["id"] for one in held} == {"r3", "r6"}
    assert refused(server.post("/indexes/reviews/search", {**body, "regex": "("}, token=READER), 400, "invalid_request")
    unknown = server.post("/indexes/reviews/search", {**body, "more": ["zz"]}, token=READER)
    assert refused(unknown, 400, "invalid_request", "no document 'zz'")
