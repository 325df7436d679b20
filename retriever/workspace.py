"""An index as one object: the composition root that ties encoder, database and vector indexes together."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from retriever.clusters.budget import BUDGET, Read
from retriever.clusters.part import Clusterings
from retriever.core.arguments import require
from retriever.core.contexts import Closing
from retriever.core.errors import InputError
from retriever.core.options import takes_options
from retriever.core.protocols import Encoder
from retriever.core.requests import IndexType, SearchOptions, SearchRequest
from retriever.core.results import IndexingReport, IndexStatus, OnIndexing, SearchResult, ViewStatus
from retriever.core.text import composed, normal_instruction
from retriever.core.types import Document, Embeddings
from retriever.index import completing
from retriever.index.asking.limits import ReadingLimits
from retriever.index.encoding import Loader, OnTexts
from retriever.index.files import as_read
from retriever.index.filtering import request_filter
from retriever.index.given import Given
from retriever.index.indexing import IndexingOptions
from retriever.index.listing import Documents
from retriever.index.opened import Opened
from retriever.index.search.patterns import found_by_pattern
from retriever.index.search.reranking import reranked, widened
from retriever.index.search.searcher import Searcher
from retriever.index.sources.encoders import BaseEncoder
from retriever.index.status import index_status, texts_read, view_states
from retriever.index.teaching.active_learning import Groups
from retriever.index.teaching.part import Teaching
from retriever.index.upkeep.part import Upkeep
from retriever.index.verdicts.stored import stored_verdict

if TYPE_CHECKING:
    from retriever.clusters.categories import Category
    from retriever.clusters.clustering import Clustering

_ANY = "any"  # in the place of the query, where requests that differ in it alone are brought together


class Index(Closing):
    """A corpus that can be searched under any instruction. A context manager; safe to read from several threads.

    Its files are open from the first use until `close`, or until nobody holds the object any more.

    >>> with Index(Path("new")) as index:
    ...     index.search("a broken lid")
    Traceback (most recent call last):
    retriever.core.errors.IndexNotFoundError: There is no index at new/corpus.sqlite3. Make one with `retriever index`.

    Attributes:
        path: the index folder.
        teaching: its part that learns what questions mean.
        clusterings: its part that saves clusters and categories.
        upkeep: its part that keeps it in order.

    Args:
        path: the index folder; made by the first `add`.
        encoder: what follows instructions; None takes the one the index was made with, ``default`` for a new one.
        plain: what fills the base view: an encoder, or ``none`` for ``encoder``. None takes what the index was made
            with; for a new one `minilm` where no encoder is given, else none.
        device: where loaded encoders run.
        load: gives an encoder that the index describes; None loads it on ``device``.
        search_options: how far searches go; None for the defaults.
        limits: the most that language models are asked as long as the index is open; None for no limit.

    Raises:
        UsageError: what was given is no `Encoder`.
    """

    def __init__(
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        plain: BaseEncoder | None = None,
        device: str = "auto",
        load: Loader | None = None,
        search_options: SearchOptions | None = None,
        limits: ReadingLimits | None = None,
    ) -> None:
        self.path = path
        self._opened = Opened(
            path, encoder=encoder, plain=plain, device=device, load=load, search_options=search_options, limits=limits
        )
        self._divide()

    def _divide(self) -> None:
        self.teaching = Teaching(self._opened, _grouped)
        self.clusterings = Clusterings(self._opened)
        self.upkeep = Upkeep(self._opened)

    @property
    def identity(self) -> str:
        """Key that tells this index from all others, also from one that was in its folder before; to key caches by."""
        return f"{self.path} {self._opened.store.identity()}"

    @property
    def revision(self) -> int:
        """A number that grows with every change of documents, vectors or views, whichever process makes it."""
        return self._opened.store.data_version()

    def close(self) -> None:
        """Close the database."""
        self._opened.close()

    def get(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return documents by their ids, and their parts by theirs; ids that are not there are left out."""
        require(Iterable[str], ids=ids)
        return self._opened.store.documents.get(list(ids))

    def documents(self, instruction: str | None = None, *, where: str | None = None) -> Documents:
        """Return the documents to iterate, or as a table: ``index.documents(where="stars <= 2").to_pandas()``.

        Args:
            instruction: whose words and groups are columns of the table; None or blank for none.
            where: a filter over metadata, and over the answers to the instruction that are known.

        Raises:
            FilterError: the filter cannot be parsed, names an unknown field, or asks for answers that nobody gives.
            InputError: no text was read under the instruction.
        """
        require(str | None, instruction=instruction, where=where)
        question = normal_instruction(instruction or "") or None
        condition = request_filter(self._opened.store, where, question)
        return Documents(self._opened, condition, question, lambda: self.clusterings.groups(question or ""))

    def add(
        self,
        documents: Given,
        *,
        id_field: str | None = None,
        text_field: str | None = None,
        instructions: Sequence[str] = (),
        options: IndexingOptions | None = None,
        index_type: IndexType | None = None,
        progress: OnIndexing | None = None,
    ) -> IndexingReport:
        """Insert or update documents by id, embedding what views lack, under every instruction at once.

        Filled are the base view, the views of the instructions, and every view that was asked for before; lazy ones,
        which searches fill, are left. Whatever interrupts the run, whole batches stay, and the same call goes on from
        there.

        Args:
            documents: a list, a generator or a table of documents. A document is a `Document`; a mapping such as
                ``{"id": "r-17", "text": "The lid broke.", "stars": 2}``, whose fields are recognised as those of files
                are; a string; or a document of LangChain or LlamaIndex. A table is a DataFrame of pandas (an index
                that has a name is a column), or whatever streams Arrow: of Polars, DuckDB or pyarrow. What has no id
                gets one of its text and metadata, the same whenever it is given again. Values are stored as JSON:
                dates as ISO strings, NaN as null, in mappings and tables as if it were absent. Mappings that cannot
                be documents, and bad rows, go to quarantine. Ratings and dates in metadata are rewritten as those of
                files are: "4 out of 5 stars" as 4, "3 May 2024" as 2024-05-03. Everything is read in the caller's
                thread.
            id_field: the field of mappings and tables that holds the id, or the path of keys to it; None recognises it.
            text_field: likewise the text.
            instructions: further views to complete.
            options: what to do with long texts, whether to delete what is gone, what to embed and how.
            index_type: the vector index to build from now on; None for what the index remembers.
            progress: called with the growing report.

        Raises:
            UsageError: an argument is of another type, or an item is no document: before anything is made, unless
                items of a generator come before it, which are stored. Or the index holds documents, of which something
                else is embedded.
            InputError: none of the first thousand rows can be a document.
            IndexLockedError: another process writes to this index.
            EncoderMismatchError: the index was made with another encoder.
        """
        require(str | None, id_field=id_field, text_field=text_field)
        require(Sequence[str], instructions=instructions)
        require(IndexingOptions | None, options=options)
        require(IndexType | None, index_type=index_type)
        raw = options is not None and options.raw
        rows = as_read(documents, id_field=id_field, text_field=text_field, raw=raw)
        return completing.add(self._opened, rows, instructions, options, index_type, progress)

    @takes_options(SearchRequest)
    def search(self, request: SearchRequest) -> SearchResult:
        """Return the k documents that answer a query best, that resemble a document, or that a pattern is in.

        Takes the options of `SearchRequest`: ``index.search("it broke", instruction="Which product is it?", k=5)``.

        Raises:
            EncoderError: steps are asked for and the encoder has none.
            UsageError: as `SearchRequest`; or the instruction is too long, or the regular expression takes too long.
            InputError: there is no document that hits are to resemble.
            FilterError: the filter cannot be parsed, names an unknown field, or asks for answers that nobody gives.
        """
        return self.search_many([request])[0]

    def search_many(self, requests: Sequence[SearchRequest]) -> list[SearchResult]:
        """Return the results of several searches; queries whose other options are equal are searched together.

        Errors as `search`.
        """
        require(Sequence[SearchRequest], requests=requests)
        groups: dict[SearchRequest, list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault(replace(request, query=request.query and _ANY), []).append(row)
        results: dict[int, SearchResult] = {}
        for rows in groups.values():
            *_, last = self._answers([requests[row] for row in rows])
            results.update(zip(rows, last, strict=True))
        return [results[row] for row in range(len(requests))]

    def search_progressively(self, request: SearchRequest, on_texts: OnTexts | None = None) -> Iterator[SearchResult]:
        """Yield answers as they get better: a first one where the instruction's view lacks texts, then the last.

        ``on_texts`` is told how many of the texts that are read for the last one are read. Errors as `search`.
        """
        return (results[0] for results in self._answers([request], on_texts))

    def search_stored(self, request: SearchRequest) -> SearchResult:
        """Return the answer to a search by what is stored under its instruction: nothing is read, and nobody is asked.

        It is not final where a search would read on. Errors as `search`.
        """
        if request.by_pattern_alone:
            return found_by_pattern(self._opened.store, request)
        queries, request = self._queries([request])
        (result,) = Searcher(self._opened).stored(queries, widened(self._opened, request))
        return self._finished(result, request, asks=False)

    def search_anew(self, request: SearchRequest, *, keep: bool = False) -> SearchResult:
        """Return the answer to a search by all that is read under its instruction by now; nothing more is read.

        A search gives the list that it settled on, whatever is read afterwards; this is the list as it would be now.
        With ``keep`` the search gives this one from now on. Errors as `search`.
        """
        if request.by_pattern_alone:
            return found_by_pattern(self._opened.store, request)
        queries, request = self._queries([request])
        (result,) = Searcher(self._opened).anew(queries, widened(self._opened, request), keep=keep)
        return self._finished(result, request, asks=False)

    def answer_state(self, instruction: str | None) -> str:
        """Name the state that answers under an instruction rest on; to key caches by.

        It changes with the documents and with what serves the instruction, and not where more texts are read under it.
        Where answers in words serve it, it changes with every change of the index.
        """
        source = self._opened.known_sources.active(instruction or "")
        if source is not None and source.in_words:
            return str(self.revision)
        return f"{self._opened.store.documents_revision()} {None if source is None else source.view_id}"

    def _answers(
        self, requests: Sequence[SearchRequest], on_texts: OnTexts | None = None
    ) -> Iterator[list[SearchResult]]:
        """Yield the results of requests that differ in their query alone, as they get better."""
        request = requests[0]
        if request.reader is not None and request.instruction is not None:
            self.teaching.read_by(request.instruction, request.reader)
        if request.by_pattern_alone:
            yield [found_by_pattern(self._opened.store, request)] * len(requests)
            return
        queries, request = self._queries(requests)
        views = self._opened.views
        for results in Searcher(self._opened).search(queries, widened(self._opened, request), on_texts):
            views.note_use(result.view for result in results if result.view is not None)
            yield [self._finished(result, request, asks=True) for result in results]
        views.shrink()
        self._opened.budget.save()

    def _finished(self, result: SearchResult, request: SearchRequest, *, asks: bool) -> SearchResult:
        """Return the first k hits of a search with their ratings and verdict, the final ones as its reranker says."""
        result = reranked(self._opened, result, request, asks=asks)
        return self._opened.views.calibration.rated(self._with_verdict(result))

    def _queries(self, requests: Sequence[SearchRequest]) -> tuple[list[str], SearchRequest]:
        """Return the texts that are looked for, and the options of all requests."""
        request = requests[0]
        if request.like is None:
            return [variant.query or "" for variant in requests], request
        like = self._resembled(request.like)
        return [like.text] * len(requests), replace(request, like=like.parent_id)

    def _resembled(self, id: str) -> Document:
        """Return the document or the part of an id.

        Raises:
            InputError: there is none.
        """
        documents = self.get([id, composed(id)])
        document = documents.get(id) or documents.get(composed(id))
        if document is None:
            raise InputError(f"There is no document {id!r}.", hint="Ids are those of the corpus.")
        return document

    def _with_verdict(self, result: SearchResult) -> SearchResult:
        """Return a result with what is stored on its view: nothing is read or worked out for it."""
        if result.view is None or not result.instruction:
            return result
        return replace(result, verdict=stored_verdict(self._opened.store, result.view))

    def rerankers(self) -> list[str]:
        """Return the names of the rerankers whose scores are kept, sorted."""
        return self._opened.store.reranked.names()

    def cluster(  # noqa: PLR0913 - one parameter per option
        self,
        instruction: str | None = None,
        *,
        k: int | None = None,
        where: str | None = None,
        by: Sequence[str] = (),
        ids: Collection[str] | None = None,
        into: "Sequence[str | Category]" = (),
        several: bool = False,
        read: Read = BUDGET,
        progress: OnIndexing | None = None,
    ) -> "Clustering":
        """Return documents in groups that answer an instruction; those that its view lacks are embedded first.

        Groups are clusters of vectors, or the answers that examples taught. Where a language model serves the
        instruction they are categories that it writes of its answers; with ``into`` they are those that it names.

        Args:
            instruction: what the groups are to answer; None or blank for the base view.
            k: how many; None to choose, or for a group of each answer that the question was taught. Of categories that
                a language model writes, the most.
            where: a filter over metadata, and over the answers to the instruction that are known.
            by: metadata fields whose values are counted in every group.
            ids: the documents to cluster, those of one cluster say; None for all.
            into: categories, or their names, that documents are put to: each to the one that answers the instruction
                best, or to none. Examples that they name are kept as answers of a person.
            several: whether a document may belong to several of them.
            read: texts that a language model reads, where one serves the instruction: a number or ``all``. Groups are
                of these, and their shares of all texts are estimated.
            progress: called with the growing report while the view is completed.

        Raises:
            UsageError: an argument is of another type, k is larger than the corpus, a field is not there, or the
                categories cannot be told apart.
            InputError: the filter matches nothing, none of the ids is there, or an example is no document.
            FilterError: the filter cannot be parsed, names an unknown field, or asks for answers that nobody gives.
        """
        from retriever.clusters.categories import Category, as_categories
        from retriever.clusters.clustering import ClusterRequest  # scikit-learn takes a second to load

        require(str | None, instruction=instruction, where=where)
        require(int | None, k=k)
        require(Sequence[str], by=by)
        require(Collection[str] | None, ids=ids)
        require(Sequence[str | Category], into=into)
        chosen = None if ids is None else frozenset(ids)
        condition = request_filter(self._opened.store, where, instruction)
        categories = as_categories(into)
        request = ClusterRequest(instruction, k, condition, tuple(by), chosen, read, categories, several)
        return self.clusterings.of([request], progress=progress)[0]

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents from every view at once; return the ids that were there.

        Raises:
            UsageError: the ids are no list of strings.
        """
        require(Iterable[str], ids=ids)
        with self._opened.writing("delete"), self._opened.store.transaction():
            return self._opened.store.documents.delete(ids)

    def views(self) -> list[ViewStatus]:
        """Return the state of every view."""
        return view_states(self._opened.store)

    def texts_read(self, view: int) -> tuple[int, int]:
        """Return how many distinct texts have a vector in a view, by its id, and how many texts there are."""
        return texts_read(self._opened.store, view)

    def status(self) -> IndexStatus:
        """Report what the index holds, and how its last runs went."""
        return index_status(self._opened.store, self.path)


def _grouped(vectors: Embeddings, k: int) -> Groups:
    """Put vectors (n, dim) into k clusters."""
    from retriever.clusters.arithmetic.kmeans import spherical_kmeans

    return spherical_kmeans(vectors, k)


def limited(index: Index, limits: ReadingLimits) -> Index:
    """Return an index with limits of its own: for one of several readings that share its files and encoders.

    The index stays open as long as what is returned is used. Beyond the limits texts stay unread.
    """
    other = copy(index)
    other._opened = index._opened.limited(limits)
    other._divide()
    return other
