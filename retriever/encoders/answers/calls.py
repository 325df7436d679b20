"""The calls of one request: several in flight, each checked and kept as it comes, what fails narrowed down to its text.

The caller's thread decides and keeps. Requests run in an event loop on a thread of their own, where an interrupt can
cancel them.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace

import httpx
from anyio.from_thread import BlockingPortal

from retriever.core.errors import EncoderError, UsageError
from retriever.core.unanswered import NOT_SAID
from retriever.encoders.answers.answerer import Answer, Answered, OnAnswers, Unread, Waiting
from retriever.encoders.answers.endpoint import Endpoint
from retriever.encoders.answers.patience import Meter
from retriever.encoders.answers.questions import AnswersCall, CheckedAnswers
from retriever.encoders.answers.refusals import KEPT, CallRefusedError
from retriever.encoders.answers.wire import Format, addresses_reader, beginning, estimated_tokens

CALLS_IN_FLIGHT = 8
SPOT_CHECK = 3
"""From so many texts on, a call that gives all of them the same answer is checked."""

CALL_TOKENS = 3000
"""Tokens of a call's messages at most, by their estimate; servers with a small context cut longer ones silently."""

LEAST_ROOM = 500
"""Tokens that a question must leave for texts."""

IN_A_ROW = 3
"""So many calls of which nothing came, and nothing good between them, end the work."""

USELESS_CALLS = 2
"""A model is given up of which so many calls gave nothing, and none something."""

NOTICE_SECONDS = 10.0
"""Seconds between two sentences about the first answer, which has not come."""

_AROUND_TEXT = 12
"""Tokens of id and quotation marks around a text."""

_MISHAPS = (Unread.MIXED, Unread.BROKEN, Unread.EMPTY, Unread.CUT, Unread.ODD)
_EMPTY_ANSWERS = ("nothing", NOT_SAID)
Cells = list[str | Unread]
"""Of each text of a call."""


@dataclass(frozen=True, slots=True)
class _Job:
    """One call.

    Attributes:
        rows: positions of its texts.
        again: 1 where these were asked about among others, 2 where one was asked about alone.
        held: the rows and answers that this call's answer checks; None for none.
    """

    rows: tuple[int, ...]
    again: int = 0
    held: tuple[tuple[int, ...], Cells] | None = None


