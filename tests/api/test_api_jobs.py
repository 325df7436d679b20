import json
import time

import pytest
from api_fakes import READER, TOKENS, WAIT, WRITER, refused
from index_fakes import FAULT, MOOD, PRODUCT

from retriever.serving import lines
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.workspace import Index

DOCUMENTS = "/indexes/reviews/documents"
CLUSTER = "/indexes/reviews/cluster"


@pytest.fixture
def server(make, serve):
    make(texts=[f"a {word} {n}" for n, word in enumerate(["kettle", "toy", "lamp"] * 10)])
    return serve(tokens=TOKENS)


def done(response):
    """The result of a job that was waited for."""
    assert response.status_code == 200, response.text
    job = response.json()
    assert job["status"] == "done"
    return job["result"]


def write(server, *documents, **fields):
    return server.post(DOCUMENTS, {"documents": list(documents), **fields}, token=WRITER, params={"wait": WAIT})


def test_clusters_come_as_the_command_line_gives_them(server, indexes, encoder):
    result = done(server.post(CLUSTER, {"instruction": PRODUCT, "k": 3}, token=READER, params={"wait": WAIT}))
    with Index(indexes / "reviews", encoder=encoder) as index:
        assert result == index.cluster(PRODUCT, k=3).to_json()
    assert sorted(one["size"] for one in result["clusters"]) == [10, 10, 10]


def test_a_job_is_looked_at_until_it_is_over(server, encoder):
    server.post("/v1/embeddings", {"input": "a"}, token=READER)
    encoder.go.clear()
    began = server.post(CLUSTER, {"instruction": MOOD, "k": 2}, token=READER)
    assert began.status_code == 202
    path = f"/jobs/{began.json()['id']}"
    assert server.get(path, token=READER).json()["status"] == "running"
    assert refused(server.get(path), 401, "unauthorized")
    encoder.go.set()
    over = server.get(path, token=READER, params={"wait": WAIT}).json()
    assert (over["status"], over["index"], over["title"]) == ("done", "reviews", "Clustering")
    assert over["progress"]["done"] == 30
    assert [one["size"] for one in over["result"]["clusters"]] == [30]  # no text tells a mood
    assert server.get(path, token=READER).json()["result"] == over["result"]
    assert refused(server.get("/jobs/none", token=READER), 404, "not_found")


def test_a_job_that_is_cancelled_ends_and_keeps_what_it_read(server, encoder, indexes):
    encoder.go.clear()
    encoder.began.clear()
    path = f"/jobs/{server.post(CLUSTER, {'instruction': MOOD, 'k': 2}, token=READER).json()['id']}"
    assert encoder.began.wait(WAIT)
    headers = {"Authorization": f"Bearer {READER}"}
    assert server.http.delete(path, headers=headers).json()["status"] == "stopping"
    encoder.go.set()
    assert server.get(path, token=READER, params={"wait": WAIT}).json()["status"] == "stopped"
    done(server.post(CLUSTER, {"instruction": MOOD, "k": 2}, token=READER, params={"wait": WAIT}))


def test_what_a_job_fails_of_is_the_answer_or_in_the_job(server):
    body = {"instruction": PRODUCT, "where": "colour = 'red'"}
    assert refused(server.post(CLUSTER, body, token=READER, params={"wait": WAIT}), 400, "invalid_request", "colour")
    job = server.post(CLUSTER, body, token=READER).json()["id"]
    told = server.get(f"/jobs/{job}", token=READER, params={"wait": WAIT}).json()
    assert told["status"] == "failed"
    assert "colour" in told["error"]["message"]
    assert refused(server.post("/indexes/gone/cluster", {}, token=READER), 404, "index_not_found")


def test_more_jobs_than_may_run_are_refused_and_few_are_kept(make, serve, encoder):
    make()
    server = serve(jobs=1, kept_jobs=2)
    encoder.go.clear()
    first = server.post(CLUSTER, {"instruction": MOOD, "k": 2})
    assert first.status_code == 202
    assert refused(server.post(CLUSTER, {"instruction": FAULT}), 429, "busy", "1 job")
    encoder.go.set()
    server.get(f"/jobs/{first.json()['id']}", params={"wait": WAIT})
    for _ in range(3):
        last = server.post(CLUSTER, {"instruction": PRODUCT, "k": 2}, params={"wait": WAIT})
    assert refused(server.get(f"/jobs/{first.json()['id']}"), 404, "not_found")
    assert server.get(f"/jobs/{last.json()['id']}").status_code == 200


