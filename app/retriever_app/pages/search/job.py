"""A search that goes on while its first answer is looked at."""

import threading
from dataclasses import dataclass, field, replace

import streamlit as st

from retriever.core.errors import ConsentError
from retriever.core.pace import Pace
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.serving.jobs import Job, Jobs
from retriever.workspace import Index
from retriever_app import reading, resources, state, text
from retriever_app.background import FOREGROUND, Progress, taking_turns
from retriever_app.components import progress_box, show_problem
from retriever_app.readers import SEARCHING

FIRST_SECONDS = 120.0  # seconds that a page waits for a first answer; the model may have to be loaded for it
_RUNNING = "search: running"
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


def live_answer(index: Index, request: SearchRequest) -> LiveAnswer | None:
    """Return what the page's search has found so far; None where it shows why there is nothing.

    Nothing is sent to a language model before this session has agreed to it: until then it is by what is stored.

    It begins anew where request or index have changed since the page's last run. While it has not settled, the page is
    drawn again whenever there is more.
    """
    question = request.instruction or ""
    sends = reading.may_send(index, question, SEARCHING)
    key = (index.identity, reading.state_name(index, question), sends, request)
    running: tuple[object, Job] | None = st.session_state.get(_RUNNING)
    if running is None or running[0] != key or not _holds(running[1], index, request):
        if running is not None:
            running[1].stop()
        with st.spinner("Searching …", show_time=True):
            running = (key, start(resources.jobs(), index, request, sends=sends))
        st.session_state[_RUNNING] = running
    job = running[1]
    snapshot = job.snapshot()
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
        _watch(job, answer)
    elif fault := answer.result.reader_fault:
        problem = text.problem(fault)
        by_words = answer.result.mode == "lexical"
        said = "Searched by words alone" if by_words else "The language model cannot be asked"
        said = f"{said}: {problem.message} {problem.advice}"
        _offer(said, "" if isinstance(fault, ConsentError) else "Try again")
    return answer


def show_anew(index: Index, request: SearchRequest, shown: LiveAnswer) -> None:
    """Let the page show the order that all reviews read by now give, with the moves since the list that it shows."""

    def work(job: Job) -> str:
        with FOREGROUND.waited_for():
            result = index.search_anew(request, keep=True)
        job.tell(LiveAnswer(result, True, shown.result.ids))
        return _state(index, request, result)

    job = Job("The new order")
    job.run(work)
    if (error := job.snapshot().error) is not None:
        raise error
    key, _ = st.session_state[_RUNNING]
    st.session_state[_RUNNING] = (key, job)


def _state(index: Index, request: SearchRequest, result: SearchResult) -> str:
    """Return the state of the index that a list holds in; reviews that are read later leave it as it is."""
    by_answers = result.known_answers is not None
    return str(index.revision) if by_answers else index.answer_state(request.instruction)


def _holds(job: Job, index: Index, request: SearchRequest) -> bool:
    """Whether a search is of the index as it is now."""
    snapshot = job.snapshot()
    if not snapshot.over or snapshot.status == "stopped":
        return True
    return snapshot.error is None and snapshot.result == _state(index, request, snapshot.progress.result)


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
            st.button(label, on_click=lambda: st.session_state.pop(_RUNNING), key="continue search", type="tertiary")


def start(jobs: Jobs, index: Index, request: SearchRequest, *, sends: bool) -> Job:
    """Begin a search and wait for its first answer; one that may send nothing ends with what is stored.

    The job's progress is a `LiveAnswer`, its result the state of the index at its end.
    """
    job = jobs.begin("The search", lambda job: _search(job, index, request, sends=sends))
    job.wait_told(FIRST_SECONDS)
    return job


def _search(job: Job, index: Index, request: SearchRequest, *, sends: bool) -> str:
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

    answers = index.search_progressively(request, report) if sends else iter([])
    with FOREGROUND.waited_for():
        result = next(answers) if sends else index.search_stored(request)
    first = result.ids
    job.tell(LiveAnswer(result, result.final, first, unsent=not sends and not result.final))
    if sends and not result.final:
        if index.teaching.reader(request.instruction or ""):  # which waits for its endpoint, and takes no turn
            *_, result = result, *answers
        else:
            tell(waits=_READING.locked())
            with taking_turns(_READING, job), FOREGROUND.waited_for():
                tell(waits=False)
                job.check()
                *_, result = result, *answers
        job.tell(LiveAnswer(result, True, first))
    return _state(index, request, result)
