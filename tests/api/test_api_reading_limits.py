"""What a token can have language models read at a server: no more than `settings.toml` says, and nothing is lost."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from api_fakes import READER, TOKENS, refused
from index_fakes import FakeEncoder
from replay_server import Model, serving
from test_api_mcp import answer, failed

from retriever.api.settings import DAY, REQUEST
from retriever.core.errors import InputError
from retriever.index.sources import limits
from retriever.workspace import Index

WHO = "Which thing is it about?"
TEXTS = [f"a {word} {row}" for row in range(10) for word in ("kettle", "toy", "lamp")]
KEPT = ("What was answered is kept", "settings.toml")


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def reading(make, serve, indexes, model, monkeypatch):
    """Serve an index of 30 texts whose question a language model answers, under settings."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    make(texts=TEXTS)
    with serving(model) as url:
        with Index(indexes / "reviews", encoder=FakeEncoder("any")) as index:
            index.teaching.read_by(WHO, f"chat:{url}#stand-in")

        def begin(settings):
            (indexes / "settings.toml").write_text(settings)
            model.requests.clear()
            return serve(tokens=TOKENS)

        yield begin


def read(model):
    """Count the texts that the model was asked about; a reply that looks odd has one asked again."""
    return len({text for call in model.calls for text in call})


def search(server, query, **options):
    body = {"query": query, "instruction": WHO, **options}
    return server.post("/indexes/reviews/search", body, token=READER)


def cluster(server, **options):
    body = {"instruction": WHO, "k": 3, **options}
    return server.post("/indexes/reviews/cluster?wait=60", body, token=READER)


def answered(server):
    return server.get("/indexes/reviews/answers", token=READER, params={"instruction": WHO}).json()["answers"]


def test_a_request_reads_no_more_than_its_limit_and_the_next_goes_on(reading, model):
    server = reading("[reading]\nmax_texts = 25\n")
    says = ("read 25 texts", "has sent 20 texts and wants 10 more", *KEPT)
    assert refused(search(server, "toy"), 403, "reading_limit", *says)
    assert read(model) == len(answered(server)) == 20
    assert search(server, "toy").status_code == 200
    assert read(model) == len(answered(server)) == 30


def test_what_is_known_to_pass_a_limit_is_refused_before_the_first_call(reading, model):
    server = reading("[reading]\nmax_texts = 29\n")
    assert refused(cluster(server, read="all"), 403, "reading_limit", "wants 30 more", *KEPT)
    assert read(model) == 0
    assert cluster(server, read=29).json()["result"]["sampled"]["read"] == 29


def test_all_requests_share_a_day_that_begins_anew_at_midnight(reading, model, monkeypatch):
    server = reading("[day]\nmax_texts = 25\n")
    says = ("language models 25 texts a day; 20 were sent today, and 10 more are wanted", "after midnight UTC", *KEPT)
    assert refused(search(server, "toy"), 403, "reading_limit", *says)
    assert failed(server, "search", *says, token=READER, query="lamp", instruction=WHO)
    events = search(server, "kettle", stream=True).text
    assert "event: first" in events
    assert '"reading_limit"' in events
    assert read(model) == len(answered(server)) == 20
    assert search(server, "toy", reader="default").status_code == 200
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    monkeypatch.setattr(limits, "datetime", SimpleNamespace(now=lambda zone: tomorrow))
    assert answer(server, "cluster", token=READER, instruction=WHO, k=3)["groups"]


def test_a_request_stops_when_its_minutes_are_over(reading, model):
    model.seconds = 0.05
    server = reading("[reading]\nminutes = 0.0001\n")
    assert refused(search(server, "toy"), 403, "reading_limit", "0.0001 minutes", *KEPT)
    assert 0 < len(answered(server)) < 20


def test_tokens_are_limited_too_and_a_server_has_limits_without_a_file(reading, serve, model, indexes):
    assert refused(search(reading("[reading]\nmax_tokens = 10\n"), "toy"), 403, "reading_limit", "10 tokens", *KEPT)
    assert read(model) == 0
    (indexes / "settings.toml").unlink()
    service = serve().service
    assert (service._reading, service._day.limits) == (REQUEST, DAY)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("[reading", "cannot be read"),
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
    with pytest.raises(InputError, match=says) as refused:
        limits.read_budgets(tmp_path)
    assert str(tmp_path / "settings.toml") in str(refused.value)
