"""Jobs that write to one index: they wait for one another, say so, and can be cancelled meanwhile."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_fakes import READER, TOKENS, WAIT, WRITER, refused
from index_fakes import MOOD, PRODUCT
from test_api_connections import until
from test_api_mcp import asked

from retriever.api.service import Service
from retriever.serving import lines
from retriever.serving.jobs import current_job
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.workspace import Index

DOCUMENTS, CLUSTER, ANSWERS = (f"/indexes/reviews/{part}" for part in ("documents", "cluster", "answers"))
FOR_WRITERS = {"Authorization": f"Bearer {WRITER}"}


@pytest.fixture
def held(make, serve, encoder):
    """Begin to serve an index to which a job adds a document that no encoder reads yet; give the server and the job."""

    def begin(**limits):
        make()
        server = serve(tokens=TOKENS, **limits)
        encoder.go.clear()
        encoder.began.clear()
        first = add(server, "first")
        assert encoder.began.wait(WAIT)
        return server, first

    return begin


def add(server, *ids):
    """The job that adds documents."""
    documents = [{"id": id, "text": f"a bike of {id}"} for id in ids]
    response = server.post(DOCUMENTS, {"documents": documents}, token=WRITER)
    assert response.status_code == 202, response.text
    return response.json()


def job(server, begun, wait=WAIT):
    return server.get(f"/jobs/{begun['id']}", token=READER, params={"wait": wait}).json()


def delete(server, id, **options):
    return server.http.delete(DOCUMENTS, params={"id": id, **options}, headers=FOR_WRITERS)


def test_writers_wait_for_one_another_and_all_succeed_in_the_order_they_came(held, encoder):
    server, first = held()
    second = add(server, "second")
    third = delete(server, "second", wait=0).json()
    assert job(server, first, wait=0)["status"] == "running"
    now = [job(server, each, wait=0) for each in (second, third)]
    assert [one["status"] for one in now] == ["waiting", "waiting"]
    assert [one["waiting"] for one in now] == [{"behind": "Adding documents", "place": place} for place in (1, 2)]
    encoder.go.set()
    ended = [job(server, each) for each in (first, second, third)]
    assert [one["status"] for one in ended] == ["done"] * 3, ended
    assert [one["waiting"] for one in ended] == [None] * 3
    assert ended[2]["result"] == {"deleted": ["second"], "missing": []}  # which the second had added
    there = server.get(DOCUMENTS, token=READER, params={"id": ["first", "second"]}).json()
    assert ([each["id"] for each in there["documents"]], there["missing"]) == (["first"], ["second"])


def test_no_job_is_overtaken_by_a_later_one_that_is_quicker_to_come_to_its_writing(held, encoder, monkeypatch):
    server, _ = held()
    index = Service.index

    def slow_to_add(*args, **options):
        own = current_job()
        time.sleep(0.5 * (own is not None and own.title == "Adding documents"))
        return index(*args, **options)

    monkeypatch.setattr(Service, "index", slow_to_add)
    add(server, "second")
    third = delete(server, "second", wait=0).json()
    encoder.go.set()
    assert job(server, third)["result"] == {"deleted": ["second"], "missing": []}


def test_a_job_cancelled_while_it_waits_is_over_at_once_and_does_nothing(held, encoder):
    server, _ = held()
    second, third = add(server, "second"), add(server, "third")
    assert server.http.delete(f"/jobs/{second['id']}", headers=FOR_WRITERS).json()["status"] == "stopped"
    until(lambda: job(server, third, wait=0)["waiting"] == {"behind": "Adding documents", "place": 1})
    encoder.go.set()
    assert job(server, third)["status"] == "done"
    assert server.get(DOCUMENTS, token=READER, params={"id": "second"}).json()["missing"] == ["second"]


def test_more_than_may_wait_are_refused_and_told_when_to_ask_again(held, encoder):
    server, _ = held(waiting_jobs=2)
    waiting = [add(server, "second"), add(server, "third")]
    response = delete(server, "r1", wait=0)
    assert refused(response, 429, "busy", "Already waiting to write to an index: 2 jobs.")
    assert response.headers["Retry-After"] == "1"
    assert refused(server.post(CLUSTER, {}, token=READER), 429, "busy")
    given = {"instruction": MOOD, "answers": {"r1": "fine"}}
    assert refused(server.http.put(ANSWERS, json=given, headers=FOR_WRITERS), 429, "busy")
    encoder.go.set()
    assert [job(server, each)["status"] for each in waiting] == ["done", "done"]
    assert delete(server, "r1", wait=WAIT).json()["result"]["deleted"] == ["r1"]


def test_those_that_wait_do_not_count_as_running(held, encoder):
    server, _ = held(jobs=2)
    add(server, "second"), add(server, "third")
    found = server.post(CLUSTER, {"instruction": PRODUCT, "k": 2}, token=READER, params={"wait": WAIT})
    assert found.json()["status"] == "done"  # nothing is to be read for it
    page = server.get("/metrics", token=READER).text
    assert "retriever_running_jobs 1.0" in page
    assert "retriever_waiting_jobs 2.0" in page
    encoder.go.set()


def test_clusters_that_have_to_store_vectors_wait_for_the_writer(held, encoder):
    server, first = held()
    groups = server.post(CLUSTER, {"instruction": MOOD, "k": 1}, token=READER).json()
    until(lambda: job(server, groups, wait=0)["status"] == "waiting")
    assert job(server, groups, wait=0)["waiting"] == {"behind": "Adding documents", "place": 1}
    encoder.go.set()
    assert job(server, first)["status"] == job(server, groups)["status"] == "done"


def test_an_agent_is_told_that_its_job_waits(held, encoder):
    server, _ = held(seconds=1)
    said = asked(server, "cluster", token=READER, instruction=MOOD, k=1).structured_content
    assert (said["status"], said["waiting"]) == ("waiting", {"behind": "Adding documents", "place": 1})
    encoder.go.set()


def test_answers_wait_for_the_writer_too(held, encoder):
    server, _ = held()
    given = {"instruction": "What is it?", "answers": {"r1": "a kettle"}}
    with ThreadPoolExecutor(1) as threads:
        put = threads.submit(server.http.put, ANSWERS, json=given, headers=FOR_WRITERS)
        until(lambda: "waiting" in server.service.unfinished_jobs().values())
        encoder.go.set()
        assert put.result().json()["answers"] == 1


def test_answers_that_had_no_turn_in_time_are_not_stored_later(held, encoder, monkeypatch):
    server, first = held(seconds=0.5)
    given = {"instruction": "What is it?", "answers": {"r1": "a kettle"}}
    assert refused(server.http.put(ANSWERS, json=given, headers=FOR_WRITERS), 504, "took_too_long")
    encoder.go.set()
    until(lambda: job(server, first, wait=0)["status"] == "done")
    shown = server.get(ANSWERS, token=READER, params={"instruction": "What is it?"}).json()
    assert shown["answers"] == {}


def test_a_job_waits_for_another_process_and_goes_on_when_that_has_ended(make, serve, indexes, encoder):
    make()
    server = serve(tokens=TOKENS)
    with WriterLock(indexes / "reviews" / LOCK_NAME):
        begun = add(server, "first")
        until(lambda: job(server, begun, wait=0)["status"] == "waiting")
        assert job(server, begun, wait=0)["waiting"]["behind"] == "another program that writes to the index"
    assert job(server, begun)["status"] == "done"


def test_a_server_that_stops_ends_what_waits(held, encoder):
    server, _ = held()
    second = add(server, "second")
    server.service.close()
    assert job(server, second, wait=0)["status"] == "stopped"
    encoder.go.set()


def test_other_indexes_are_written_to_meanwhile(held, make, encoder, monkeypatch):
    server, first = held()
    began = threading.Event()
    real = Index.delete
    monkeypatch.setattr(Index, "delete", lambda *args: began.set() or real(*args))
    encoder.go.set()
    job(server, first)
    make("others")
    with WriterLock(server.service.folder / "reviews" / LOCK_NAME):
        add(server, "second")
        gone = server.http.delete("/indexes/others/documents", params={"id": "r1", "wait": WAIT}, headers=FOR_WRITERS)
        assert gone.json()["result"]["deleted"] == ["r1"]
        assert began.is_set()


def test_the_patience_with_another_process_is_what_the_page_says():
    assert lines.LOCK_SECONDS == 30
