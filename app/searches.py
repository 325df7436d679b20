"""Searches that go on while their first answer is looked at."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retriever.core.errors import InputError
from retriever.services.encoding import view_key
from retriever.services.results import SearchResult
from retriever.services.searching import SearchRequest
from retriever.services.workspace import Index
from retriever.store.filters import parse_filter
from retriever_app.jobs import Job, begin
from retriever_app.view_models.search import Question

FIRST_SECONDS = 120.0
"""How long a page waits for a first answer; the model may have to be loaded for it."""

_READING = threading.Lock()  # one search at a time reads candidates, so that none waits for all


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known so far.

    Attributes:
        result: the hits.
        settled: whether this is the last word.
        first: ids of the first answer's hits, in order.
    """

    result: SearchResult
    settled: bool
    first: tuple[str, ...]


@dataclass(slots=True)
class Running:
    """A session's search.

    Attributes:
        name: of the index.
        request: what is searched for: one request, or several that go together.
        job: the work.
        revision: the index's, once the search is over: its own vectors have moved it.
    """

    name: str
    request: SearchRequest | tuple[SearchRequest, ...]
    job: Job
    revision: int | None = None

    def answers(self, name: str, request: SearchRequest | tuple[SearchRequest, ...], revision: int) -> bool:
        """Return whether this is the answer to a request on the index as it is now."""
        if (self.name, self.request) != (name, request):
            return False
        snapshot = self.job.snapshot()
        if not snapshot.over:
            return True
        if self.revision is None:
            self.revision = revision
        return self.revision == revision and snapshot.error is None


def search_request(index: Index, question: Question, where: str | None) -> SearchRequest:
    """Return the request behind a question.

    Raises:
        InputError: the review whose likes are wanted is gone.
        UsageError: the question makes no sense.
        FilterError: the filter names an unknown field.
    """
    condition = parse_filter(where) if where else None
    steps = question.steps or None
    if not question.like:
        return SearchRequest([question.q], question.instruction, question.k, condition, question.mode, steps)
    document = index.store.documents.get([question.like]).get(question.like)
    if document is None:
        raise InputError(f"The review {question.like!r} is gone.", hint="Search for something else.")
    return SearchRequest(
        [document.text], question.instruction, question.k, condition, "dense", steps, like=question.like
    )


def start(index: Index, request: SearchRequest) -> Job:
    """Begin a search and wait for its first answer, an `Answer` in the job's progress."""
    job = begin("The search", lambda job: _search(job, index, request))
    job.wait_told(FIRST_SECONDS)
    return job


def start_several(index: Index, requests: Sequence[SearchRequest]) -> Job:
    """Begin searches that go together and wait for the first answer of each.

    The job's progress is a tuple of an `Answer` for every request.
    """
    job = begin("The searches", lambda job: _search_several(job, index, requests))
    job.wait_told(FIRST_SECONDS)
    return job


def _search(job: Job, index: Index, request: SearchRequest) -> None:
    answer, rest = _first(index, request)
    job.tell(answer)
    if not answer.settled:
        job.tell(_last(job, answer, rest))


def _search_several(job: Job, index: Index, requests: Sequence[SearchRequest]) -> None:
    begun = [_first(index, request) for request in requests]
    answers = [answer for answer, _ in begun]
    job.tell(tuple(answers))
    for place, (answer, rest) in enumerate(begun):
        if not answer.settled:
            answers[place] = _last(job, answer, rest)
            job.tell(tuple(answers))


def _first(index: Index, request: SearchRequest) -> tuple[Answer, Iterator[list[SearchResult]]]:
    """Return the first answer, and those that come after it."""
    answers = index.search_progressively(request)
    result = next(answers)[0]
    first = tuple(hit.document.id for hit in result.hits)
    return Answer(result, not _goes_on(index, result), first), answers


def _last(job: Job, answer: Answer, rest: Iterator[list[SearchResult]]) -> Answer:
    result = answer.result
    with _READING:
        job.check()
        for results in rest:
            result = results[0]
    return Answer(result, True, answer.first)


def _goes_on(index: Index, result: SearchResult) -> bool:
    """Return whether a first answer is only the base view's, for want of the instruction's own."""
    if result.path != "base" or result.view is None:
        return False
    return view_key(index.encoder, result.instruction).instruction != ""
