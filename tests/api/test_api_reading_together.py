"""Requests that have a language model read at one time: they share what is known and pay no text twice."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_fakes import TOKENS, WAIT, WRITER
from index_fakes import MOOD, FakeEncoder
from replay_server import Model, first_word, forget_endpoints, serving
from teaching_corpus import CORPUS, EXAMPLES
from test_api_connections import until

from retriever.encoders.answers.patience import Pace
from retriever.index.sources import taught
from retriever.workspace import Index

WHO = "Which thing is it about?"
TEXTS = [f"a {word} {row}" for row in range(10) for word in ("kettle", "toy", "lamp")]


class SlowModel(Model):
    """A model that answers nothing while ``go`` is not set; ``began`` says that it was asked."""

    def __init__(self, **options):
        super().__init__(answer=self.patiently, **options)
        self.began, self.go = threading.Event(), threading.Event()
        self.go.set()

    def patiently(self, text, question):
        self.began.set()
        assert self.go.wait(WAIT)
        return first_word(text, question)


@pytest.fixture
def model(make, indexes, monkeypatch):
    """A language model that serves a question of an index, and reads nothing before ``go`` is set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = SlowModel()
    with serving(model) as url:
        with Index(make(texts=TEXTS), encoder=FakeEncoder("any")) as index:
            index.teaching.read_by(WHO, f"chat:{url}#stand-in")
        model.requests.clear()
        model.began.clear()
        model.go.clear()
        yield model
        model.go.set()


def search(server, query="mug", index="reviews", instruction=WHO, **options):
    body = {"query": query, "instruction": instruction, **options}
    response = server.post(f"/indexes/{index}/search", body, token=WRITER, params={"wait": WAIT / 2})
    assert response.status_code == 200, response.text
    return response.json()


def cluster(server, wait=WAIT / 2):
    body = {"instruction": WHO, "k": 3, "read": "all"}
    return server.post("/indexes/reviews/cluster", body, token=WRITER, params={"wait": wait}).json()


def sent(model):
    """Every text that the model was sent, as often as it was."""
    return sorted(text for call in model.calls for text in call)


def forms(requests):
    """The forms that replies were asked for in."""
    return {request.get("response_format", {}).get("type") for request in requests}


def test_no_text_is_paid_twice_by_searches_clusters_and_other_servers_at_one_time(model, serve):
    servers = [serve(tokens=TOKENS), serve(tokens=TOKENS)]
    with ThreadPoolExecutor(6) as threads:
        found = [threads.submit(search, server) for server in servers * 2]
        grouped = [threads.submit(cluster, server) for server in servers]
        until(lambda: all(server.service.readings.unfinished() for server in servers))
        until(lambda: all(server.service.running_jobs() for server in servers))
        assert model.began.wait(WAIT)
        model.go.set()
        ids = [[hit["id"] for hit in each.result()["hits"]] for each in found]
        sampled = [each.result()["result"]["sampled"]["read"] for each in grouped]
    assert ids == [ids[0]] * 4
    assert sampled == [30, 30]
    assert sent(model) == sorted(TEXTS)


def test_answers_documents_and_edits_are_taken_while_a_language_model_reads(model, serve):
    server = serve(tokens=TOKENS)
    with ThreadPoolExecutor(2) as threads:
        reading = [threads.submit(cluster, server), threads.submit(search, server)]
        assert model.began.wait(WAIT)
        headers, wait = {"Authorization": f"Bearer {WRITER}"}, {"wait": WAIT / 2}
        answers = {"instruction": WHO, "answers": {"r1": "a kettle of mine"}}
        put = server.http.put("/indexes/reviews/answers", json=answers, headers=headers)
        assert put.status_code == 200, put.text
        added = {"documents": [{"id": "new", "text": "a mug"}]}
        assert server.post("/indexes/reviews/documents", added, token=WRITER, params=wait).json()["status"] == "done"
        gone = server.http.delete("/indexes/reviews/documents", params={"id": "r2", **wait}, headers=headers)
        assert gone.json()["result"]["deleted"] == ["r2"]
        assert not any(each.done() for each in reading)
        model.go.set()
        clusters, hits = (each.result() for each in reading)
    assert clusters["status"] == "done", clusters
    assert hits["reader_fault"] is None
    shown = server.get("/indexes/reviews/answers", token=WRITER, params={"instruction": WHO}).json()["answers"]
    assert shown["r1"] == "a kettle of mine"
    assert "r2" not in shown


def test_clusters_are_edited_while_a_language_model_reads(model, serve, indexes):
    with Index(indexes / "reviews", encoder=FakeEncoder("any")) as index:
        index.clusterings.save("things", index.cluster(k=3))
    server = serve(tokens=TOKENS)
    assert cluster(server, wait=0)["status"] == "running"
    assert model.began.wait(WAIT)
    path, wait = "/indexes/reviews/clusterings/things/edits", {"wait": WAIT / 2}
    edited = server.post(path, {"rename": {"1": "Kettles"}}, token=WRITER, params=wait).json()
    assert "Kettles" in [one["label"] for one in edited["result"]["clusters"]]
    assert server.service.running_jobs() == 1
    model.go.set()


def test_requests_share_what_an_endpoint_was_found_to_understand_and_its_tokens_a_minute(model, serve, monkeypatch):
    model.go.set()
    model.refuses = {"json_schema"}
    forget_endpoints()
    paces, wait = [], Pace.wait

    async def noted(self, tokens):
        paces.append(self)
        await wait(self, tokens)

    monkeypatch.setattr(Pace, "wait", noted)
    server = serve(tokens=TOKENS)
    search(server)
    before = len(model.requests)
    assert "json_schema" in forms(model.requests)
    (reader,) = server.service.index("reviews").teaching.readers()
    for question in ("Which place is it about?", "Which person is it about?"):
        search(server, instruction=question, reader=reader)
    assert forms(model.requests[before:]) == {"json_object"}
    assert len(paces) >= len(model.requests)
    assert set(map(id, paces)) == {id(paces[0])}


def test_what_a_question_was_taught_is_read_once_for_all_requests(serve, indexes, encoder, monkeypatch):
    with Index(indexes / "moods", encoder=FakeEncoder("any")) as index:
        index.add(CORPUS, instructions=[MOOD])
        index.teaching.teach(MOOD, EXAMPLES)
    heads, made = [], taught.from_stored
    monkeypatch.setattr(taught, "from_stored", lambda *given: heads.append(made(*given)) or heads[-1])
    server = serve(tokens=TOKENS)
    for query in ("love", "hate", "calm"):
        search(server, query, "moods", MOOD)
    assert len(heads) == 1
