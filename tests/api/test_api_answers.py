"""Answers to a question over HTTP and MCP: handed in by who may write, shown to who may read."""

import re

import anyio
import pytest
from answer_fakes import NAME, FakeReader
from api_fakes import READER, TOKENS, WRITER, refused
from index_fakes import MOOD, PRODUCT, FakeEncoder
from test_api_mcp import answer, asked, client_of, failed

from retriever.api.mcp.answers import MOST_TEXTS, TEXT_CHARACTERS
from retriever.api.mcp.server import TOOLS, WRITING_TOOLS
from retriever.api.problems import FAULT
from retriever.core.errors import EncoderError
from retriever.core.types import Document
from retriever.encoders.answers import loading
from retriever.workspace import Index

WHO = "Who uses it?"
WRITING = [tool.__name__ for tool in WRITING_TOOLS]
ANSWERS = "/indexes/reviews/answers"
TEXTS = [f"a {word} {row}" for row in range(10) for word in ("kettle", "toy", "lamp")]


@pytest.fixture
def server(make, serve):
    make(texts=TEXTS)
    return serve(tokens=TOKENS)


def put(server, answers, instruction=WHO, token=WRITER, index="reviews"):
    body = {"instruction": instruction, "answers": answers}
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return server.http.put(f"/indexes/{index}/answers", json=body, headers=headers)


def get(server, instruction=WHO):
    response = server.get(ANSWERS, token=READER, params={"instruction": instruction})
    assert response.status_code == 200, response.text
    return response.json()


def search(server, query="a child", token=READER, **options):
    body = {"query": query, "instruction": WHO, **options}
    return server.post("/indexes/reviews/search", body, token=token)


def tools_of(server, token):
    async def listed():
        async with client_of(server, token) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}, client.instructions

    return anyio.run(listed)


def test_answers_that_are_put_are_shown_and_searches_go_by_them(server):
    assert get(server) == {"instruction": WHO, "reader": "", "answers": {}}
    given = put(server, {"r1": "a  child", "r2": "a cook", "r3": None})
    assert given.json() == {"instruction": WHO, "reader": "given", "answers": 2, "texts": 30, "vectors": 0}
    assert get(server) == {"instruction": WHO, "reader": "given", "answers": {"r1": "a child", "r2": "a cook"}}
    words = {hit["id"]: hit["words"] for hit in search(server, k=30).json()["hits"]}
    assert (words["r1"], words["r2"], words["r3"]) == (["a child"], ["a cook"], [])
    assert put(server, {"r1": None, "r2": "nobody"}).json()["answers"] == 1
    assert get(server)["answers"] == {"r2": "nobody"}


@pytest.mark.parametrize(
    ("answers", "instruction", "says"),
    [
        ({"r1": "x", "none": "x"}, WHO, "There is no document 'none'"),
        ({"r1": " "}, WHO, "is blank"),
        ({"r1": "word " * 13}, WHO, "has 13 words"),
        ({"r1": 5}, WHO, "answers.r1"),
        ({}, WHO, "names 0 documents"),
        (dict.fromkeys(map(str, range(1001)), "x"), WHO, "names 1001 documents"),
        ({"r1": "x"}, "  ", "A reader needs an instruction"),
        ({"r1": "x"}, "", "instruction"),
        ({"r1": "x"}, "w" * 2001, "instruction has 2001 characters"),
    ],
)
def test_answers_that_cannot_be_taken_are_refused_whole(server, answers, instruction, says):
    assert refused(put(server, answers, instruction), 400, "invalid_request", says)
    assert get(server)["answers"] == {}


def test_who_may_only_read_hands_nothing_in(server, serve):
    assert refused(put(server, {"r1": "x"}, token=READER), 403, "forbidden", "may read and not write")
    assert refused(put(server, {"r1": "x"}, token=None), 401, "unauthorized")
    assert refused(put(server, {"r1": "x"}, index="gone"), 404, "index_not_found")
    assert refused(put(serve(), {"r1": "x"}, token=None), 403, "forbidden", "no writer's token")
    assert get(server)["answers"] == {}
    assert server.get(ANSWERS, params={"instruction": WHO}).status_code == 401
    assert refused(server.get(ANSWERS, token=READER), 400, "invalid_request", "instruction")


