"""How much of an index clients can have language models read at a server: no more than `settings.toml` says."""

from datetime import UTC, datetime, timedelta

import pytest
from api_fakes import READER, TOKENS, WAIT
from index_fakes import PRODUCT, FakeEncoder
from replay_server import Model, serving
from test_api_mcp import answer

from retriever.api.problems import FAULT
from retriever.api.settings import READING
from retriever.core.errors import InputError
from retriever.index.asking.limits import ReadingLimits, read_limits
from retriever.store import asking
from retriever.workspace import Index

WHO = "Which thing is it about?"
TEXTS = [f"a {word} {row}" for row in range(10) for word in ("kettle", "toy", "lamp")]
SAYS = "A limit is reached"


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def reading(make, serve, indexes, model, monkeypatch):
    """Serve two indexes of 30 texts whose question a language model answers, under settings."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(model) as url:
        for name in ("reviews", "others"):
            make(name, TEXTS)
            with Index(indexes / name, encoder=FakeEncoder("any")) as index:
                index.teaching.read_by(WHO, f"chat:{url}#stand-in")
                index.clusterings.save("products", index.cluster(PRODUCT, k=3))

        def begin(settings):
            (indexes / "settings.toml").write_text(settings)
            model.requests.clear()
            return serve(tokens=TOKENS)

        yield begin


def read(model):
    """Count the texts that the model was asked about."""
    return len({text for call in model.calls for text in call})


def search(server, query, index="reviews", **options):
    body = {"query": query, "instruction": WHO, **options}
    response = server.post(f"/indexes/{index}/search", body, token=READER, params={"wait": WAIT})
    assert response.status_code == 200, response.text
    return response if options.get("stream") else response.json()


def search_all(server, index="reviews"):
    return [search(server, query, index) for query in ("toy", "lamp", "kettle", "a blue toy", "a red lamp")]


def cluster(server, **options):
    body = {"instruction": WHO, "k": 3, **options}
    response = server.post("/indexes/reviews/cluster", body, token=READER, params={"wait": WAIT})
    assert response.status_code == 200, response.text
    return response.json()["result"]["sampled"]


def answered(server):
    return server.get("/indexes/reviews/answers", token=READER, params={"instruction": WHO}).json()["answers"]


def test_of_a_question_no_more_texts_are_read_altogether_whatever_is_asked_and_after_a_restart(reading, model):
    server = reading("[reading]\nmax_texts = 25\n")
    last = search_all(server)[-1]
    assert read(model) == len(answered(server)) == 25
    assert len(last["hits"]) == 10
    assert SAYS in last["reader_fault"]
    assert not [word for word in ("settings.toml", "--max") if word in last["reader_fault"]]
    sampled = cluster(server, read="all")
    assert (sampled["read"], sampled["texts"]) == (25, 30)
    assert SAYS in answer(server, "search", token=READER, query="mug", instruction=WHO, index="reviews")["reader_fault"]
    again = reading("[reading]\nmax_texts = 25\n")
    search_all(again)
    assert read(model) == 0


def test_a_request_sends_no_more_tokens_than_its_limit_and_the_next_goes_on(reading, model):
    assert SAYS in search(reading("[reading]\nmax_tokens = 10\n"), "toy")["reader_fault"]
    assert model.requests == []
    server = reading("[reading]\nmax_tokens = 600\n")
    first = search(server, "mug")
    before = read(model)
    assert 0 < before < 20
    assert SAYS in first["reader_fault"]
    search(server, "pan")
    assert before < read(model) == len(answered(server))


def test_a_search_that_a_limit_ended_goes_on_when_the_limit_is_raised(reading, model):
    assert SAYS in search(reading("[reading]\nmax_texts = 25\n"), "mug")["reader_fault"]
    found = search(reading(""), "mug")
    assert (read(model), found["reader_fault"]) == (5, None)


def test_an_index_has_a_day_that_a_restart_does_not_begin_anew(reading, model, monkeypatch):
    server = reading("[day]\nmax_texts = 25\n")
    assert SAYS in search_all(server)[-1]["reader_fault"]
    assert read(model) == 25
    again = reading("[day]\nmax_texts = 25\n")
    events = search(again, "toy in red", stream=True).text
    assert "event: settled" in events
    assert SAYS in events
    search_all(again)
    assert cluster(again, read="all")["read"] == 25
    assert read(model) == 0
    search_all(again, "others")
    assert read(model) == 25
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    monkeypatch.setattr(asking, "utc_now", lambda: tomorrow)
    assert cluster(again, read="all")["read"] == 30


def test_a_request_whose_minutes_are_over_reads_no_further(reading, model):
    found = search(reading("[reading]\nminutes = 0\n"), "toy")
    assert SAYS in found["reader_fault"]
    assert read(model) < 20


def test_beyond_a_limit_groups_are_made_without_the_model(reading, model):
    cluster(reading(""), read="all")
    server = reading("[day]\nmax_texts = 0\n")
    body = {"instruction": WHO, "k": 2}
    found = server.post("/indexes/reviews/cluster", body, token=READER, params={"wait": WAIT}).json()["result"]
    assert (found["made"], found["fault"]) == ("similar answers", FAULT)
    assert found["caution"].endswith(f"The language model wrote no categories: {FAULT}")
    agents = answer(server, "cluster", token=READER, instruction=WHO, index="reviews", k=2)
    assert FAULT in agents["caution"]
    assert model.requests == []


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ("", READING),
        ("[reading]\nmax_texts = 7\n", ReadingLimits(7, READING.tokens, None, READING.day_texts, READING.day_tokens)),
    ],
)
def test_what_settings_leave_out_is_limited_all_the_same(make, serve, indexes, settings, limits):
    make()
    (indexes / "settings.toml").write_text(settings)
    assert serve().service.index("reviews")._opened.budget.limits == limits


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("[reading", "is no TOML"),
        ("[reding]\n", "'reding' is no setting"),
        ("reading = 300\n", "reading is no table"),
        ("[reading]\nmax_text = 300\n", "'max_text' is no setting"),
        ("[day]\nminutes = 3\n", "'minutes' is no setting"),
        ('[reading]\nmax_texts = "300"\n', "max_texts is '300'"),
        ("[reading]\nmax_texts = true\n", "max_texts is True"),
        ("[reading]\nmax_tokens = 1.5\n", "max_tokens is 1.5"),
        ("[reading]\nminutes = nan\n", "minutes is nan"),
        ("[day]\nmax_texts = -1\n", "max_texts is -1"),
    ],
)
def test_settings_that_are_none_are_an_error_that_names_the_file(tmp_path, settings, says):
    (tmp_path / "settings.toml").write_text(settings)
    with pytest.raises(InputError, match=says) as refusal:
        read_limits(tmp_path)
    assert str(tmp_path / "settings.toml") in str(refusal.value)