class Calls:
    """One request: what is still to ask, and what came.

    Args:
        texts: all of them, as the caller has them.
        question: about them.
        endpoint: who is asked.
        keep: gets results as they come.
        meter: gets tokens, and knows until when may be asked.
    """

    def __init__(
        self, texts: Sequence[str], question: str, endpoint: Endpoint, keep: OnAnswers | None, meter: Meter
    ) -> None:
        self._endpoint = endpoint
        self._keep = keep
        self._question = question
        self._meter = meter
        self._cells: list[str | Unread | None] = [None] * len(texts)
        self._in_a_row = 0
        room = room_for_texts(question)
        self._sent = [beginning(text, room - _AROUND_TEXT) for text in texts]
        self.pending = deque(_Job(call) for call in packed(self._sent, room, endpoint.abilities.texts_per_call))

    def run(self, portal: BlockingPortal, client: httpx.AsyncClient) -> None:
        """Ask until nothing is pending, or time is up; what is raised here leaves the portal, which cancels calls.

        Raises:
            EncoderError: a call failed; those in flight with it have been kept.
        """
        running: dict[Future[CheckedAnswers], _Job] = {}
        error: Exception | None = None
        begun = time.monotonic()
        while running or (self.pending and error is None and not self._late()):
            while self.pending and error is None and len(running) < self._most_calls() and not self._late():
                job = self._next()
                call = AnswersCall([self._sent[row] for row in job.rows], self._question)
                running[portal.start_task_soon(self._endpoint.ask, client, call, self._meter)] = job
            done = wait(running, self._patience(), FIRST_COMPLETED).done
            if not done and self._late():
                for future in running:
                    future.cancel()
                break
            if not done:
                self._tell(time.monotonic() - begun)
            for future in done:
                failed = self._come(running.pop(future), future)
                error = error or failed
        if error is not None:
            raise error

    def _come(self, job: _Job, future: "Future[CheckedAnswers]") -> Exception | None:
        """Take what came of a call; return an error that ends the work once all that is in flight is kept."""
        try:
            checked = future.result()
        except CallRefusedError as refused:
            return self._narrow(job, refused.reason, refused, patient=refused.patient)
        except Exception as failed:
            return failed
        return self._take(job, checked)

    def result(self) -> Answered:
        """Return what came."""
        answers = [None if isinstance(cell, Unread) else cell for cell in self._cells]
        return Answered(answers, Counter(cell for cell in self._cells if isinstance(cell, Unread)))

    def _tell(self, seconds: float) -> None:
        place = self._endpoint.place
        if not self._endpoint.abilities.settled:
            Waiting.on_wait(f"waiting for the first answer of {place.model} at {place.host}, {seconds:.0f} s")

    def _late(self) -> bool:
        return self._meter.until is not None and time.monotonic() >= self._meter.until

    def _patience(self) -> float:
        """Return the seconds after which to look whether time is up, or somebody should hear of the waiting."""
        left = NOTICE_SECONDS if self._meter.until is None else self._meter.until - time.monotonic()
        return max(0.0, min(NOTICE_SECONDS, left))

    def _most_calls(self) -> int:
        """Return how many calls may be in flight: one until it is known how the endpoint wants to be asked.

        A slow one answers them one after the other, and would let the last wait for longer than a call may take.
        """
        endpoint = self._endpoint
        if not endpoint.abilities.settled or endpoint.abilities.slow:
            return 1
        return max(1, min(CALLS_IN_FLIGHT, int(endpoint.limit / (2 * endpoint.seconds + 0.001))))

    def _next(self) -> _Job:
        """Take the next call, cut down to the texts that the endpoint takes at a time."""
        job = self.pending.popleft()
        most = 1 if self._endpoint.abilities.slow else self._endpoint.abilities.texts_per_call
        if len(job.rows) > most:
            self.pending.appendleft(replace(job, rows=job.rows[most:]))
            job = replace(job, rows=job.rows[:most])
        return job

    def _take(self, job: _Job, checked: CheckedAnswers) -> EncoderError | None:
        """Keep the answers of a call, or put down how it is asked again; return an error that ends the work."""
        if checked.disordered and len(job.rows) > 1:
            self._endpoint.mixed_up()
        if checked.whole is Unread.MIXED and len(job.rows) > 1:
            self._in_a_row = 0
            most = self._endpoint.abilities.texts_per_call
            most = most if most < len(job.rows) else 1
            parts = (job.rows[at : at + most] for at in range(0, len(job.rows), most))
            self.pending.extend(_Job(part, again=1) for part in parts)
            return None
        if checked.whole is not None and checked.whole is not Unread.MIXED:
            return self._narrow(job, checked.whole, self._useless(checked.whole))
        self._in_a_row = 0
        if job.held is not None:
            self._judge(job, *job.held, checked.cells[0])
        elif self._swept(checked.cells):
            shortest = min(job.rows, key=lambda row: len(self._sent[row]))
            self.pending.appendleft(_Job((shortest,), held=(job.rows, checked.cells)))
        else:
            self._store(job, checked.cells)
        return None

    def _judge(self, check: _Job, rows: tuple[int, ...], cells: Cells, alone: str | Unread) -> None:
        """Keep a call whose shortest text has the same answer alone; ask about all its other texts alone if not."""
        row = check.rows[0]
        if alone.casefold() == cells[rows.index(row)].casefold():
            self._store(_Job(rows), cells)
            return
        self._store(check, [alone])
        self.pending.extend(_Job((other,)) for other in rows if other != row)

    def _store(self, job: _Job, cells: Sequence[str | Unread]) -> None:
        """Keep the answers of a call, and ask again, text by text, where there is a reason instead of one."""
        kept: list[Answer] = []
        for row, cell in zip(job.rows, cells, strict=True):
            if isinstance(cell, Unread) and not _is_final(job, cell):
                self.pending.append(_Job((row,), again=1 if len(job.rows) > 1 else 2))
            else:
                self._cells[row] = cell
                kept.append(Answer(row, cell))
        if kept and self._keep is not None:
            self._keep(kept)

    def _narrow(self, job: _Job, reason: Unread, error: EncoderError, *, patient: bool = False) -> EncoderError | None:
        """Ask again about the texts of a call of which nothing came, in halves; at the end it is one text's fault.

        Return the error where it is not: nothing good ever came, or several calls in a row failed. A late call that
        had the usual limit says nothing of its texts; one that had the longer costs minutes, and counts always.
        """
        settled = self._endpoint.abilities.settled
        late = reason is Unread.LATE
        self._in_a_row += patient if late else not (settled and job.again)
        most = (
            IN_A_ROW
            if settled
            else 1
            if late and patient
            else USELESS_CALLS
            if isinstance(error, _UselessError)
            else IN_A_ROW
        )
        if self._in_a_row >= most or (_is_final(job, reason) and not settled):
            if not settled:
                self._endpoint.forget()
            return error
        if job.held is not None:  # a check that failed takes its call apart
            self.pending.extend(_Job((row,), again=1) for row in job.held[0])
        elif late or len(job.rows) == 1:
            self._store(job, [reason] * len(job.rows))
        else:
            half = (len(job.rows) + 1) // 2
            self.pending.extend(_Job(rows, again=1) for rows in (job.rows[:half], job.rows[half:]))
        return None

    def _useless(self, reason: Unread) -> EncoderError:
        """Return the error of a model whose replies cannot be used."""
        place, said = self._endpoint.place, self._endpoint.refusal if reason is Unread.REFUSED else ""
        return _UselessError(
            f"{place.model} at {place.host} gave no usable answer. {reason.sentence} {said}".strip(),
            hint=f"Try another model. {KEPT}",
        )

    def _swept(self, cells: Sequence[str | Unread]) -> bool:
        """Return whether all texts of a call have the same answer, and one that says something.

        So it looks when one text made the model give its answer to all. Under a question that names its answers it
        is usual, and not checked.
        """
        said = {cell.casefold() for cell in cells}
        if len(cells) < SPOT_CHECK or len(said) > 1 or isinstance(cells[0], Unread):
            return False
        (answer,) = said
        option = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", self._question.casefold())
        return answer not in _EMPTY_ANSWERS and option is None


def _is_final(job: _Job, reason: Unread) -> bool:
    """Return whether asking again is pointless; a reply that came out wrong as a whole can be a server's mishap."""
    return len(job.rows) == 1 and job.again > (reason in _MISHAPS)


class _UselessError(EncoderError):
    """Replies of a model have no form that can be used."""


def room_for_texts(question: str) -> int:
    """Return the tokens that a call with a question has for texts.

    Raises:
        UsageError: they are too few.
    """
    messages = AnswersCall([], question).messages(Format.SCHEMA)
    room = CALL_TOKENS - sum(estimated_tokens(message["content"]) for message in messages)
    if room < LEAST_ROOM:
        raise UsageError("The question is too long for one call.", hint="Ask a shorter one.")
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