def test_documents_are_added_replaced_and_deleted(server, encoder):
    bike = {"id": "n1", "text": "a bike", "metadata": {"stars": 9}}
    result = done(write(server, bike, {"id": "r1", "text": "a tent"}))
    assert (result["added"], result["updated"]) == (1, 1)
    body = {"query": "bike", "mode": "dense", "instruction": PRODUCT, "k": 1, "where": "stars >= 9"}
    found = server.post("/indexes/reviews/search", body, token=READER).json()
    assert [(hit["id"], hit["score"]) for hit in found["hits"]] == [("n1", 1.0)]
    assert found["path"] == "complete"  # the view that was asked for before has it too
    headers = {"Authorization": f"Bearer {WRITER}"}
    gone = server.http.delete(DOCUMENTS, params={"id": ["n1", "no"]}, headers=headers)
    assert done(gone) == {"deleted": ["n1"], "missing": ["no"]}
    assert server.get(DOCUMENTS, token=READER, params={"id": "n1"}).json()["missing"] == ["n1"]


def test_ratings_and_dates_are_read_as_those_of_files(server):
    written = {"stars": "4 out of 5 stars", "date": "3. Mai 2024"}
    result = done(write(server, {"id": "n2", "text": "a bike", "metadata": written}))
    assert result["reading"] == ["documents: 'stars' read as stars; 'date' read as date"]
    body = {"query": "bike", "mode": "lexical", "where": "stars = 4 and date = '2024-05-03'"}
    assert [hit["id"] for hit in server.post("/indexes/reviews/search", body, token=READER).json()["hits"]] == ["n2"]


def test_a_filter_compares_moments_and_says_how_dates_are_written(server):
    times = {"n1": "2024-05-31T20:00:00Z", "n2": "2024-06-01T01:00:00+02:00", "n3": "2024-06-01 00:00:00"}
    done(write(server, *({"id": id, "text": f"a bike {id}", "metadata": {"at": at}} for id, at in times.items())))
    body = {"query": "bike", "mode": "lexical", "where": "at <= '2024-05-31'"}
    found = server.post("/indexes/reviews/search", body, token=READER).json()
    assert sorted(hit["id"] for hit in found["hits"]) == ["n1", "n2"]
    wrong = server.post("/indexes/reviews/search", {**body, "where": "at <= 'May'"}, token=READER)
    assert refused(wrong, 400, "invalid_request", "The field at holds dates, and 'May' is none.", "'2024-05-31'")


def test_only_a_writer_changes_documents(server, serve, make):
    one = {"documents": [{"id": "x", "text": "y"}]}
    assert refused(server.post(DOCUMENTS, one, token=READER), 403, "forbidden", "read and not write")
    assert refused(server.post(DOCUMENTS, one), 401, "unauthorized")
    headers = {"Authorization": f"Bearer {READER}"}
    assert refused(server.http.delete(DOCUMENTS, params={"id": "r1"}, headers=headers), 403, "forbidden")
    assert refused(serve().post(DOCUMENTS, one), 403, "forbidden", "no writer's token")
    assert server.get(DOCUMENTS, token=READER, params={"id": "r1"}).json()["missing"] == []


IMPOSSIBLE = [
    ([], ["0 documents"]),
    ([{"id": "a", "text": "b"}] * 6, ["6 documents", "1 to 5"]),
    ([{"id": "a"}], ["documents.0.text"]),
    ([{"id": "a", "text": "  "}], ["'a' has no text"]),
    ([{"id": 7, "text": "b"}], ["documents.0.id"]),
    ([{"id": "a" * 513, "text": "b"}], ["documents.0.id", "512"]),
    ([{"id": "a", "text": "b" * 101}], ["The text of 'a' has 101 characters"]),
    ([{"id": "a", "text": "b", "title": "c"}], ["Unknown field 'title'"]),
    ([{"id": "a", "text": "b", "metadata": [1]}], ["documents.0.metadata"]),
    ([{"id": "a", "text": "b", "metadata": json.loads('{"a":' * 40 + "1" + "}" * 40)}], ["nested too deeply"]),
]


def test_documents_that_cannot_be_are_refused_all_together(make, serve):
    make()
    server = serve(tokens=TOKENS, documents=5, text_characters=100)
    for documents, parts in IMPOSSIBLE:
        assert refused(write(server, *documents), 400, "invalid_request", *parts)


def test_while_another_process_writes_the_answer_says_so_and_reading_goes_on(server, indexes, monkeypatch):
    monkeypatch.setattr(lines, "LOCK_SECONDS", 0)
    with WriterLock(indexes / "reviews" / LOCK_NAME):
        assert refused(write(server, {"id": "n", "text": "a bike"}), 409, "index_locked")
        body = {"query": "kettle", "instruction": PRODUCT, "mode": "dense", "k": 1}
        assert server.post("/indexes/reviews/search", body, token=READER).status_code == 200
    done(write(server, {"id": "n", "text": "a bike"}))


