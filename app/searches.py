"""Searches that go on while their first answer is looked at, the same for every page that searches."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from retriever.core.errors import InputError
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.index.encoding import OnTexts
from retriever.serving.jobs import Job, Jobs
from retriever.workspace import Index
from retriever_app import resources, state
from retriever_app.components import show_problem
from retriever_app.foreground import FOREGROUND
from retriever_app.view_models import search
from retriever_app.view_models.search import SearchQuestion

FIRST_SECONDS = 120.0  # seconds that a page waits for a first answer; the model may have to be loaded for it

_REFRESH_SECONDS = 0.4  # between looks at searches that go on
_READING = threading.Lock()  # one search at a time reads candidates, so that none waits for all


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """A search's hits as far as they are known.

    Attributes:
        settled: whether they are the last word.
        first: the ids of the first answer's.
        read: how many texts are read for the last one, and of how many; it sets no answers apart.
    """

    result: SearchResult
    settled: bool
    first: tuple[str, ...]
    read: tuple[int, int] = field(default=(0, 0), compare=False)


@dataclass(slots=True)
class Running:
    """A session's search; its ``revision`` is the index's once the search is over, which its own vectors have moved."""

    name: str
    requests: tuple[SearchRequest, ...]
    job: Job
    revision: int | None = None

    def answers(self, name: str, requests: tuple[SearchRequest, ...], revision: int) -> bool:
        """Whether this is the answer to some requests on the index as it is now."""
        if (self.name, self.requests) != (name, requests):
            return False
        snapshot = self.job.snapshot()
        if not snapshot.over:
            return True
        if self.revision is None:
            self.revision = revision
        return self.revision == revision and snapshot.error is None


def search_request(index: Index, question: SearchQuestion, where: str | None) -> SearchRequest:
    """Return the request behind a question.

    Raises:
        InputError: the review whose likes are wanted is gone.
        UsageError: the question makes no sense.
    """
    steps = question.steps or None
    if not question.like:
        request = SearchRequest([question.q], question.instruction, question.k, where, question.mode, steps)
        marks = index.marks(question.q, question.instruction)
        if question.mode == "lexical" or not marks:
            return request
        there = index.documents([*marks.more, *marks.less])
        more, less = (tuple(id for id in ids if id in there) for ids in (marks.more, marks.less))
        return replace(request, more=more, less=less)
    document = index.documents([question.like]).get(question.like)
    if document is None:
        raise InputError(f"The review {question.like!r} is gone.", hint="Search for something else.")
    return SearchRequest([document.text], question.instruction, question.k, where, "dense", steps, question.like)


def live_answers(index: Index, requests: tuple[SearchRequest, ...], page: str) -> Sequence[LiveAnswer] | None:
    """Return what a page's searches have found so far, an answer a request; None where it shows why there is nothing.

    They begin anew where requests or index have changed since the page's last run. While one has not settled, the page
    is drawn again whenever there is more.
    """
    name = f"{page}: running"
    running: Running | None = st.session_state.get(name)
    if running is None or not running.answers(index.identity, requests, index.revision):
        if running is not None:
            running.job.stop()
        with st.spinner("Searching …", show_time=True):
            running = Running(index.identity, requests, start(resources.jobs(), index, requests))
        st.session_state[name] = running
    snapshot = running.job.snapshot()
    if snapshot.error is not None:
        show_problem(snapshot.error)
        return None
    if snapshot.progress is None:
        st.text("The model takes unusually long to answer. Reload the page in a minute.")
        return None
    answers: tuple[LiveAnswer, ...] = snapshot.progress
    if not all(answer.settled for answer in answers):
        _watch(running.job, answers)
    return answers


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, shown: Sequence[LiveAnswer]) -> None:
    """Show how many texts are read, and draw the page again when a search has settled."""
    snapshot = job.snapshot()
    if snapshot.over or snapshot.progress != shown:
        state.rerun()
    waiting = [one.read for one in snapshot.progress if not one.settled]
    done, texts = (sum(each) for each in zip(*waiting, strict=True))
    st.progress(min(1.0, done / texts) if texts else 0.0, text=search.reading_line(done, texts))


def start(jobs: Jobs, index: Index, requests: Sequence[SearchRequest]) -> Job:
    """Begin searches that go together and wait for the first answer of each.

    The job's progress is a tuple of an `LiveAnswer` for every request.
    """
    job = jobs.begin("The search", lambda job: _search(job, index, requests))
    job.wait_told(FIRST_SECONDS)
    return job


@FOREGROUND.waited_for()
def _search(job: Job, index: Index, requests: Sequence[SearchRequest]) -> None:
    answers: list[LiveAnswer] = []

    def telling(place: int) -> OnTexts:
        def told(done: int, texts: int) -> None:
            job.check()
            answers[place] = replace(answers[place], read=(done, texts))
            job.tell(tuple(answers))

        return told

    begun = [_first(index, request, telling(place)) for place, request in enumerate(requests)]
    answers += [answer for answer, _ in begun]
    job.tell(tuple(answers))
    for place, (answer, rest) in enumerate(begun):
        if not answer.settled:
            answers[place] = _last(job, answer, rest)
            job.tell(tuple(answers))


def _first(index: Index, request: SearchRequest, on_texts: OnTexts) -> tuple[LiveAnswer, Iterator[list[SearchResult]]]:
    """Return the first answer, and those that come after it."""
    answers = index.search_progressively(request, on_texts)
    result = next(answers)[0]
    first = tuple(hit.document.id for hit in result.hits)
    return LiveAnswer(result, not _goes_on(index, result), first), answers


def _last(job: Job, answer: LiveAnswer, rest: Iterator[list[SearchResult]]) -> LiveAnswer:
    result = answer.result
    with _READING:
        job.check()
        for results in rest:
            result = results[0]
    return LiveAnswer(result, True, answer.first)


def _goes_on(index: Index, result: SearchResult) -> bool:
    """Return whether a first answer is not the last: it came while the instruction's view lacked texts."""
    if result.path == "complete" or result.view is None:
        return False
    return index.readers.view_key(result.instruction).instruction != ""