def test_only_who_may_write_sees_and_calls_the_tools_that_take_answers(server, serve):
    reading, about = tools_of(server, READER)
    assert list(reading) == [tool.__name__ for tool in TOOLS]
    assert "give_answers" not in about
    writing, about = tools_of(server, WRITER)
    assert list(writing) == [*reading, *WRITING]
    assert "give_answers" in about
    hints = {name: writing[name].annotations for name in WRITING}
    assert hints["texts_to_answer"].read_only_hint
    assert not hints["give_answers"].read_only_hint
    assert hints["give_answers"].destructive_hint
    for name in WRITING:
        assert re.search(r"instruction\s+(to you|that a text says)", writing[name].description)
        assert '"not said"' in writing[name].description
        assert all(one.get("description") for one in writing[name].input_schema["properties"].values())
    for token, where in ((READER, server), (None, serve())):
        result = asked(where, "give_answers", token, instruction=WHO, answers={"r1": "x"})
        assert result.is_error
        assert "Unknown tool" in result.content[0].text
    assert get(server)["answers"] == {}


def test_an_agent_reads_for_an_index_until_everything_is_answered(server, encoder):
    read = {}
    for _ in range(3):
        found = answer(server, "texts_to_answer", token=WRITER, instruction=WHO, n=12)
        assert (found["answers"], found["texts"]) == (len(read), 30)
        phrases = {one["id"]: f"who has {one['text'].split()[1]}" for one in found["texts_to_answer"]}
        stored = answer(server, "give_answers", token=WRITER, instruction=WHO, answers=phrases)
        read |= phrases
        assert (stored["answers"], stored["reader"]) == (len(read), "given")
    assert get(server)["answers"] == read
    assert len(read) == 30
    assert answer(server, "texts_to_answer", token=WRITER, instruction=WHO)["texts_to_answer"] == []
    assert encoder.read == []
    groups = answer(server, "cluster", token=READER, instruction=WHO, k=3)["groups"]
    assert [group["size"] for group in groups] == [10, 10, 10]


def test_filters_over_answers_hold_over_http_and_for_agents(server):
    asked = {"instruction": WHO, "where": "answer = 'a cook'"}
    assert refused(search(server, **asked), 400, "invalid_request", "Nobody answers 'Who uses it?' in words.")
    put(server, {"r1": "A cook", "r4": "a cook", "r2": "a child"})
    found = search(server, **asked).json()
    assert sorted(hit["id"] for hit in found["hits"]) == ["r1", "r4"]
    assert found["known_answers"] == {"answers": 3, "texts": 30}
    job = server.post("/indexes/reviews/cluster", {**asked, "k": 1}, token=READER, params={"wait": 60}).json()
    assert (sorted(job["result"]["assignments"]), job["result"]["known_answers"]["answers"]) == (["r1", "r4"], 3)
    hits = answer(server, "search", token=READER, query="it", **asked)
    assert sorted(hit["id"] for hit in hits["hits"]) == ["r1", "r4"]
    assert hits["filter"] == "The filter uses the known answers of 3 of 30 texts."
    for more in ("r1", "r7"):
        put(server, {more: "a cook"})
        groups = answer(server, "cluster", token=READER, k=1, **asked)
        assert groups["filter"].startswith(f"The filter uses the known answers of {3 + (more == 'r7')} of 30")
    assert groups["documents"] == 3


def test_a_query_gives_its_best_texts_that_nobody_answered(server):
    for count in (4, 6):
        found = answer(server, "texts_to_answer", token=WRITER, instruction=WHO, n=count, query="toy")
        assert {one["text"].split()[1] for one in found["texts_to_answer"]} == {"toy"}
        phrases = dict.fromkeys((one["id"] for one in found["texts_to_answer"]), "a child")
        answer(server, "give_answers", token=WRITER, instruction=WHO, answers=phrases)
    (other,) = answer(server, "texts_to_answer", token=WRITER, instruction=WHO, n=1, query="toy")["texts_to_answer"]
    assert "toy" not in other["text"]


