"""The calls of one request: several in flight, each checked and kept as it comes, what is missing asked again alone.

The caller's thread decides and keeps. Requests run in an event loop on a thread of their own, where an interrupt can
cancel them.
"""

from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace

import openai
from anyio.from_thread import BlockingPortal

from retriever.core.errors import EncoderError, UsageError
from retriever.encoders.answers.answerer import NOT_SAID, Answer, Answered, OnAnswers, Unread
from retriever.encoders.answers.endpoint import Endpoint
from retriever.encoders.answers.wire import AnswersCall, Checked, Format, addresses_reader, beginning, estimated_tokens

CALLS_IN_FLIGHT = 8
SPOT_CHECK = 3
"""From so many texts on, a call that gives all of them the same answer is checked."""

CALL_TOKENS = 3000
"""Tokens of a call's messages at most, by their estimate; servers with a small context cut longer ones silently."""

LEAST_ROOM = 500
"""Tokens that questions must leave for texts."""

_AROUND_TEXT = 12
"""Tokens of id and quotation marks around a text."""

_USELESS_CALLS = 2
"""A model is given up of which so many calls gave nothing, and none something."""

_EMPTY_ANSWERS = ("nothing", NOT_SAID)
Cells = list[list[str | Unread]]
"""``cells[text][question]`` of a call."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One call.

    Attributes:
        rows: positions of its texts.
        questions: positions of its questions.
        again: whether all this was asked before; it is not asked a third time.
        held: the job whose answers this one checks; None for none.
        cells: those answers.
    """

    rows: tuple[int, ...]
    questions: tuple[int, ...]
    again: bool = False
    held: "_Job | None" = None
    cells: Cells | None = None


