"""Searches that go on while their first answer is looked at, the same for every page that searches."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.index.encoding import OnTexts
from retriever.serving.jobs import Job, Jobs
from retriever.workspace import Index
from retriever_app import readers, reading, resources, state, text
from retriever_app.background import FOREGROUND
from retriever_app.components import show_problem
from retriever_app.pages.search.model import reading_line

FIRST_SECONDS = 120.0  # seconds that a page waits for a first answer; the model may have to be loaded for it

_REFRESH_SECONDS = 0.4  # between looks at searches that go on
_READING = threading.Lock()  # one search at a time reads candidates, so that none waits for all


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """A search's hits as far as they are known.

    Attributes:
        settled: whether they are the last word.
        first: the ids of the first answer's.
        read: how many texts are read for the last one; it sets no answers apart.
        unread: texts that a language model was not asked about, since a limit of the settings was reached.
    """

    result: SearchResult
    settled: bool
    first: tuple[str, ...]
    read: int = field(default=0, compare=False)
    unread: int = 0


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
        return not snapshot.over or snapshot.result == index.revision


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
    if not all(answer.settled for answer in answers):
        _watch(running.job, answers)
    if unread := max(answer.unread for answer in answers):
        st.caption(
            f"The language model did not read {text.count(unread, 'review')}: a limit in settings.toml is reached."
        )
    return answers


@st.fragment(run_every=_REFRESH_SECONDS)
def _watch(job: Job, shown: Sequence[LiveAnswer]) -> None:
    """Show how many texts are read, and draw the page again when a search has settled."""
    snapshot = job.snapshot()
    if snapshot.over or snapshot.progress != shown:
        state.rerun()
    line = reading_line(sum(answer.read for answer in snapshot.progress if not answer.settled))
    st.caption(f":material/hourglass_top: {line}")


def start(jobs: Jobs, index: Index, requests: Sequence[SearchRequest]) -> Job:
    """Begin searches that go together and wait for the first answer of each.

    The job's progress is a tuple of an `LiveAnswer` for every request, its result the index's revision at its end.
    """
    job = jobs.begin("The search", lambda job: _search(job, index, requests))
    job.wait_told(FIRST_SECONDS)
    return job


@FOREGROUND.waited_for()
def _search(job: Job, index: Index, requests: Sequence[SearchRequest]) -> int:
    answers: list[LiveAnswer] = []

    def reporting(place: int) -> OnTexts:
        def report(done: int, texts: int) -> None:
            job.check()
            answers[place] = replace(answers[place], read=done)
            job.tell(tuple(answers))

        return report

    begun = [_first(index, request, reporting(place)) for place, request in enumerate(requests)]
    answers += [answer for answer, _ in begun]
    job.tell(tuple(answers))
    for place, (answer, rest) in enumerate(begun):
        if not answer.settled:
            answers[place] = replace(_last(job, answer, rest), unread=index.teaching.spent.unread)
            job.tell(tuple(answers))
    return index.revision


def _first(index: Index, request: SearchRequest, on_texts: OnTexts) -> tuple[LiveAnswer, Iterator[SearchResult]]:
    """Return the first answer, and those that come after it."""
    answers = index.search_progressively(request, on_texts)
    result = next(answers)
    first = tuple(hit.document.id for hit in result.hits)
    return LiveAnswer(result, result.final, first), answers


def _last(job: Job, answer: LiveAnswer, rest: Iterator[SearchResult]) -> LiveAnswer:
    with _READING:
        job.check()
        *_, result = answer.result, *rest
    return LiveAnswer(result, True, answer.first)
