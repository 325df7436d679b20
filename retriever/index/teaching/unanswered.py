"""Which texts somebody who reads for an index reads next, and how far a question is answered in words.

No text is read for this, and no language model is asked.
"""

from collections.abc import Collection
from dataclasses import dataclass

from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Ids
from retriever.index.opened import Opened
from retriever.index.search.searcher import Searcher
from retriever.index.sources.answers import Answers
from retriever.index.teaching.answering import question_of
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


def answered_contents(opened: Opened, instruction: str) -> Ids:
    """Return the texts that have an answer to a question, given or by the reader that serves it, ascending.

    Raises:
        UsageError: there is no question.
    """
    return opened.store.answers.held(answering_author(opened, instruction), question_of(instruction))


def answering_author(opened: Opened, instruction: str) -> str:
    """Return whose answers to a question count besides those that were given: a fingerprint, or `GIVEN`."""
    source = opened.known_sources.active(instruction)
    return source.by.fingerprint if isinstance(source, Answers) else GIVEN


def unanswered_hits(opened: Opened, query: str, count: int, answered: Collection[int]) -> list[Document]:
    """Return the best hits of a query whose texts are not answered yet, best first.

    The base encoder and words search for them: nobody knows yet what a text answers to the question.

    Args:
        opened: the index.
        query: what is searched for.
        count: hits at most.
        answered: content ids of the texts that are left out.
    """
    searcher = Searcher(opened.store, opened.views, lambda: opened.sources, opened.search_options)
    depth = 2 * count
    while True:
        *_, (result,) = searcher.search([query], SearchRequest(query, k=depth))
        read = [hit.document if hit.unit is None else hit.unit for hit in result.hits]
        known = opened.store.documents.known([document.text for document in read])
        left = [document for document in read if known.get(document.text) not in answered]
        if len(left) >= count or len(read) < depth:
            return left[:count]
        depth *= _FURTHER