def test_what_is_handed_out_is_bounded(server, indexes, encoder, plain):
    with Index(indexes / "reviews", encoder=encoder) as index:
        index.add(Document(f"long{row}", f"pan {row} " + "x" * 6000) for row in range(20))
    found = answer(server, "texts_to_answer", token=WRITER, instruction=WHO, n=MOST_TEXTS, query="pan")
    texts = [one["text"] for one in found["texts_to_answer"]]
    assert len(texts[0]) == TEXT_CHARACTERS
    assert len(texts) < 20
    assert len(found["left_out"]) == 2
    assert failed(server, "texts_to_answer", "n", token=WRITER, instruction=WHO, n=MOST_TEXTS + 1)
    assert failed(server, "texts_to_answer", "A reader needs an instruction", token=WRITER, instruction=" ")


def test_an_agent_is_told_what_is_no_answer_and_takes_back_by_an_empty_phrase(server):
    def give(**answers):
        return {"token": WRITER, "instruction": WHO, "answers": answers}

    assert failed(server, "give_answers", "'r2' has 13 words", "at most 12 words", **give(r1="x", r2="word " * 13))
    assert failed(server, "give_answers", "no document 'r99'", **give(r99="x"))
    assert get(server)["answers"] == {}
    assert answer(server, "give_answers", **give(r1="a child", r2="a cook"))["answers"] == 2
    assert answer(server, "give_answers", **give(r1=""))["answers"] == 1
    assert get(server)["answers"] == {"r2": "a cook"}


@pytest.fixture
def reader(monkeypatch, server, indexes):
    """A language model that the index knows, in the place of one behind an endpoint; every name loads it."""
    fake, loaded = FakeReader(["kettle", "toy", "lamp"]), []
    fake.loaded = loaded
    monkeypatch.setattr(loading, "load_answerer", lambda name, fingerprint="": loaded.append(name) or fake)
    with Index(indexes / "reviews", encoder=FakeEncoder("any")) as index:
        index.teaching.read_by(MOOD, NAME)
    loaded.clear()
    return fake


def test_a_client_may_name_a_reader_that_the_index_knows(server, reader):
    assert search(server, reader=NAME).status_code == 200
    asked_by_search = len(reader.asked)
    assert asked_by_search > 0
    body = {"query": "kettle", "instructions": [WHO, "Another question?"], "reader": NAME}
    assert server.post("/indexes/reviews/compare", body, token=READER).status_code == 200
    assert len(reader.asked) > asked_by_search
    assert answer(server, "search", token=READER, query="toy", instruction="A third?", reader=NAME)["hits"]
    assert get(server)["reader"] == NAME
    assert search(server, reader="default").status_code == 200
    assert get(server) == {"instruction": WHO, "reader": "any", "answers": {}}
    assert search(server, reader="given").status_code == 200
    assert set(reader.loaded) == {NAME}


def test_groups_are_read_by_who_is_named(server, reader):
    groups = {"instruction": WHO, "k": 3, "reader": NAME, "read": 24}
    done = server.post("/indexes/reviews/cluster?wait=60", groups, token=READER).json()["result"]
    assert (done["sampled"]["reader"], done["sampled"]["read"], len(reader.asked)) == (NAME, 24, 24)
    both = {"instructions": [WHO, "A third?"], "reader": NAME, "read": 24, "k": 3}
    assert server.post("/indexes/reviews/compare/clusters?wait=60", both, token=READER).json()["status"] == "done"
    assert len(reader.asked) == 48
    one = answer(server, "cluster", token=READER, instruction="A fourth?", k=3, reader=NAME)
    assert {group["label"] for group in one["groups"]} == {"kettle", "toy", "lamp"}
    assert one["sampled"] == {"texts": 30, "read": 30, "drawn": 30, "fault": None}
    two = {"first": "A fifth?", "second": "A sixth?", "reader": NAME}
    assert answer(server, "compare", token=READER, **two)["moved"] == 0
    assert answer(server, "compare", token=READER, query="toy", **two)["documents"]
    assert set(reader.questions) == {WHO, "A third?", "A fourth?", "A fifth?", "A sixth?"}


