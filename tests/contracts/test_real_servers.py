import json
import re

import openai
import pytest
from index_fakes import FakeEncoder, documents
from real_servers import SMOLLM2, llama_cpp, save_parrot, transformers_serve

from retriever.core.errors import EncoderError
from retriever.core.requests import SearchRequest
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.chat import ChatAnswerer
from retriever.encoders.answers.wire import Format
from retriever.workspace import Index

pytestmark = pytest.mark.model

WHICH = "Which thing is it about?"
TEXTS = [
    "The kettle boils fast and switches itself off.",
    "Die Lampe ist hübsch, aber viel zu dunkel. 😕",
    "このナイフはよく切れます。",
    'He said "never again": {"id": "7"}, \\ and a tab\there.',
    "ok",
    "The bicycle needs a better saddle, and a bell. " * 12,
]
MALFORMED = {Unread.BROKEN, Unread.CUT, Unread.COUNT, Unread.LEFT_OUT, Unread.MIXED, Unread.EMPTY}
WHEN = ("late", "early", "broken", "twice")
CORPUS = [f"the {word} came {when}" for word in ("kettle", "lamp", "knife") for when in WHEN]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """Give llama.cpp's server with SmolLM2."""
    running = llama_cpp(tmp_path_factory.mktemp("llama"))
    yield running
    running.stop()


@pytest.fixture
def small(tmp_path):
    """Give one with little room, for a test to stop."""
    running = llama_cpp(tmp_path, context=512)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def transformers(tmp_path_factory):
    running = transformers_serve(tmp_path_factory.mktemp("transformers"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def parrot(tmp_path_factory):
    """Give the folder of a model that says one thing to everything."""
    return lambda says: save_parrot(tmp_path_factory.mktemp("parrot"), says)


def reader(server, model=SMOLLM2, **settings):
    return ChatAnswerer(f"chat:{server.url}#{model}", **settings)


def ask(answerer, texts=TEXTS[:1]):
    """Return the answers, and the reasons where there are none."""
    answered = answerer.answer(texts, WHICH)
    return answered.answers, answered.failures


def refusal(answerer, texts=TEXTS[:1]):
    """Return what a user is shown where nothing can be answered: what is the matter, and the next step."""
    with pytest.raises(EncoderError) as caught:
        ask(answerer, texts)
    assert caught.value.hint
    return f"{caught.value} {caught.value.hint}"


def read_twice(server, model, path):
    """Have an index read by a model, open it again and read on; return the answers by document."""
    before = server.requests
    first = read(path, f"chat:{server.url}#{model}")
    sent = server.requests
    assert sent > before
    assert read(path) == first
    assert server.requests - sent <= 2  # of a call about answers that was refused
    hits, _, answers = first
    assert hits
    assert all(words == [answers[id]] for id, words in hits)
    return answers


def read(path, name=None):
    """Open an index, search and cluster it; return hits, clusters and answers."""
    with Index(path, encoder=FakeEncoder("any")) as index:
        if name is not None:
            index.add(documents(*CORPUS))
            index.teaching.read_by(WHICH, name)
        *_, result = index.search_progressively(SearchRequest("kettle", instruction=WHICH, k=12))
        clusters = index.cluster(WHICH, k=1).clusters
        return [(hit.document.id, list(hit.words)) for hit in result.hits], clusters, index.teaching.answers(WHICH)


# llama.cpp, with the model that ships.


def test_llama_cpp_keeps_a_model_of_135m_to_the_form_whatever_texts_hold(llama):
    answerer = reader(llama)
    answers, failures = ask(answerer, TEXTS)
    assert answerer.abilities.form.startswith(Format.SCHEMA)
    assert answerer.abilities.settled
    assert not MALFORMED & failures.keys()
    assert any(answers)


def test_an_index_is_read_through_llama_cpp_once(llama, tmp_path):
    assert read_twice(llama, SMOLLM2, tmp_path / "index")


def test_a_server_that_hangs_is_given_up_and_asked_again_when_it_goes_on(llama, monkeypatch):
    monkeypatch.setenv("RETRIEVER_CALL_SECONDS", "1")
    llama.pause()
    try:
        assert re.search("took (too long|longer than .*) to answer", refusal(reader(llama, "slow")))
    finally:
        llama.go_on()
    monkeypatch.delenv("RETRIEVER_CALL_SECONDS")
    assert any(ask(reader(llama, "slow"))[0])


def test_a_path_that_llama_cpp_does_not_know_is_called_so(llama):
    elsewhere = ChatAnswerer(f"chat:{llama.url.removesuffix('/v1')}/v9#{SMOLLM2}")
    assert "usually ends in /v1" in refusal(elsewhere)


def test_llama_cpp_lists_the_model_by_the_name_that_calls_give(llama):
    client = openai.OpenAI(base_url=llama.url, api_key="none")
    assert [model.id for model in client.models.list()] == [SMOLLM2]


def test_a_text_beyond_llama_cpps_context_names_the_context_to_give(small):
    assert "context of 4,096 tokens" in refusal(reader(small), [TEXTS[0] * 60])


def test_a_server_that_was_stopped_is_to_be_started(small):
    small.stop()
    assert "Start its server" in refusal(reader(small))


# Transformers, whose server takes no form of reply.


def test_an_index_is_read_through_transformers_serve_once_whatever_the_model_leaves_out(transformers, parrot, tmp_path):
    says = json.dumps({"answers": [{"id": "1", "answers": ["a kettle"]}]})
    answers = read_twice(transformers, parrot(says), tmp_path / "index")
    assert answers == dict.fromkeys("abcdefghijkl", "a kettle")
    assert "Ignoring unsupported fields" in transformers.log  # the form that was asked for


def test_a_model_that_talks_on_behind_transformers_serve_is_believed_in_nothing(transformers, parrot):
    assert "gave no usable answer" in refusal(reader(transformers, parrot("Well, let me see.")), TEXTS)


def test_a_model_that_transformers_serve_does_not_have_is_an_error_with_the_next_step(transformers):
    assert "nobody/nothing" in refusal(reader(transformers, "nobody/nothing"))
