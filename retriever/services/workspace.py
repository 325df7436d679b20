"""An index as one object: the composition root that ties encoder, database and FAISS together."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from retriever.core.errors import InputError
from retriever.core.types import BadRow, Document, Ids
from retriever.services import encoding
from retriever.services.generations import IndexType, build_outgrown
from retriever.services.index_status import index_status, view_states
from retriever.services.indexing import Indexer, IndexingOptions, Progress
from retriever.services.open_index import OpenIndex
from retriever.services.query_steps import Steps
from retriever.services.results import IndexingReport, IndexStatus, Mode, SearchResult, ViewStatus
from retriever.services.searching import Searcher, SearchRequest
from retriever.services.selection import nothing_matches, selected_contents
from retriever.services.view_search import ViewSearcher
from retriever.services.view_upkeep import compact, drop_views, lazy_limit, set_lazy_limit, views_of
from retriever.store.filters import optional_filter
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.services.clustering import Clustering, ClusterRequest
    from retriever.services.saved_clusterings import SavedClustering


class Index(OpenIndex):
    """A corpus that can be searched under any instruction. A context manager; safe to read from several threads.

    Args:
        path: the index folder; made by the first `add`.
        encoder: what to embed with; None takes the one the index was made with, ``default`` for a new one.
        device: where a loaded encoder runs.
        load: gives the encoder that the index describes; None loads it on ``device``.
    """

    def add(
        self,
        documents: Iterable[Document | BadRow],
        *,
        instructions: Sequence[str] = (),
        options: IndexingOptions | None = None,
        index_type: IndexType | None = None,
        progress: Progress | None = None,
    ) -> IndexingReport:
        """Insert or update documents by id, embedding new and changed texts under every instruction at once.

        Whatever interrupts the run, whole shards of a thousand stay, and the same call goes on from there.

        Args:
            documents: documents, and bad rows to put in quarantine.
            instructions: views to complete besides the base view.
            options: what to do with long texts, and whether to delete what is gone.
            index_type: the FAISS index to build.
            progress: called with the growing report.

        Raises:
            IndexLockedError: another process writes to this index.
            EncoderMismatchError: the index was made with another encoder.
        """
        with self._writing("index") as run_id:
            indexer = Indexer(self.store, self.encoder, instructions, options=options, progress=progress)
            report = indexer.run(documents, run_id)
            build_outgrown(self.store, indexer.views, self.path, index_type or IndexType())
            self.store.runs.progress(run_id, report.to_json())
        return report

    def search(
        self,
        query: str,
        *,
        instruction: str = "",
        k: int = 10,
        where: str | None = None,
        mode: Mode = "auto",
        steps: Steps = None,
    ) -> SearchResult:
        """Return the k documents that answer a query best under an instruction.

        Args:
            query: what to look for.
            instruction: what to look at; empty for the default.
            k: hits wanted; fewer only if fewer match.
            where: a filter over metadata, such as ``stars <= 2 and category = 'toy'``.
            mode: dense, lexical, hybrid, or auto.
            steps: K for the query, where the encoder is GIRCSE; ``auto`` for more where its first hits are close.

        Raises:
            EncoderError: steps are asked for and the encoder has none.
            UsageError: k is below 1, the query is empty, or the instruction too long.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        request = SearchRequest([query], instruction, k, optional_filter(where), mode, steps)
        return self.search_many(request)[0]

    def search_like(
        self, document_id: str, *, instruction: str = "", k: int = 10, where: str | None = None, steps: Steps = None
    ) -> SearchResult:
        """Return the k documents that resemble a document under an instruction, itself left out.

        Raises:
            InputError: there is no such document.
        """
        found = self.store.documents.get([document_id])
        if document_id not in found:
            raise InputError(f"There is no document {document_id!r}.", hint="Ids are those of the corpus.")
        condition = optional_filter(where)
        request = SearchRequest([found[document_id].text], instruction, k, condition, "dense", steps, document_id)
        return self.search_many(request)[0]

    def search_many(self, request: SearchRequest) -> list[SearchResult]:
        """Return one result per query of the request."""
        *_, last = self.search_progressively(request)
        return last

    def search_progressively(self, request: SearchRequest) -> Iterator[list[SearchResult]]:
        """Yield answers as they get better: under a new instruction the base view's at once, then the final ones."""
        views = self._open_views
        for results in Searcher(self.store, lambda: self.encoder, views.searcher, views.keep).search(request):
            views.note_use(one.view for one in results if one.view is not None)
            yield [views.calibration.rated(one) for one in results]
        views.shrink()

    def searcher(self, view: View) -> ViewSearcher:
        """Return the searcher of a view, with its FAISS index opened once."""
        return self._open_views.searcher(view)

    def cluster(  # noqa: PLR0913 - one parameter a setting
        self,
        instruction: str = "",
        *,
        k: int | None = None,
        where: str | None = None,
        min_size: int = 1,
        by: Sequence[str] = (),
        over: str | None = None,
        seed: int = 0,
        levels: int = 1,
        ids: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> "Clustering":
        """Return documents in clusters that answer an instruction; those that its view lacks are embedded first.

        Args:
            instruction: what the clusters are to answer; empty for the default.
            k: how many; None to choose by silhouette.
            where: a filter over metadata.
            min_size: clusters with fewer documents are given up.
            by: metadata fields whose values are counted in every cluster.
            over: a metadata field with dates, by whose months documents are counted.
            seed: of k-means.
            levels: most levels of clusters of clusters, the clusters themselves counted.
            ids: the documents to cluster, those of one cluster say; None for all.
            progress: called with the growing report while the view is completed.

        Raises:
            UsageError: k is larger than the corpus, or a field is not there.
            InputError: the filter matches nothing, or none of the ids is there.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        from retriever.services.clustering import ClusterRequest  # scikit-learn takes a second to load

        chosen = None if ids is None else frozenset(ids)
        request = ClusterRequest(instruction.strip(), k, where, min_size, tuple(by), over, seed, levels, chosen)
        return self._clustered([request], progress)[0]

    def cluster_each(
        self,
        instructions: Sequence[str],
        *,
        k: int | None = None,
        where: str | None = None,
        progress: Progress | None = None,
    ) -> "list[Clustering]":
        """Return one clustering of the same documents per instruction; what the views lack is embedded in one pass.

        Args:
            instructions: as for `cluster`, one or more.
            k: as for `cluster`.
            where: as for `cluster`.
            progress: as for `cluster`.

        Raises:
            UsageError: as `cluster`.
            InputError: as `cluster`.
            FilterError: as `cluster`.
        """
        from retriever.services.clustering import ClusterRequest

        return self._clustered([ClusterRequest(one.strip(), k, where) for one in instructions], progress)

    def _clustered(self, requests: "Sequence[ClusterRequest]", progress: Progress | None) -> "list[Clustering]":
        """Return the clusterings of requests that differ in their instruction alone."""
        from retriever.services.clustering import check, cluster

        instructions, one = [each.instruction for each in requests], requests[0]
        lacking = self.lacking(instructions, where=one.where, ids=one.ids)
        if len(lacking):
            check(self.store, one)
        part = one.where is not None or one.ids is not None
        views = self._completed(instructions, lacking, part=part, progress=progress)
        return [cluster(self.store, view, each) for view, each in zip(views, requests, strict=True)]

    def save_clustering(self, name: str, found: "Clustering") -> None:
        """Save a clustering under a new name.

        Raises:
            UsageError: the name is empty or taken.
        """
        from retriever.services.saved_clusterings import save

        with self._writing("save"), self.store.transaction():
            save(self.store, name, found, self.encoder.fingerprint)

    def saved_clustering(self, name: str, *, progress: Progress | None = None) -> "SavedClustering":
        """Return a saved clustering; documents indexed since are embedded and put to the nearest cluster.

        Where it is of a filter, only documents that this accepts are.

        Raises:
            InputError: there is none of that name.
            IndexDamagedError: it is damaged.
            EncoderMismatchError: the index has another encoder by now.
        """
        from retriever.services.saved_clusterings import shown_again, stored_clustering

        stored = stored_clustering(self.store, name, self.encoder.fingerprint)
        instruction, where = stored.document["instruction"], stored.document["where"]
        view = self.complete([instruction], where=where, progress=progress)[0]
        return shown_again(self.store, view, stored)

    def complete(
        self,
        instructions: Sequence[str],
        *,
        where: str | None = None,
        ids: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> list[View]:
        """Embed what the views of some instructions lack, all in one pass, and return the views.

        Nothing but their use is noted where nothing is lacking. Whatever interrupts it, whole shards stay. Completed
        for a part of the documents, a view stays lazy.

        Args:
            instructions: of the views.
            where: complete them for the documents that this filter over metadata accepts.
            ids: complete them for these documents; None for all.
            progress: called with the growing report.

        Raises:
            InputError: one of the views is not there yet, and there is no document or none matches.
            UsageError: an instruction is too long.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        part = optional_filter(where) is not None or ids is not None
        lacking = self.lacking(instructions, where=where, ids=ids)
        return self._completed(instructions, lacking, part=part, progress=progress)

    def _completed(
        self, instructions: Sequence[str], lacking: Ids, *, part: bool, progress: Progress | None
    ) -> list[View]:
        """Embed texts that views of some instructions lack, of a part of the documents or of all; return the views."""
        if len(lacking):
            with self._writing("complete") as run_id:
                indexer = Indexer(self.store, self.encoder, instructions, progress=progress, lazy=part)
                indexer.fill(run_id, lacking)
                build_outgrown(self.store, indexer.views, self.path, IndexType())
                self.store.runs.progress(run_id, indexer.report.to_json())
        keys = [encoding.view_key(self.encoder, one) for one in instructions]
        if any(self.store.views.find(key) is None for key in keys):
            raise nothing_matches(self.store)  # a view made now would be empty, its instruction unread
        views = [self.store.views.ensure(key, lazy=part) for key in keys]
        self._open_views.note_use(view.view_id for view in views)
        return views

    def lacking(
        self, instructions: Sequence[str], *, where: str | None = None, ids: Collection[str] | None = None
    ) -> Ids:
        """Return the content ids of the texts that one of the views of some instructions lacks, ascending.

        Args:
            instructions: of the views.
            where: look at the documents that this filter over metadata accepts.
            ids: look at these documents; None for all.
        """
        contents = selected_contents(self.store, optional_filter(where), ids)
        views = [self.store.views.find(encoding.view_key(self.encoder, one)) for one in instructions]
        found = [contents if one is None else self.store.vectors.missing(one.view_id, contents) for one in views]
        return np.unique(np.concatenate(found)).astype(np.int64)

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents from every view at once; return the ids that were there."""
        with self._writing("delete"), self.store.transaction():
            return self.store.documents.delete(ids)

    def compact(self, index_type: IndexType | None = None) -> list[int]:
        """Drop what deleted documents left behind, rebuild every view's FAISS index; return the new generations."""
        with self._writing("compact"):
            return compact(self.store, self.path, index_type or IndexType())

    def views(self) -> list[ViewStatus]:
        """Return the state of every view."""
        return view_states(self.store)

    def drop_views(self, instructions: Sequence[str]) -> None:
        """Remove the views of some instructions, with vectors, words and files: all of them or none.

        Raises:
            UsageError: the base view is among them.
            InputError: there is no such view.
            IndexLockedError: another process writes to this index.
        """
        dropped = views_of(self.store, instructions)
        if dropped:
            with self._writing("drop"):
                drop_views(self.store, self.path, dropped)
            self._open_views.forget(dropped)

    @property
    def lazy_limit(self) -> int | None:
        """The most bytes that vectors of lazily filled views may take; None for no limit. Setting it removes excess."""
        return lazy_limit(self.store)

    @lazy_limit.setter
    def lazy_limit(self, limit: int | None) -> None:
        with self._writing("limit"):
            set_lazy_limit(self.store, self.path, limit)

    def status(self) -> IndexStatus:
        """Return what the index holds, and how its last runs went."""
        return index_status(self.store, self.path)
