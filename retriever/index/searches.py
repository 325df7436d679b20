"""The ways to search an index, whatever holds it: one folder, or shards of a corpus."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from retriever.core.errors import InputError
from retriever.core.requests import SearchRequest
from retriever.core.results import Mode, SearchResult
from retriever.core.types import Document, parent_id
from retriever.index.encoding import OnTexts


class Searches(ABC):
    """What can be searched."""

    def search(  # noqa: PLR0913 - one parameter a setting
        self,
        query: str,
        *,
        instruction: str | None = None,
        k: int = 10,
        where: str | None = None,
        mode: Mode = "auto",
        steps: int | None = None,
        more: Sequence[str] = (),
        less: Sequence[str] = (),
        regex: str | None = None,
    ) -> SearchResult:
        """Return the k documents that answer a query best under an instruction.

        Args:
            query: what to look for.
            instruction: what to look at; None or empty for the default.
            k: hits wanted; fewer only if fewer match.
            where: a filter over metadata, such as ``stars <= 2 and category = 'toy'``.
            mode: dense, lexical, hybrid, or auto.
            steps: K for the query, where the encoder is GIRCSE; None for its own.
            more: ids of documents that the hits should resemble as well (Rocchio's formula in the view).
            less: ids of documents that they should not.
            regex: a regular expression that the text of every hit holds.

        Raises:
            EncoderError: steps are asked for and the encoder has none.
            UsageError: k is below 1, the query is empty, the instruction too long, or the regular expression is none
                or takes too long.
            InputError: a document of ``more`` or ``less`` is not there.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        request = SearchRequest(
            [query], instruction or "", k, where, mode, steps, more=tuple(more), less=tuple(less), regex=regex
        )
        return self.search_many(request)[0]

    def search_like(
        self,
        document_id: str,
        *,
        instruction: str | None = None,
        k: int = 10,
        where: str | None = None,
        mode: Mode = "auto",
        steps: int | None = None,
        regex: str | None = None,
    ) -> SearchResult:
        """Return the k documents that resemble a document under an instruction, itself left out.

        Args:
            document_id: of the document, or of a unit of one, which hits are then to resemble.
            instruction: as for `search`.
            k: as for `search`.
            where: as for `search`.
            mode: auto or dense, which are the same here.
            steps: as for `search`.
            regex: as for `search`.

        Raises:
            InputError: there is no such document.
            UsageError: the mode goes by words.
        """
        like = self.meant(document_id)
        if like is None:
            raise InputError(f"There is no document {document_id!r}.", hint="Ids are those of the corpus.")
        request = SearchRequest([like.text], instruction or "", k, where, mode, steps, parent_id(like), regex=regex)
        return self.search_many(request)[0]

    def search_many(self, request: SearchRequest) -> list[SearchResult]:
        """Return one result per query of the request."""
        *_, last = self.search_progressively(request)
        return last

    @abstractmethod
    def search_progressively(
        self, request: SearchRequest, on_texts: OnTexts | None = None
    ) -> Iterator[list[SearchResult]]:
        """Yield answers as they get better: a first one where the instruction's view lacks texts, then the last.

        ``on_texts`` is told how many of the texts that are read for the last one are read.
        """

    @abstractmethod
    def meant(self, id: str) -> Document | None:
        """Return the document of an id, or None."""
