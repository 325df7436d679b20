"""Texts of an index go to no host that the user of the server did not allow, whatever clients ask."""

import pytest
from api_fakes import TOKENS, WAIT, WRITER, refused
from index_fakes import MOOD, PRODUCT, FakeEncoder
from replay_server import Model, serving
from test_api_errors import ARGUMENTS, answers, tool_answers

from retriever.api.problems import FAULT
from retriever.encoders.answers import places
from retriever.workspace import Index

TEXTS = [f"a {word} I {mood}" for word in ("kettle", "toy", "lamp", "knife") for mood in ("love", "hate", "calm")]
ADDED = {"documents": [{"id": "new", "text": "a mug I love"}], "instructions": [MOOD]}


@pytest.fixture
def be(monkeypatch, tmp_path):
    """Be a user of this machine."""

    def user(name):
        monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / name))

    user("server")
    return user


@pytest.fixture
def model(make, be, monkeypatch):
    """A language model that serves a question of an index, at this machine; it has read nothing yet."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("RETRIEVER_ALLOW_HTTP", "1")
    model = Model()
    with serving(model) as url:
        with Index(make(texts=TEXTS), encoder=FakeEncoder("any")) as index:
            index.clusterings.save("wishes", index.cluster(PRODUCT, k=3))
            index.teaching.read_by(MOOD, f"chat:{url}#stand-in")
        model.requests.clear()
        model.host = url.split("/")[2]
        model.name = f"chat:{url}#stand-in"
        yield model


def under_the_question(reader):
    """Change the body of a request so that it is under the question, and names a reader where it can."""

    def change(body):
        if body is None or "input" in body:
            return body
        changed = {**body, "instruction": MOOD} if "query" in body or "instruction" in body else body
        if "instructions" in changed or "documents" in changed:
            changed = {key: value for key, value in changed.items() if key != "instruction"} | {
                "instructions": [MOOD, PRODUCT]
            }
        asks = "answers" not in changed and "documents" not in changed
        return {**changed, "reader": reader} if asks else changed

    return change


def ask_everything(server, reader):
    """Ask every address and every tool under the question, with and without the reader's name; return the answers."""
    answered = [answer.text for answer in answers(server, under_the_question(None))]
    answered += [answer.text for answer in answers(server, under_the_question(reader))]
    for arguments in (ARGUMENTS, {**ARGUMENTS, "reader": reader}):
        answered += tool_answers(server, arguments)[0]
    return answered


def test_no_address_and_no_tool_sends_texts_to_a_host_that_was_not_allowed(serve, model, be, indexes, monkeypatch):
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    be("operator")
    with Index(indexes / "reviews", encoder=FakeEncoder("any")) as index:
        index.teaching.allow(model.host)
    be("server")
    server = serve(tokens=TOKENS)
    found = " ".join(ask_everything(server, model.name))
    with Index(indexes / "reviews", encoder=FakeEncoder("any")) as index:
        index.teaching.give_answers(MOOD, {"r1": "love", "r2": "hate", "r3": "calm"}, author="program")
    found += " ".join(ask_everything(server, model.name))  # clusters are made of what is answered
    assert model.requests == []
    assert '"host_not_allowed"' in found
    assert f'"fault":"{FAULT}"' in found
    assert f'"reader_fault":"Texts of this index would be sent to {model.host}.' in found
    assert "--yes" not in found
    be("operator")
    ask_everything(server, model.name)
    assert model.requests  # allowed, the same requests send texts


def test_naming_a_reader_at_such_a_host_is_refused_and_changes_nothing(serve, model, monkeypatch):
    server = serve(tokens=TOKENS)
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    body = {"query": "mug", "instruction": "Another question?", "reader": model.name}
    says = (f"would be sent to {model.host}", "No client can allow that host")
    for options in ({}, {"stream": True}):
        response = server.post("/indexes/reviews/search", {**body, **options}, token=WRITER)
        assert refused(response, 403, "host_not_allowed", *says)
    assert server.service.index("reviews").teaching.reader("Another question?") == ""
    assert model.requests == []


def test_documents_that_are_added_to_an_index_with_a_served_question_are_sent_to_nobody(serve, model):
    server = serve(tokens=TOKENS)
    job = server.post("/indexes/reviews/documents", ADDED, token=WRITER, params={"wait": WAIT}).json()
    assert job["status"] == "done", job
    assert "is answered in words" in str(job["result"]["notes"])
    assert "new" in server.service.index("reviews").get(["new"])
    assert model.requests == []
