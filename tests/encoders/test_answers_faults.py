"""The outcome of 180 texts where every twelfth reply is odd, and of replies in shapes that endpoints send."""

import json

import pytest
from model_server import Refusal
from replay_server import Model, completion, serving

from retriever.encoders.answers import patience
from retriever.encoders.answers.answerer import Waiting
from retriever.encoders.answers.chat import ChatAnswerer
from retriever.encoders.answers.endpoint import Abilities

WORDS = ["kettle", "lamp", "knife", "toy", "dog"]
TEXTS = [f"{WORDS[n % 5]} number {n}" for n in range(180)]
RIGHT = [WORDS[n % 5] for n in range(180)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let calls wait for a moment alone."""
    monkeypatch.setattr(patience, "BACKOFF", (0.001, 0.01))


def content(change):
    """Make a fault of a function over the content of a reply."""

    def fault(made, request):
        return completion(change(made["choices"][0]["message"]["content"]))

    return fault


def of_items(change):
    return content(lambda said: json.dumps({"answers": change(json.loads(said)["answers"])}))


def instead(made):
    return lambda good, request: made


def error(code, message="Provider returned error"):
    return instead({"id": "x", "error": {"message": message, "code": code}})


ODD = {
    "no JSON in the body": instead(b'{"id": "c", "choices": [{"ind'),
    "a page": instead(b"<!DOCTYPE html><html><body>Just a moment</body></html>"),
    "an error in status 200": error(502),
    "an error in status 200 without a code": error(None),
    "an error in a choice": instead({"choices": [{"finish_reason": "error", "error": {"message": "x", "code": 503}}]}),
    "an empty list of choices": instead({"id": "c", "choices": []}),
    "400": Refusal(400, "The input could not be processed"),
    "400 of a filter": Refusal(400, "The response was filtered", code="content_filter"),
    "403": Refusal(403, "Request blocked"),
    "422": Refusal(422, "Unprocessable"),
    "500": Refusal(500, "Internal error"),
    "502 page": Refusal(502),
    "an id twice": of_items(lambda items: [*items, items[0]]),
    "an invented id": of_items(lambda items: [*items, {"id": "77", "answers": ["x"]}]),
    "ids from 0": of_items(lambda items: [{**item, "id": str(int(item["id"]) - 1)} for item in items]),
    "a text left out": of_items(lambda items: items[:-1]),
    "all texts but one left out": of_items(lambda items: items[:1]),
    "no answers": of_items(lambda items: [{**item, "answers": []} for item in items[:1]] + items[1:]),
    "broken JSON": content(lambda said: said[:-9]),
    "prose": content(lambda said: "I am happy to help with that."),
    "empty": content(lambda said: ""),
    "nothing": content(lambda said: None),
    "cut": instead(completion('{"answers": [{"id": "1", "ans', finish="length")),
    "refused": instead(completion(None, refusal="I cannot help with that.")),
    "filtered": instead(completion("", finish="content_filter")),
}


@pytest.mark.parametrize("fault", ODD.values(), ids=ODD)
def test_where_every_twelfth_reply_is_odd_all_texts_are_answered_by_twice_as_many_calls_at_most(fault):
    model = Model(every=(12, fault))
    with serving(model) as url:
        answered = ChatAnswerer(f"chat:{url}#m").answer(TEXTS, "what?")
    assert answered.answers == RIGHT
    assert answered.failures == {}
    assert 30 < len(model.requests) <= 60  # in whatever order calls come, which decides whose halves are odd too


SHAPES = {
    "a closing tag alone": content(lambda said: f"They want {{answers}}.\n</think>\n{said}"),
    "harmony": content(
        lambda said: f"<|channel|>analysis<|message|>So.<|end|><|channel|>final<|message|>{said}<|return|>"
    ),
    "parts": content(lambda said: [{"type": "reasoning", "text": "{}"}, {"type": "text", "text": said}]),
    "a sentence before": content(lambda said: f"Here is the JSON: {said}"),
    "a fence between sentences": content(lambda said: f"Of course:\n```json\n{said}\n```\nAsk for more!"),
    "numbers as ids": of_items(lambda items: [{**item, "id": int(item["id"])} for item in items]),
    "one answer as a string": of_items(lambda items: [{**item, "answers": item["answers"][0]} for item in items]),
    "a bare list": content(lambda said: json.dumps(json.loads(said)["answers"])),
    "whole, but cut": lambda good, request: {**good, "choices": [{**good["choices"][0], "finish_reason": "length"}]},
    "no usage": lambda good, request: {**good, "usage": None},
    "a charset and no finish": lambda good, request: {"choices": [{"message": good["choices"][0]["message"]}]},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_right_reply_in_another_shape_is_read_at_once(shape):
    model = Model(always=shape)
    with serving(model) as url:
        reader = ChatAnswerer(f"chat:{url}#m")
        assert reader.answer(TEXTS[:10], "what?").answers == RIGHT[:10]
    assert reader.abilities == Abilities(settled=True)
    assert len(model.requests) == 2


STARTS = {
    "loading": (Refusal(503, "Loading model"), 8),
    "an overloaded router": (Refusal(529, "Overloaded"), 3),
    "a busy provider in status 200": (error(429), 2),
    "a busy provider in words": (instead({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}), 2),
    "an error in a choice": (instead({"choices": [{"error": {"message": "x", "code": 503}}]}), 2),
    "a gateway": (Refusal(504), 5),
}


@pytest.mark.parametrize(("first", "repeat"), STARTS.values(), ids=STARTS)
def test_what_passes_is_waited_for_told_and_says_nothing_of_the_form(monkeypatch, first, repeat):
    heard = []
    monkeypatch.setattr(Waiting, "on_wait", heard.append)
    model = Model()
    model.then.extend([first] * repeat)
    with serving(model) as url:
        reader = ChatAnswerer(f"chat:{url}#m")
        assert reader.answer(TEXTS[:5], "what?").answers == RIGHT[:5]
    assert reader.abilities == Abilities(settled=True)
    assert len(model.requests) == repeat + 1
    assert len(heard) == 1


@pytest.mark.parametrize(
    "said",
    [
        "System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Developer instruction is not enabled for models/tiny",
        "Only user and assistant roles are supported!",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_model_without_a_system_role_gets_its_instructions_from_the_user(status, said):
    def fault(made, request):
        return Refusal(status, said) if request["messages"][0]["role"] == "system" else made

    model = Model(always=fault)
    with serving(model) as url:
        reader = ChatAnswerer(f"chat:{url}#m")
        assert reader.answer(TEXTS[:10], "what?").answers == RIGHT[:10]
    assert reader.abilities == Abilities(settled=True, system=False)
    assert len(model.requests) == 3
