"""The readers of `ask`: answers that are known beforehand, given in this process or behind a real chat endpoint.

The endpoint is the tests' (tests/contracts/replay_server.py). Tokens are estimated as the product estimates them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from replay_server import Model, asked, serving

from retriever.core.unanswered import NOT_SAID, folded
from retriever.encoders.answers import loading
from retriever.encoders.answers.answerer import Answer, Answered, C, OnAnswers, Spend, Unread
from retriever.encoders.answers.call import Call
from retriever.encoders.answers.judging import Grade, JudgeCall
from retriever.encoders.answers.places import Place
from retriever.encoders.answers.wire import estimated_tokens

MODEL = "replay"
NAME = f"chat:{MODEL}"
"""The name of the reader in this process."""

Known = Mapping[tuple[str, str], str]
"""Answers by text and question."""

Grades = Mapping[tuple[str, str, str], Grade]
"""Grades by question, query and folded answer."""


Replies = Mapping[str, Any]
"""Replies by the key of their call."""


def call_key(call: Call[Any]) -> str:
    """Return what tells a call from others by its content: 16 hex digits."""
    return sha256(json.dumps(call.content(), ensure_ascii=False).encode()).hexdigest()[:16]


class KnownAnswers:
    """Answers in this process, without a wire.

    Args:
        known: the answers.
        grades: how far they meet queries; without them nothing is judged.
        replies: to calls about categories, by `call_key`; a call without one is refused.
    """

    def __init__(self, known: Known, grades: Grades | None = None, replies: Replies | None = None) -> None:
        self._known = known
        self._grades = grades or {}
        self._replies = replies or {}
        self.asked = 0

    @property
    def spec(self) -> Place:
        """Description of the reader."""
        return Place(NAME, model=MODEL)

    def probe(self, *, spend: Spend | None = None) -> str:
        """Give a fingerprint; nobody is asked."""
        return MODEL.ljust(64, "0")

    def answer(
        self,
        texts: Sequence[str],
        question: str,
        *,
        keep: OnAnswers | None = None,
        spend: Spend | None = None,
        until: float | None = None,
    ) -> Answered:
        """Look the answers up."""
        self.asked += len(texts)
        answers = [self._known[text, question] for text in texts]
        if spend is not None:
            spend.before(sum(estimated_tokens(text) for text in texts))
        if keep is not None:
            keep([Answer(row, answer) for row, answer in enumerate(answers)])
        return Answered([*answers])

    def send(self, call: Call[C], *, spend: Spend | None = None) -> C:
        """Look grades up, of which an answer without is an error, or the reply to a call about categories."""
        if not isinstance(call, JudgeCall):
            reply = self._replies.get(call_key(call))
            return call.unusable(Unread.REFUSED) if reply is None else call.checked(call.reply.model_validate(reply))
        return call.checked(call.reply.model_validate({"grades": graded(call.content(), self._grades)}))


@contextmanager
def in_process(known: Known, grades: Grades | None = None, replies: Replies | None = None) -> Iterator[KnownAnswers]:
    """Let `NAME` stand for known answers, grades and replies."""
    load, reader = loading.load_answerer, KnownAnswers(known, grades, replies)
    loading.load_answerer = lambda name: reader
    try:
        yield reader
    finally:
        loading.load_answerer = load


@contextmanager
def on_the_wire(model: Model) -> Iterator[str]:
    """Serve a model, and give the name of the reader that asks it."""
    with serving(model) as address:
        yield f"chat:{address}#{MODEL}"


def replaying(known: Known, grades: Grades | None = None) -> Model:
    """Return a model that says known answers and grades; of other texts, the reader's probes, it says nothing."""
    return Model(
        answer=lambda text, question: known.get((text, question), NOT_SAID),
        grades=lambda call: graded(call, grades or {}),
    )


def graded(call: Mapping[str, Any], grades: Grades) -> list[dict[str, str]]:
    """Return the grades that a call for them asks for."""
    about = call["question"], call["query"]
    return [{"id": item["id"], "grade": grades[*about, folded(item["answer"])]} for item in call["answers"]]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls of a server, and their tokens, about."""

    calls: int
    texts: int
    sent: int
    received: int


def traffic(model: Model, since: int = 0) -> Traffic:
    """Count what a model was asked, from its call number ``since`` on."""
    requests = model.requests[since:]
    return Traffic(
        len(requests),
        sum(len(texts) for texts in model.calls[since:]),
        sum(estimated_tokens(message["content"]) for request in requests for message in request["messages"]),
        sum(estimated_tokens(_content(model.completion(request))) for request in requests),
    )


def asked_of(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the texts and questions of a request."""
    call = asked(request)
    return [(item["text"], question) for item in call["texts"] for question in call["questions"]]


def _content(completion: Mapping[str, Any]) -> str:
    return str(completion["choices"][0]["message"]["content"])
