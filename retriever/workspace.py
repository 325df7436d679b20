"""An index as one object: the composition root that ties encoder, database and vector indexes together."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from retriever.clusters.curated_index import CuratedIndex
from retriever.core.errors import IndexLockedError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.requests import SearchRequest
from retriever.core.results import IndexStatus, SearchResult, ViewStatus
from retriever.core.types import Document
from retriever.index.encoding import OnTexts
from retriever.index.generations import IndexType, remember
from retriever.index.indexing import IndexingOptions, OnIndexing
from retriever.index.readers import Readers
from retriever.index.search.patterns import found_by_pattern
from retriever.index.search.searcher import Searcher
from retriever.index.search.view_searcher import LoadedView
from retriever.index.searches import Searches
from retriever.index.status import index_status, lessons_of, own_views, view_states
from retriever.index.verdicts.stored import stored_verdict
from retriever.index.view_upkeep import compact, drop_views, lazy_limit, set_lazy_limit, views_of
from retriever.store.filters import optional_filter
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.clusters.asking import Asked
    from retriever.clusters.clustering import Clustering, ClusterRequest


class Index(CuratedIndex, Searches):
    """A corpus that can be searched under any instruction. A context manager; safe to read from several threads.

    Args:
        path: the index folder; made by the first `add`.
        encoder: as for `OpenIndex`, and all that follows.
        plain: what fills the base view.
        device: where loaded encoders run.
        load: gives an encoder that the index describes.
        search_options: how far searches go.
    """

    def meant(self, id: str) -> Document | None:
        """Return the document or the unit of an id, or None."""
        found: Mapping[str, Document] = self.store.documents.get([id]) or self.store.units.get([id])
        return found.get(id)

    def search_pattern(self, regex: str, *, k: int = 10, where: str | None = None) -> SearchResult:
        """Return the k documents whose text holds a regular expression most often, equal ones by id.

        Args:
            regex: the expression, in Python's notation.
            k: as for `search`.
            where: as for `search`.

        Raises:
            UsageError: it is no regular expression or takes too long, or k is below 1.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        if k < 1:
            raise UsageError(f"k is {k}.", hint="Ask for at least 1 hit.")
        return found_by_pattern(self.store, regex, k, where)

    def search_progressively(
        self, request: SearchRequest, on_texts: OnTexts | None = None
    ) -> Iterator[list[SearchResult]]:
        """Yield answers as they get better: a first one where the instruction's view lacks texts, then the last.

        ``on_texts`` is told how many of the texts that are read for the last one are read.
        """
        marked = [*request.more, *request.less]
        if marked:
            self.require_documents(marked)
            with suppress(IndexLockedError):  # what is unread has no say
                self.complete([request.instruction], ids=marked)
        views = self._open_views
        for results in self.searching().search(request, on_texts):
            views.note_use(one.view for one in results if one.view is not None)
            yield [views.calibration.rated(self._with_verdict(one)) for one in results]
        views.shrink()

    def _with_verdict(self, result: SearchResult) -> SearchResult:
        """Return a result with what is stored on its view: nothing is read or worked out for it."""
        if result.view is None or not result.instruction:
            return result
        return replace(result, verdict=stored_verdict(self.store, result.view))

    def searching(self, encoder: Encoder | None = None) -> Searcher:
        """Return a searcher, with queries embedded by another encoder of the same views if one is given."""
        readers = (lambda: self.readers) if encoder is None else (lambda: Readers.of(encoder))
        return Searcher(self.store, self._open_views, readers, self._search_options)

    def searcher(self, view: View) -> LoadedView:
        """Return a view as it is now, with its vector index opened once."""
        return self._open_views.loaded(view)

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
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
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
            options: how to embed what the view lacks.
            progress: called with the growing report while the view is completed.

        Raises:
            UsageError: k is larger than the corpus, or a field is not there.
            InputError: the filter matches nothing, or none of the ids is there.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        from retriever.clusters.clustering import ClusterRequest  # scikit-learn takes a second to load

        chosen = None if ids is None else frozenset(ids)
        request = ClusterRequest(instruction.strip(), k, where, min_size, tuple(by), over, seed, levels, chosen)
        return self._clustered([request], progress, options)[0]

    def cluster_each(
        self,
        instructions: Sequence[str],
        *,
        k: int | None = None,
        where: str | None = None,
        progress: OnIndexing | None = None,
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
        from retriever.clusters.clustering import ClusterRequest

        return self._clustered([ClusterRequest(one.strip(), k, where) for one in instructions], progress)

    def _clustered(
        self,
        requests: "Sequence[ClusterRequest]",
        progress: OnIndexing | None,
        options: IndexingOptions | None = None,
    ) -> "list[Clustering]":
        """Return the clusterings of requests that differ in their instruction alone."""
        from retriever.clusters.clustering import check, cluster

        instructions, one = [each.instruction for each in requests], requests[0]
        lacking = self.lacking(instructions, where=one.where, ids=one.ids)
        if len(lacking):
            check(self.store, one)
        part = one.where is not None or one.ids is not None
        views = self._completed(instructions, lacking, part=part, options=options, progress=progress)
        found = []
        for view, each in zip(views, requests, strict=True):
            lessons, verdict = lessons_of(self.store, view), self.verdict(each.instruction)
            found.append(replace(cluster(self.store, self.shown(view), each), lessons=lessons, verdict=verdict))
        return found

    def still_holds(self, found: "Clustering") -> bool:
        """Whether a clustering is of all documents there are to cluster, unchanged, and of the view that is shown."""
        from retriever.clusters.clustering import still_holds

        shown = any(view.view_id == found.view for view in self.store.views.all())
        taught = found.view in self.store.heads.sources().values()
        return shown and not taught and still_holds(self.store, found)

    def worth_answering(self, instruction: str, count: int = 10, answered: Collection[str] = ()) -> "list[Asked]":
        """Return the documents that say most about a question once they are answered, for `teach`; no text is read.

        Args:
            instruction: the question.
            count: how many; there are fewer where the index holds fewer texts.
            answered: ids of documents that are answered already.
        """
        from retriever.clusters.asking import worth_answering

        own = {view.key.instruction: view for view in own_views(self.store)}
        view = own.get(instruction.strip())
        if view is None or self.store.vectors.count_live(view.view_id) < count + len(answered):
            view = own.get("")
        taught = self._open_views.taught.of(view)
        return [] if view is None else worth_answering(self.store, view, taught, count, answered)

    def set_apart(self, found: "Clustering", ids: Collection[str], label: str = "") -> "Clustering":
        """Return a clustering of this index with some of its documents, or units, as a cluster of their own.

        Args:
            found: the clustering.
            ids: those documents, one at least.
            label: the cluster's name; empty for the words that set it apart.

        Raises:
            UsageError: another cluster has that name, or the documents have changed since they were clustered.
        """
        from retriever.clusters.material import read_material
        from retriever.clusters.regrouping import set_apart

        view = next((view for view in self.store.views.all() if view.view_id == found.view), None)
        wanted = frozenset(ids)
        with self.store.snapshot():
            material = view and read_material(self.store, view, optional_filter(found.request.where), found.request.ids)
        if not material or list(material.documents) != list(found.material.documents):
            raise UsageError("The reviews have changed since they were clustered.", hint="Cluster them again.")
        rows = [row for row, one in enumerate(material.documents) if one.id in wanted]
        return set_apart(found, material, rows, label)

    def save_clustering(self, name: str, found: "Clustering") -> None:
        """Save a clustering under a new name.

        Raises:
            UsageError: the name is empty or taken.
        """
        from retriever.clusters.saved import save

        with self._writing("save"), self.store.transaction():
            save(self.store, name, found, self._shown_fingerprint(found.request.instruction))

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents from every view at once; return the ids that were there."""
        with self._writing("delete"), self.store.transaction():
            return self.store.documents.delete(ids)

    def compact(self, index_type: IndexType | None = None) -> list[int]:
        """Drop what deleted documents left behind, rebuild every view's vector index; return the new generations.

        Args:
            index_type: the vector index to build now and from now on; None for what the index remembers.
        """
        with self._writing("compact"):
            remember(self.store, index_type, self.path, {view.key.dim for view in self.store.views.all()})
            return compact(self.store, self.path, self._device)

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
        """Report what the index holds, and how its last runs went."""
        return index_status(self.store, self.path)
