from dataclasses import dataclass, field

import pytest

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.call import send_twice
from retriever.encoders.answers.categories import CategoriesCall
from retriever.encoders.answers.titles import Fault, TitleCall
from retriever.encoders.answers.wire import Format, Reply

GOOD = '{"title": "Broken kettles", "description": "They are about kettles.", "ids": ["1"]}'


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
    answerer = Scripted([GOOD])
    checked, refused = send_twice(answerer, TitleCall("q", ["a"], ["b"]), spend=print)
    assert (checked.title.title, refused) == ("Broken kettles", "")
    assert answerer.spent == [print]


def test_a_refused_reply_is_asked_for_once_more_with_the_reason():
    answerer = Scripted([GOOD.replace("Broken kettles", "Kettles"), GOOD])
    checked, refused = send_twice(answerer, TitleCall("q", ["a"], ["b"]))
    assert (checked.title.title, refused) == ("Broken kettles", "")
    first, second = answerer.calls
    assert (first.last_fault, second.last_fault, second.others) == ("", Fault.TITLE, ())
    assert "Your last reply was refused: length of the title." in second.messages(Format.SCHEMA)[0]["content"]
    assert answerer.replies == []


@pytest.mark.parametrize(
    ("call", "reply", "reason"),
    [
        (TitleCall("q", ["a"]), "no title", Unread.BROKEN),
        (TitleCall("q", ["a"]), GOOD.replace('"1"', '"7"'), Unread.MIXED),
        (CategoriesCall("q", ["a", "b"]), "", Unread.EMPTY.sentence),
        (CategoriesCall("q", ["a", "b"]), '{"categories": []}', "There are 0 categories, and 2 to 12 are wanted."),
    ],
)
def test_a_reply_that_is_refused_twice_gives_the_reason(call, reply, reason):
    answerer = Scripted([reply, reply])
    assert send_twice(answerer, call)[1] == reason
    assert answerer.calls[1].last_fault == reason


def test_the_caller_can_refuse_what_the_check_takes():
    answerer = Scripted([GOOD, GOOD])
    _, refused = send_twice(
        answerer, TitleCall("q", ["a"], ["b"]), lambda call, checked: Fault.OTHERS if call.others else ""
    )
    assert (refused, len(answerer.calls)) == ("", 2)
    answerer = Scripted([GOOD, GOOD])
    assert send_twice(answerer, TitleCall("q", ["a"]), lambda call, checked: Fault.TAKEN)[1] is Fault.TAKEN


@pytest.mark.parametrize("name", ["chat:qwen3:8b", "chat:https://h/v1#m"])
def test_a_language_model_is_no_encoder(tiny, name):
    with pytest.raises(UsageError, match="is a language model, which is no encoder") as raised:
        load_encoder(name)
    assert f"--reader {name}" in raised.value.hint
    with pytest.raises(UsageError, match="has no pooling 're-enc'"):
        load_encoder(f"inbedder:{tiny('llama')}", pooling="re-enc")