def test_a_second_server_reads_what_the_first_wrote(server, serve):
    other = serve(tokens=TOKENS)
    done(write(server, {"id": "n", "text": "a bike"}))
    body = {"query": "bike", "instruction": PRODUCT, "mode": "dense", "k": 1}
    assert other.post("/indexes/reviews/search", body, token=READER).json()["hits"][0]["id"] == "n"
    done(write(other, {"id": "m", "text": "a tent"}))
    assert server.get(DOCUMENTS, token=READER, params={"id": "m"}).json()["missing"] == []


def test_waiting_is_no_longer_than_a_request_may_take(make, serve, encoder):
    make()
    server = serve(seconds=0.3)
    encoder.go.clear()
    started = time.monotonic()
    assert server.post(CLUSTER, {"instruction": MOOD}, params={"wait": 3000}).status_code == 202
    assert time.monotonic() - started < WAIT / 2  # the encoder is held for longer


def test_the_end_of_a_server_waits_no_longer_than_it_says(make, serve, encoder):
    make()
    server = serve(grace_seconds=1)
    encoder.go.clear()
    encoder.began.clear()
    jobs = [server.post(CLUSTER, {"instruction": one}).json()["id"] for one in (MOOD, FAULT)]
    assert encoder.began.wait(WAIT)
    began = time.monotonic()
    server.service.close()
    assert time.monotonic() - began < WAIT / 2  # the encoder is held for longer
    assert {server.service.jobs.find(one).snapshot().status for one in jobs} <= {"stopping", "stopped"}
    assert refused(server.post("/v1/embeddings", {"input": "a"}), 429, "busy", "is stopping")


SAVED = "/indexes/reviews/clusterings/products"
WAITED = {"params": {"wait": 60}}


@pytest.fixture
def saved(make, serve, indexes, encoder):
    make(texts=[f"a {word} {n}" for n, word in enumerate(["kettle", "toy", "lamp"] * 4)])
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.clusterings.save("products", index.cluster(PRODUCT, into=["kettle", "toy"]))
    return serve(tokens=TOKENS)


def test_categories_come_as_the_command_line_gives_them(saved, indexes, encoder):
    body = {"instruction": PRODUCT, "into": ["kettle", {"name": "toy", "description": "a toy"}], "several": True}
    result = done(saved.post(CLUSTER, body, token=READER, **WAITED))
    assert [(one["label"], one["description"]) for one in result["clusters"]] == [("kettle", ""), ("toy", "a toy")]
    assert (result["assignments"]["r1"], result["assignments"]["r2"]) == (1, 2)
    assert (result["made"], result["several"]) == ("names", True)
    one = saved.post(CLUSTER, {**body, "into": ["kettle"]}, token=READER, **WAITED)
    assert refused(one, 400, "invalid_request", "There is 1 category")
    both = saved.post(CLUSTER, {**body, "k": 2}, token=READER, **WAITED)
    assert refused(both, 400, "invalid_request", "exclude each other")
    assert refused(saved.post(CLUSTER, {**body, "k": 0}, token=READER, **WAITED), 400, "invalid_request", "k")


def test_saved_clusterings_are_named_and_shown(saved):
    assert saved.get("/indexes/reviews/clusterings", token=READER).json() == {"clusterings": ["products"]}
    assert done(saved.post(SAVED, token=READER, **WAITED))["saved"]["name"] == "products"
    assert refused(saved.post(f"{SAVED}x", token=READER, **WAITED), 400, "invalid_request", "no saved clustering")


def test_only_who_may_write_changes_a_clustering(saved):
    body = {"rename": {"2": "Plaything"}, "author": "Ada"}
    assert refused(saved.post(f"{SAVED}/edits", body, token=READER), 403, "forbidden")
    result = done(saved.post(f"{SAVED}/edits", body, token=WRITER, **WAITED))
    assert [one["label"] for one in result["clusters"]] == ["kettle", "Plaything"]
    assert [(one["author"], one["undone"]) for one in result["edits"]] == [("Ada", None)]
    undone = done(saved.post(f"{SAVED}/edits", {"undo": True}, token=WRITER, **WAITED))
    assert [one["label"] for one in undone["clusters"]] == ["kettle", "toy"]
    nothing = saved.post(f"{SAVED}/edits", {}, token=WRITER, **WAITED)
    assert refused(nothing, 400, "invalid_request", "`undo`, or neither")
