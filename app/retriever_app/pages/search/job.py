"""Searches that go on while their first answer is looked at, the same for every page that searches."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import streamlit as st

from retriever.core.errors import ConsentError
from retriever.core.pace import Pace
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.index.encoding import OnTexts
from retriever.serving.jobs import Job, Jobs
from retriever.workspace import Index
from retriever_app import readers, reading, resources, state, text
from retriever_app.background import FOREGROUND, Progress
from retriever_app.components import progress_box, show_problem

FIRST_SECONDS = 120.0  # seconds that a page waits for a first answer; the model may have to be loaded for it

_REFRESH_SECONDS = 0.4  # between looks at searches that go on
_READING = threading.Lock()  # one search at a time reads with encoders, so that none waits for all


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """A search's hits as far as they are known.

    Attributes:
        settled: whether they are the last word.
        first: the ids of the first answer's.
        read: how many texts are read for the last one; like the three below, it sets no answers apart.
        of: how many will be, about; 0 while nobody knows.
        left: seconds that the rest takes; None while nobody knows.
        waits: whether it has yet to begin to read, since another search reads.
        stopped: whether somebody stopped it before they were.
    """

    result: SearchResult
    settled: bool
    first: tuple[str, ...]
    read: int = field(default=0, compare=False)
    of: int = field(default=0, compare=False)
    left: float | None = field(default=None, compare=False)
    waits: bool = field(default=False, compare=False)
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A session's search; its job returns the revision of the index at its end, which its own vectors have moved."""

    name: str
    requests: tuple[SearchRequest, ...]
    job: Job

    def answers(self, name: str, requests: tuple[SearchRequest, ...], index: Index) -> bool:
        """Whether this is the answer to some requests on the index as it is now."""
        if (self.name, self.requests) != (name, requests):
            return False
        snapshot = self.job.snapshot()
        return not snapshot.over or snapshot.status == "stopped" or snapshot.result == index.revision


def live_answers(index: Index, requests: tuple[SearchRequest, ...], page: str) -> Sequence[LiveAnswer] | None:
    """Return what a page's searches have found so far, an answer a request; None where it shows why there is nothing.

    Nothing is sent to a language model before this session has agreed to it.

    They begin anew where requests or index have changed since the page's last run. While one has not settled, the page
    is drawn again whenever there is more.
    """
    questions = list(dict.fromkeys(request.instruction or "" for request in requests))
    if not all(reading.ready(index, question, readers.search_sends()) for question in questions):
        return None
    name, by = f"{page}: running", [index.identity, *(reading.state_name(index, question) for question in questions)]
    running: Running | None = st.session_state.get(name)
    if running is None or not running.answers(" ".join(by), requests, index):
        if running is not None:
            running.job.stop()
        with st.spinner("Searching …", show_time=True):
            running = Running(" ".join(by), requests, start(resources.jobs(), index, requests))
        st.session_state[name] = running
    snapshot = running.job.snapshot()
    if snapshot.error is not None:
        show_problem(snapshot.error)
        return None
    if snapshot.progress is None:
        st.text("The model takes unusually long to answer. Reload the page in a minute.")
        return None
    answers: tuple[LiveAnswer, ...] = snapshot.progress
    if snapshot.status == "stopped":
        answers = tuple(replace(answer, stopped=not answer.settled) for answer in answers)
        read = text.count(sum(answer.read for answer in answers), "review")
        _offer(name, f"Stopped after {read}: these are the first hits.", "Continue")
    elif not all(answer.settled for answer in answers):
        _watch(running.job, answers)
    elif fault := next(filter(None, (answer.result.reader_fault for answer in answers)), None):
        problem = text.problem(fault)
        said = f"The language model cannot be asked: {problem.message} {problem.advice}"
        _offer(name, said, "" if isinstance(fault, ConsentError) else "Try again")
    return answers


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, shown: Sequence[LiveAnswer]) -> None:
    """Show how many texts are read, and draw the page again when a search has settled."""
    snapshot = job.snapshot()
    if snapshot.over or snapshot.progress != shown:
        state.rerun()
    progress_box(job, reading_progress(snapshot.progress), "search")


def reading_progress(answers: Sequence[LiveAnswer]) -> Progress:
    """Return how far the searches are that have not settled, with the time left once all of them read."""
    reading = [answer for answer in answers if not answer.settled]
    if any(answer.waits for answer in reading):
        return Progress("Waiting for another search")
    begun = [answer for answer in reading if answer.of]
    if not begun:
        return Progress("Choosing the reviews to read first")
    read, of = sum(answer.read for answer in begun), sum(answer.of for answer in begun)
    doing = f"{read:,} of about {text.count(of, 'review')} read"
    return Progress(doing, read / of, begun[0].left if len(begun) == len(reading) else None)


def _offer(name: str, said: str, label: str) -> None:
    """Say why a search ended early, with a button that begins it again, unless its label is empty."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(text.plain(said))
        if label:
            st.button(label, on_click=lambda: st.session_state.pop(name), key=f"continue {name}", type="tertiary")


def start(jobs: Jobs, index: Index, requests: Sequence[SearchRequest]) -> Job:
    """Begin searches that go together and wait for the first answer of each.

    The job's progress is a tuple of an `LiveAnswer` for every request, its result the index's revision at its end.
    """
    job = jobs.begin("The search", lambda job: _search(job, index, requests))
    job.wait_told(FIRST_SECONDS)
    return job


def _search(job: Job, index: Index, requests: Sequence[SearchRequest]) -> int:
    answers: list[LiveAnswer] = []

    def tell(place: int, answer: LiveAnswer) -> None:
        answers[place] = answer
        job.tell(tuple(answers))

    def reporting(place: int) -> OnTexts:
        pace = Pace()

        def report(done: int, texts: int) -> None:
            job.check()
            tell(place, replace(answers[place], read=done, of=texts, left=pace.left(done / max(1, texts))))

        return report

    def waiting(place: int) -> Callable[[bool], None]:
        return lambda waits: tell(place, replace(answers[place], waits=waits))

    with FOREGROUND.waited_for():
        begun = [_first(index, request, reporting(place)) for place, request in enumerate(requests)]
    answers += [answer for answer, _ in begun]
    job.tell(tuple(answers))
    for place, (answer, rest) in enumerate(begun):
        if not answer.settled:
            in_words = index.teaching.reader(requests[place].instruction or "")
            with nullcontext() if in_words else _turn(job, waiting(place)):
                *_, result = answer.result, *rest
            tell(place, LiveAnswer(result, True, answer.first))
    return index.revision


def _first(index: Index, request: SearchRequest, on_texts: OnTexts) -> tuple[LiveAnswer, Iterator[SearchResult]]:
    """Return the first answer, and those that come after it."""
    answers = index.search_progressively(request, on_texts)
    result = next(answers)
    first = tuple(hit.document.id for hit in result.hits)
    return LiveAnswer(result, result.final, first), answers


@contextmanager
def _turn(job: Job, tell: Callable[[bool], None]) -> Iterator[None]:
    """Be the one search that encoders read for; ``tell`` is given whether it waits for its turn.

    A search that a language model reads for takes no turn: it is the endpoint that it waits for.
    """
    if not _READING.acquire(blocking=False):
        tell(True)
        while not _READING.acquire(timeout=_REFRESH_SECONDS):
            job.check()
        tell(False)
    try:
        job.check()
        with FOREGROUND.waited_for():
            yield
    finally:
        _READING.release()
