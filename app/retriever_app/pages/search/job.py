"""A search that goes on while its first answer is looked at."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import streamlit as st

from retriever.core.errors import ConsentError
from retriever.core.pace import Pace
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.serving.jobs import Job, Jobs
from retriever.workspace import Index
from retriever_app import reading, resources, state, text
from retriever_app.background import FOREGROUND, Progress
from retriever_app.components import progress_box, show_problem
from retriever_app.readers import SEARCHING

FIRST_SECONDS = 120.0  # seconds that a page waits for a first answer; the model may have to be loaded for it
RUNNING = "search: running"
SHOWN_EVERY = 10  # texts that are read between two lists

_REFRESH_SECONDS = 0.4  # between looks at a search that goes on
_READING = threading.Lock()  # one search at a time reads with encoders, so that none waits for all


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """A search's hits as far as they are known.

    Attributes:
        settled: whether they are the last word.
        first: the ids of the first answer's.
        read: how many texts are read for the last one; like the three below, it sets no answers apart.
        of: how many will be, at most; 0 while nobody knows.
        left: seconds that the rest takes, at most; None while nobody knows.
        waits: whether it has yet to begin to read, since another search reads.
        stopped: whether somebody stopped it before they were.
        unsent: whether it reads on once reviews may be sent to a language model.
    """

    result: SearchResult
    settled: bool
    first: tuple[str, ...]
    read: int = field(default=0, compare=False)
    of: int = field(default=0, compare=False)
    left: float | None = field(default=None, compare=False)
    waits: bool = field(default=False, compare=False)
    stopped: bool = False
    unsent: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A session's search; its job returns the revision of the index at its end, which its own vectors have moved."""

    name: str
    request: SearchRequest
    job: Job

    def answers(self, name: str, request: SearchRequest, index: Index) -> bool:
        """Whether this is the answer to a request on the index as it is now."""
        if (self.name, self.request) != (name, request):
            return False
        snapshot = self.job.snapshot()
        return not snapshot.over or snapshot.status == "stopped" or snapshot.result == index.revision


def live_answer(index: Index, request: SearchRequest) -> LiveAnswer | None:
    """Return what the page's search has found so far; None where it shows why there is nothing.

    Nothing is sent to a language model before this session has agreed to it: until then it is by what is stored.

    It begins anew where request or index have changed since the page's last run. While it has not settled, the page is
    drawn again whenever there is more.
    """
    question = request.instruction or ""
    sends = reading.may_send(index, question, SEARCHING)
    name = f"{index.identity} {reading.state_name(index, question)} {sends}"
    running: Running | None = st.session_state.get(RUNNING)
    if running is None or not running.answers(name, request, index):
        if running is not None:
            running.job.stop()
        with st.spinner("Searching …", show_time=True):
            running = Running(name, request, start(resources.jobs(), index, request, sends=sends))
        st.session_state[RUNNING] = running
    snapshot = running.job.snapshot()
    if snapshot.error is not None:
        show_problem(snapshot.error)
        return None
    if snapshot.progress is None:
        st.text("The model takes unusually long to answer. Reload the page in a minute.")
        return None
    answer: LiveAnswer = snapshot.progress
    if answer.unsent:
        reading.ask_for_rest(index, question, SEARCHING)
    elif snapshot.status == "stopped":
        answer = replace(answer, stopped=not answer.settled)
        _offer(f"Stopped after {text.count(answer.read, 'review')}: these are the first hits.", "Continue")
    elif not answer.settled:
        _watch(running.job, answer)
    elif fault := answer.result.reader_fault:
        problem = text.problem(fault)
        said = f"The language model cannot be asked: {problem.message} {problem.advice}"
        _offer(said, "" if isinstance(fault, ConsentError) else "Try again")
    return answer


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, shown: LiveAnswer) -> None:
    """Show how many texts are read, and draw the page again when the search has settled."""
    snapshot = job.snapshot()
    if snapshot.over or snapshot.progress != shown:
        state.rerun()
    progress_box(job, reading_progress(snapshot.progress), "search")


def reading_progress(answer: LiveAnswer) -> Progress:
    """Return how far a search is that has not settled."""
    if answer.waits:
        return Progress("Waiting for another search")
    if not answer.of:
        return Progress("Choosing the reviews to read first")
    doing = f"{answer.read:,} of at most {text.count(answer.of, 'review')} read"
    return Progress(doing, answer.read / answer.of, answer.left)


def _offer(said: str, label: str) -> None:
    """Say why a search ended early, with a button that begins it again, unless its label is empty."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(text.plain(said))
        if label:
            st.button(label, on_click=lambda: st.session_state.pop(RUNNING), key="continue search", type="tertiary")


def start(jobs: Jobs, index: Index, request: SearchRequest, *, sends: bool) -> Job:
    """Begin a search and wait for its first answer; one that may send nothing ends with what is stored.

    The job's progress is a `LiveAnswer`, its result the index's revision at its end.
    """
    job = jobs.begin("The search", lambda job: (_search if sends else _look)(job, index, request))
    job.wait_told(FIRST_SECONDS)
    return job


def _look(job: Job, index: Index, request: SearchRequest) -> int:
    """Tell the answer by what is stored."""
    with FOREGROUND.waited_for():
        result = index.search_stored(request)
    first = tuple(hit.document.id for hit in result.hits)
    job.tell(LiveAnswer(result, result.final, first, unsent=not result.final))
    return index.revision


def _search(job: Job, index: Index, request: SearchRequest) -> int:
    """Tell the first answer, that of what is read so far whenever there is more of it, and the last."""
    pace, shown = Pace(), 0

    def tell(**changes: object) -> None:
        job.tell(replace(job.snapshot().progress, **changes))

    def report(done: int, texts: int) -> None:
        nonlocal shown
        job.check()
        left = pace.left(done / max(1, texts))  # of the first few texts, one may take as long as several
        tell(read=done, of=texts, left=left if done > 2 * SHOWN_EVERY else None)
        if done > shown + SHOWN_EVERY:
            shown = done
            tell(result=index.search_stored(request))

    answers = index.search_progressively(request, report)
    with FOREGROUND.waited_for():
        result = next(answers)
    first = tuple(hit.document.id for hit in result.hits)
    job.tell(LiveAnswer(result, result.final, first))
    if not result.final:
        in_words = index.teaching.reader(request.instruction or "")
        with nullcontext() if in_words else _turn(job, lambda waits: tell(waits=waits)):
            *_, result = result, *answers
        job.tell(LiveAnswer(result, True, first))
    return index.revision


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
