from dataclasses import dataclass, field

import pytest

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.call import send_twice
from retriever.encoders.answers.categories import CategoriesCall, PlacingCall
from retriever.encoders.answers.wire import Format, Reply

PLACES = '{"answers": [{"id": "1", "category": "kettle"}]}'
KETTLES = PlacingCall("q", [("kettle", "It boils."), ("lamp", "It shines.")], ["a"])
NO_NAME = "No id has the name of a category."


@dataclass
class Scripted:
    """Replies with one text after another."""

    replies: list
    calls: list = field(default_factory=list)
    spent: list = field(default_factory=list)

    def send(self, call, *, spend=None):
        self.calls.append(call)
        self.spent.append(spend)
        return call.check(Reply(self.replies.pop(0)), Format.SCHEMA)


def test_a_reply_that_is_taken_is_asked_for_once():
    answerer = Scripted([PLACES])
    checked, refused = send_twice(answerer, KETTLES, spend=print)
    assert (checked.places, refused) == ({0: 0}, "")
    assert answerer.spent == [print]


def test_a_refused_reply_is_asked_for_once_more_with_the_reason():
    answerer = Scripted([PLACES.replace("kettle", "boiler"), PLACES])
    checked, refused = send_twice(answerer, KETTLES)
    assert (checked.places, refused) == ({0: 0}, "")
    first, second = answerer.calls
    assert (first.last_fault, second.last_fault) == ("", NO_NAME)
    assert f"Your last reply was refused: {NO_NAME}" in second.messages(Format.SCHEMA)[0]["content"]
    assert answerer.replies == []


@pytest.mark.parametrize(
    ("call", "reply", "reason"),
    [
        (KETTLES, "no object", Unread.BROKEN.sentence),
        (KETTLES, PLACES.replace('"1"', '"7"'), NO_NAME),
        (CategoriesCall("q", ["a", "b"], [1, 1]), "", Unread.EMPTY.sentence),
        (
            CategoriesCall("q", ["a", "b"], [1, 1]),
            '{"categories": []}',
            "Ids 1, 2 are missing.",
        ),
    ],
)
def test_a_reply_that_is_refused_twice_gives_the_reason(call, reply, reason):
    answerer = Scripted([reply, reply])
    assert send_twice(answerer, call)[1] == reason
    assert answerer.calls[1].last_fault == reason


@pytest.mark.parametrize("name", ["chat:qwen3:8b", "chat:https://h/v1#m"])
def test_a_language_model_is_no_encoder(tiny, name):
    with pytest.raises(UsageError, match="is a language model, which is no encoder") as raised:
        load_encoder(name)
    assert f"--reader {name}" in raised.value.hint
    with pytest.raises(UsageError, match="has no pooling 're-enc'"):
        load_encoder(f"inbedder:{tiny('llama')}", pooling="re-enc")
