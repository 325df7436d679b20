"""Which texts somebody who reads for an index reads next, and how far a question is answered in words.

No text is read for this, and no language model is asked.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Ids
from retriever.index.opened import Opened
from retriever.index.search.searcher import Searcher
from retriever.index.sources.answers import Answers
from retriever.index.sources.source import Source
from retriever.index.teaching.answering import question_of
from retriever.index.teaching.examples import LEAST
from retriever.store.answers import GIVEN

_FURTHER = 4  # times as deep a search goes on where too many of its hits are answered


@dataclass(frozen=True, slots=True)
class AnswersStatus:
    """The state of a question that is answered in words.

    Attributes:
        reader: who reads texts under the question: ``given`` where answers are handed in alone; empty where nothing
            was read yet.
        answers: distinct texts that have an answer, of the reader or handed in.
        texts: distinct texts of the index.
        vectors: of the view that serves the question; answers become vectors at its next search or completion.
    """

    reader: str
    answers: int
    texts: int
    vectors: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The texts that have an answer in words to a question, given or by the reader that serves it.

    Attributes:
        question: as answers are kept under it.
        shown: what serves it; None where nothing was read yet.
        author: whose answers count besides those that were given: a fingerprint, or `GIVEN`.
        contents: the texts, ascending.
    """

    question: str
    shown: Source | None
    author: str
    contents: Ids


def answered(opened: Opened, instruction: str) -> Answered:
    """Return which texts have an answer to a question.

    Raises:
        UsageError: there is no question.
    """
    question, shown = question_of(instruction), opened.known_sources.active(instruction)
    author = shown.by.fingerprint if isinstance(shown, Answers) else GIVEN
    return Answered(question, shown, author, opened.store.answers.held(author, question))


def answers_status(opened: Opened, instruction: str) -> AnswersStatus:
    """Return how far a question is answered in words; errors as `answered`."""
    store, known = opened.store, answered(opened, instruction)
    live, shown = store.documents.live_contents(), known.shown
    answers = len(np.intersect1d(known.contents, live))
    if shown is None:
        return AnswersStatus("", answers, len(live), 0)
    return AnswersStatus(shown.name, answers, len(live), store.vectors.count_live(shown.view_id))


def answered_by(opened: Opened, instruction: str) -> dict[str, int]:
    """Count the distinct texts that have an answer to a question by who gave it, as `Teaching.answered_by` does."""
    store, known = opened.store, answered(opened, instruction)
    live = set(store.documents.live_contents().tolist())
    authors = store.answers.authors(known.author, known.question).items()
    reader = "" if known.shown is None else known.shown.name
    return dict(Counter(reader if by == known.author else by for content, by in authors if content in live))


def refusals(opened: Opened, instruction: str) -> str:
    """Return why texts have no answer of a language model to a question, as `Teaching.refusals` does."""
    from retriever.encoders.answers.answerer import Unread, explained

    known = answered(opened, instruction)
    refused = opened.store.answers.refused(known.author, known.question)
    missing = np.setdiff1d(opened.store.documents.live_contents(), known.contents).tolist()
    return explained(Counter(Unread(refused[content]) for content in missing if content in refused))


def unanswered_hits(opened: Opened, query: str, count: int, answered: Collection[int]) -> list[Document]:
    """Return the best hits of a query, best first, whose texts are not among those answered, by content ids.

    The base encoder and words search for them: nobody knows yet what a text answers to the question.
    """
    searcher = Searcher(opened, asks=False)
    depth = 2 * count
    while True:
        *_, (result,) = searcher.search([query], SearchRequest(query, k=depth))
        read = [hit.document if hit.unit is None else hit.unit for hit in result.hits]
        known = opened.store.documents.known([document.text for document in read])
        left = [document for document in read if known.get(document.text) not in answered]
        if len(left) >= count or len(read) < depth:
            return left[:count]
        depth *= _FURTHER


def wanted_hits(opened: Opened, answers: Sequence[str], count: int, ids: Collection[str]) -> list[Document]:
    """Return documents to be given one of some answers: the best hit of each answer, then the second of each.

    At most ``count`` are returned, with different texts; documents whose texts those of ``ids`` have are left out.
    """
    known = set(opened.store.documents.contents_of(ids).tolist())
    hits = [unanswered_hits(opened, answer, LEAST, known) for answer in answers]
    in_turn = filter(None, chain.from_iterable(zip_longest(*hits)))
    return list({document.text: document for document in in_turn}.values())[:count]