class Calls:
    """One request: what is still to ask, and what came.

    Args:
        texts: all of them, as the caller has them.
        questions: as the caller has them.
        endpoint: who is asked.
        keep: gets answers as they come.
    """

    def __init__(
        self, texts: Sequence[str], questions: Sequence[str], endpoint: Endpoint, keep: OnAnswers | None
    ) -> None:
        self._endpoint = endpoint
        self._keep = keep
        self._questions = questions
        self._cells: Cells = [[Unread.LEFT_OUT] * len(questions) for _ in texts]
        self._useless = 0
        room = room_for_texts(questions)
        self._sent = [beginning(text, room - _AROUND_TEXT) for text in texts]
        everything = tuple(range(len(questions)))
        calls = packed(self._sent, room, endpoint.abilities.texts_per_call) if questions else []
        self.pending = deque(_Job(call, everything) for call in calls)

    def run(self, portal: BlockingPortal, client: openai.AsyncOpenAI) -> None:
        """Ask until nothing is pending; whatever else is raised leaves the portal, which cancels the calls in flight.

        Raises:
            EncoderError: a call failed; those in flight with it have been kept.
        """
        running: dict[Future[Checked], _Job] = {}
        error: EncoderError | None = None
        while running or (self.pending and error is None):
            while self.pending and error is None and len(running) < self._most_calls():
                job = self._next()
                texts = [self._sent[row] for row in job.rows]
                questions = [self._questions[question] for question in job.questions]
                call = AnswersCall(texts, questions)
                running[portal.start_task_soon(self._endpoint.ask, client, call)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    self._take(job, future.result())
                except EncoderError as failed:
                    error = error or failed
        if error is not None:
            raise error

    def result(self) -> Answered:
        """Return what came."""
        answers = [
            [None if isinstance(row[question], Unread) else row[question] for row in self._cells]
            for question in range(len(self._questions))
        ]
        return Answered(answers, Counter(cell for row in self._cells for cell in row if isinstance(cell, Unread)))

    def _most_calls(self) -> int:
        """Return how many calls may be in flight: one until it is known how the endpoint wants to be asked."""
        return CALLS_IN_FLIGHT if self._endpoint.abilities.settled else 1

    def _next(self) -> _Job:
        """Take the next call, cut down to the texts that the endpoint takes at a time."""
        job = self.pending.popleft()
        most = self._endpoint.abilities.texts_per_call
        if len(job.rows) > most:
            self.pending.appendleft(replace(job, rows=job.rows[most:]))
            job = replace(job, rows=job.rows[:most])
        return job

    def _take(self, job: _Job, checked: Checked) -> None:
        """Keep the answers of a call, and put down what is to be asked again."""
        if len(job.rows) > 1 and (not checked.orderly or Unread.COUNT in (row[0] for row in checked.cells)):
            self._endpoint.learn(texts_per_call=1)
        if checked.whole is not None and not self._endpoint.abilities.settled:
            self._give_up(checked.whole)
        if job.held is not None and job.cells is not None:
            self._judge(job, job.held, job.cells, checked.cells)
        elif _swept(checked.cells):
            shortest = min(job.rows, key=lambda row: len(self._sent[row]))
            self.pending.appendleft(_Job((shortest,), job.questions, held=job, cells=checked.cells))
        else:
            self._store(job, checked.cells)

    def _judge(self, check: _Job, held: _Job, cells: Cells, alone: Cells) -> None:
        """Keep a call whose shortest text has the same answers alone; ask all its other texts alone too if not."""
        row = check.rows[0]
        packed_in, by_itself = cells[held.rows.index(row)], alone[0]
        if all(packed_in[question].casefold() == by_itself[question].casefold() for question in _swept(cells)):
            self._store(held, cells)
            return
        self._store(check, alone)
        self.pending.extend(_Job((other,), held.questions) for other in held.rows if other != row)

    def _store(self, job: _Job, cells: Cells) -> None:
        """Keep the answers of a call, and ask again, text by text, where there is a reason instead of one."""
        kept: list[Answer] = []
        for row, answers in zip(job.rows, cells, strict=True):
            missing = []
            for question, answer in zip(job.questions, answers, strict=True):
                self._cells[row][question] = answer
                if isinstance(answer, Unread):
                    missing.append(question)
                else:
                    kept.append(Answer(row, question, answer))
            if missing and not job.again:
                self.pending.append(_Job((row,), tuple(missing), again=True))
        if kept and self._keep is not None:
            self._keep(kept)

    def _give_up(self, reason: Unread) -> None:
        """Count a call that gave nothing while none has given anything.

        Raises:
            EncoderError: there were several.
        """
        self._useless += reason is not Unread.REFUSED
        if self._useless >= _USELESS_CALLS:
            place = self._endpoint.place
            raise EncoderError(
                f"{place.model} at {place.host} gave no usable answer. {reason.sentence}", hint="Try another model."
            )


def room_for_texts(questions: Sequence[str]) -> int:
    """Return the tokens that a call with some questions has for texts.

    Raises:
        UsageError: they are too few.
    """
    messages = AnswersCall([], questions).messages(Format.SCHEMA)
    room = CALL_TOKENS - sum(estimated_tokens(message["content"]) for message in messages)
    if room < LEAST_ROOM:
        raise UsageError("The questions are too long for one call.", hint="Ask fewer at a time, or shorter ones.")
    return room


def packed(texts: Sequence[str], room: int, most: int) -> list[tuple[int, ...]]:
    """Return the positions of texts, in their order, that go into a call together, at most ``most`` in each.

    No call has more tokens of texts than ``room``; a text that addresses its reader has a call of its own.
    """
    calls: list[tuple[int, ...]] = []
    together: list[int] = []
    used = 0
    for row, text in enumerate(texts):
        if addresses_reader(text):
            calls.append((row,))
            continue
        tokens = estimated_tokens(text) + _AROUND_TEXT
        if together and (len(together) == most or used + tokens > room):
            calls.append(tuple(together))
            together, used = [], 0
        together.append(row)
        used += tokens
    return [*calls, tuple(together)] if together else calls


def _swept(cells: Cells) -> list[int]:
    """Return the questions to which all texts of a call have the same answer, and one that says something.

    So it looks when one text made the model give its answer to all.
    """
    if len(cells) < SPOT_CHECK:
        return []
    columns = [{str(cell).casefold() for cell in column} for column in zip(*cells, strict=True)]
    whole = [not any(isinstance(row[question], Unread) for row in cells) for question in range(len(columns))]
    return [
        question
        for question, said in enumerate(columns)
        if whole[question] and len(said) == 1 and not said & set(_EMPTY_ANSWERS)
    ]