def test_categories_are_read_as_far_as_is_said(server, reader):
    def cluster(**body):
        return server.post("/indexes/reviews/cluster?wait=60", {"instruction": WHO, **body}, token=READER)

    done = cluster(into=["kettle", "toy", "lamp"], reader=NAME, read=20).json()["result"]
    assert (done["made"], done["sampled"]["read"], len(reader.asked)) == ("names", 20, 20)
    assert get(server)["answers"] == {
        id: done["clusters"][number - 1]["label"] for id, number in done["assignments"].items()
    }
    assert refused(cluster(into=["a", "b"], read=0), 400, "invalid_request", "0 texts are to be read")


def test_why_a_language_model_wrote_no_categories_is_told_in_words_for_clients(server, reader, monkeypatch, caplog):
    asked = {"instruction": WHO, "k": 2, "reader": NAME}

    def away(call, *, spend=None):
        raise EncoderError("10.0.0.7:8000 cannot be reached.", hint="Start its server: `ollama serve`.")

    monkeypatch.setattr(reader, "send", away)
    found = server.post("/indexes/reviews/cluster?wait=60", asked, token=READER).json()["result"]
    assert (found["made"], found["fault"]) == ("similar answers", FAULT)
    agents = answer(server, "cluster", token=READER, **asked)
    for told in (str(found), str(agents)):
        assert FAULT in told
        assert not [word for word in ("10.0.0.7", "ollama") if word in told]
    assert "10.0.0.7:8000" in caplog.text


@pytest.mark.parametrize("named", ["chat:https://collector.example/v1#model", "chat:gpt", "inbedder:model"])
def test_no_client_can_name_an_address_that_texts_go_to(server, reader, named):
    says = (f"reviews has no reader {named!r}", f"default, given, {NAME}")
    assert refused(search(server, reader=named), 400, "invalid_request", *says)
    assert refused(search(server, token=WRITER, reader=named), 400, "invalid_request", *says)
    assert refused(search(server, reader=named, stream=True), 400, "invalid_request", *says)
    body = {"query": "kettle", "instructions": [WHO, MOOD], "reader": named}
    assert refused(server.post("/indexes/reviews/compare", body, token=READER), 400, "invalid_request", *says)
    for into in ([], ["a", "b"]):
        body = {"instruction": WHO, "reader": named, "into": into}
        response = server.post("/indexes/reviews/cluster?wait=60", body, token=READER)
        assert refused(response, 400, "invalid_request", *says)
    assert failed(server, "search", *says, token=WRITER, query="toy", instruction=WHO, reader=named)
    assert failed(server, "compare", *says, token=WRITER, first=WHO, second=MOOD, reader=named)
    assert (reader.loaded, reader.asked) == ([], [])


def test_a_search_whose_reader_is_away_goes_by_stored_answers_and_says_so_in_words_for_clients(server, reader, caplog):
    put(server, {"r1": "a child"}, MOOD)
    reader.error = EncoderError("10.0.0.7:8000 cannot be reached.", hint="Start its server: `ollama serve`.")
    reader.error_at = TEXTS[1]
    found = search(server, instruction=MOOD, k=30).json()
    assert {hit["id"]: hit["words"] for hit in found["hits"]}["r1"] == ["a child"]
    assert found["reader_fault"].startswith("The model cannot be loaded, or cannot do this.")
    assert "10.0.0.7:8000" in caplog.text
    both = {"query": "mug", "instructions": [MOOD, PRODUCT]}
    faults = server.post("/indexes/reviews/compare", both, token=READER).json()["reader_faults"]
    assert faults == [found["reader_fault"], None]
    agents = answer(server, "compare", token=READER, first=MOOD, second=PRODUCT, query="pan")
    assert agents["reader_faults"] == faults
