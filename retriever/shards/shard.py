"""One shard: an index folder with a range of the corpus, which answers a router's questions and loads no model.

A question names the version of the data it is about, and is answered from one snapshot of that version or not at all.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from retriever.core.closing import Closing
from retriever.core.errors import RetrieverError
from retriever.core.patterns import TextPattern
from retriever.core.results import IndexStatus
from retriever.core.types import JSON, Document, Ids, Neighbours
from retriever.index.open_views import OpenViews
from retriever.index.search import centering
from retriever.index.search.contents import ContentReader
from retriever.index.search.patterns import counted
from retriever.index.search.view_searcher import LoadedView
from retriever.index.status import index_status
from retriever.index.view_upkeep import compact
from retriever.shards.messages import (
    NOTHING,
    Change,
    Condition,
    Expanded,
    Moved,
    NearestFound,
    NearestWanted,
    PartOfView,
    Refusal,
    ShardState,
    bound,
)
from retriever.shards.runs import Runs, runs_of
from retriever.shards.upkeep import BATCH, apply, build_outgrown_views, hold_limit
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.vectors import StoredVectors
from retriever.store.views import View, ViewKey
from retriever.store.words import RankedText, WordCounts

_FILTERS = 32  # whose contents are remembered


class Shard(Closing):
    """Answers questions about one part of a corpus; safe in several threads.

    Args:
        path: the shard's index folder.
        device: where to search.

    Raises:
        IndexNotFoundError: there is no index.
        IndexDamagedError: its database is damaged.
    """

    def __init__(self, path: Path, *, device: str = "auto") -> None:
        self._path = path
        self._device = device
        self._store = Store.open(path / DATABASE)
        self._views = OpenViews(self._store, path, device=device)
        self._contents = ContentReader(self._store)
        self._lock = threading.Lock()  # one change at a time
        self._filters = threading.Lock()
        self._allowed: OrderedDict[tuple[object, ...], Ids] = OrderedDict()
        self._counted: tuple[int, int] = (-1, 0)  # documents, by their revision
        self._reads: Mapping[str, Callable[..., object]] = {
            name: getattr(self, name)
            for name in (
                "state part_of_view texts_of documents_of sample lacking holds selected nearest vectors_of newest "
                "content_runs expand word_counts ranked_by_words by_hash stored owned missing pending last_runs "
                "quarantined count_absent status contents_of pattern_counts"
            ).split()
        }
        self._writes: Mapping[str, Callable[..., object]] = {
            name: getattr(self, name)
            for name in "ensure change touch build compact start_run finish_run require_free".split()
        }

    def answer(self, question: str, version: int | None, arguments: Sequence[object]) -> object:
        """Return the answer to a question, `Moved` where the data is of another version, or `Refusal`.

        Args:
            question: the name of one of the methods below.
            version: that the answer is to be of; None for whatever there is.
            arguments: of the method.
        """
        try:
            if question in self._writes:
                return self._writes[question](*arguments)
            with self._store.snapshot():
                at = self._store.data_version()
                if version is not None and at != version:
                    return Moved(at)
                return self._reads[question](*arguments)
        except RetrieverError as error:
            return Refusal(error)

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    # Questions about what is stored.

    def state(self) -> ShardState:
        """Tell what the shard holds."""
        store = self._store
        store.inspection.require_documents_listed()
        revision = store.documents_revision()
        if self._counted[0] != revision:
            self._counted = (revision, len(store.documents))
        last = store.parts.last_ids()
        settings = store.settings.all()
        batch = settings.get(BATCH)
        return ShardState(
            version=store.data_version(),
            batch=batch if isinstance(batch, int) else 0,
            documents=self._counted[1],
            texts=len(self._contents.current().ids),
            documents_revision=revision,
            fields=store.documents.fields(),
            views=store.views.all(),
            settings=settings,
            last_content=last["contents"],
            last_vector=last["vectors"],
            folder=str(self._path.absolute()),
            identity=store.identity(),
        )

    def part_of_view(self, key: ViewKey) -> PartOfView:
        """Tell what the shard holds of a view."""
        view = self._store.views.find(key)
        if view is None:
            return NOTHING
        loaded = self._views.loaded(view)
        return PartOfView(loaded.revision, self._store.vectors.count(view.view_id), loaded.size, loaded.held)

    def texts_of(self, ids: Ids) -> dict[int, str]:
        """Return the texts of those of some contents that are here."""
        return self._store.documents.texts(ids)

    def documents_of(self, ids: Sequence[str]) -> dict[str, Document]:
        """Return those of some documents that are here, by id."""
        return self._store.documents.get(ids)

    def sample(self) -> Ids:
        """Return the contents that may be in the sample of the whole corpus (`centering.sample`)."""
        return centering.sample(self._contents.current().ids, centering.SAMPLE)

    def by_hash(self, hashes: Sequence[bytes]) -> dict[bytes, int]:
        """Return the content ids of those of some texts that are here."""
        return self._store.documents.by_hash(hashes)

    def stored(self, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return content id and metadata of those of some documents that are here."""
        return self._store.documents.stored(ids)

    def count_absent(self, keep: frozenset[str]) -> int:
        """Count the documents whose id is not among some."""
        return sum(id not in keep for id in self._store.documents.ids())

    def contents_of(self, ids: Sequence[str]) -> Ids:
        """Return the contents of those of some documents that are here."""
        return self._store.documents.contents_of(ids)

    def pattern_counts(self, regex: str, condition: Condition | None) -> dict[int, int]:
        """Return how often a regular expression is in each text that holds it."""
        return counted(self._store, TextPattern(regex), None if condition is None else bound(condition))

    def owned(self, ids: Ids) -> Ids:
        """Return those of some contents that are here."""
        return self._store.parts.owned(ids)

    def status(self) -> IndexStatus:
        """Report what the shard holds, as an index of its own would."""
        return index_status(self._store, self._path)

    def last_runs(self, count: int) -> list[object]:
        """Return the last runs that this shard recorded."""
        return list(self._store.runs.last(count))

    def quarantined(self, run: int) -> list[object]:
        """Return the rows that a run left out."""
        return list(self._store.runs.quarantined(run))

    # Questions about views.

    def lacking(self, key: ViewKey, condition: Condition | None) -> Ids:
        """Return the contents that a view lacks, ascending: all, or of those that a condition allows."""
        loaded = self._loaded(key)
        among = None if condition is None else self._matching(condition)
        if loaded is None:
            return self._contents.current().ids if among is None else among
        return loaded.lacking(among)

    def holds(self, key: ViewKey, ids: Ids) -> NDArray[np.bool_]:
        """Return which of some contents (n,) have a vector in this shard's part of a view."""
        loaded = self._loaded(key)
        return np.zeros(len(ids), dtype=bool) if loaded is None else loaded.holds(ids)

    def selected(self, key: ViewKey, condition: Condition) -> tuple[int, int]:
        """Count the contents that a condition allows, and those of them that a view holds."""
        loaded, ids = self._loaded(key), self._matching(condition)
        return len(ids), 0 if loaded is None else int(loaded.holds(ids).sum())

    def nearest(self, wanted: NearestWanted) -> NearestFound:
        """Search a view."""
        loaded = self._loaded(wanted.key)
        besides = self.vectors_of(wanted.key, wanted.besides)
        if loaded is None or not loaded.size:
            rows = len(wanted.queries)
            nothing = Neighbours(np.empty((rows, 0), np.int64), np.empty((rows, 0), np.float32))
            return NearestFound(nothing, besides)
        allowed = None if wanted.condition is None else self._matching(wanted.condition)
        return NearestFound(loaded.search(wanted.queries, min(wanted.k, loaded.size), allowed=allowed), besides)

    def vectors_of(self, key: ViewKey, ids: Sequence[int]) -> StoredVectors:
        """Return the vectors that a view holds of some contents."""
        view = self._store.views.find(key) if len(ids) else None
        if view is None:
            return StoredVectors(np.empty(0, np.int64), np.empty((0, key.dim), np.float32), [])
        return self._store.vectors.get(view.view_id, ids)

    def newest(self, key: ViewKey, count: int) -> tuple[Ids, Ids]:
        """Return the contents of a view's last vectors and the ids of these vectors, the last first."""
        view = self._store.views.find(key)
        if view is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return self._store.vectors.newest(view.view_id, count), self._store.vectors.newest_ids(view.view_id, count)

    def content_runs(self, key: ViewKey) -> Runs:
        """Return the contents of which a view holds a vector."""
        view = self._store.views.find(key)
        if view is None:
            return Runs(np.empty(0, np.int64), np.empty(0, np.int64))
        return runs_of(self._store.vectors.content_ids(view.view_id, through=self._store.vectors.last_id(view.view_id)))

    def missing(self, key: ViewKey, ids: Sequence[int]) -> list[int]:
        """Return those of some contents that have no vector in this shard's part of a view."""
        view = self._store.views.find(key)
        return list(ids) if view is None else self._store.vectors.missing(view.view_id, ids)

    def pending(self, key: ViewKey) -> Ids:
        """Return the contents here that have a document but no vector in a view."""
        view = self._store.views.find(key)
        return self._contents.current().ids if view is None else self._store.vectors.pending(view.view_id)

    # Questions about documents and words.

    def expand(self, ids: Sequence[int], condition: Condition | None, keys: Sequence[ViewKey]) -> Expanded:
        """Return the documents of some contents that a condition allows, and the contents' vectors in some views."""
        where = None if condition is None else bound(condition)
        documents = self._store.documents.expand(ids, where)
        return Expanded(
            {one: list(each) for one, each in documents.items()}, {key: self.vectors_of(key, ids) for key in keys}
        )

    def word_counts(self, queries: Sequence[str]) -> list[WordCounts]:
        """Count for BM25 what this part holds of each query's words."""
        return [self._store.words.counts(query) for query in queries]

    def ranked_by_words(
        self, queries: Sequence[str], k: int, condition: Condition | None, counts: Sequence[WordCounts]
    ) -> list[list[RankedText]]:
        """Return the k best texts of each query by BM25, with the counts of the whole corpus."""
        if condition is None:
            allowed, compiled = self._contents.current().ids, None
        else:
            allowed, compiled = self._matching(condition), condition.where.compile(condition.fields)
        return [
            self._store.words.ranked(query, k, one, allowed, compiled)
            for query, one in zip(queries, counts, strict=True)
        ]

    # Changes.

    def ensure(self, key: ViewKey, lazy: bool) -> View:
        """Return a view, made now if there is none."""
        return self._store.views.ensure(key, lazy=lazy)

    def change(self, change: Change, batch: int) -> int:
        """Write a change in one transaction, and return how many documents are gone.

        Whoever else writes documents to this folder is refused meanwhile.
        """
        with self._lock:
            if change.documents or change.deletes or change.keep is not None:
                with WriterLock(self._path / LOCK_NAME):
                    return apply(self._store, change, batch)
            done = apply(self._store, change, batch)
            if change.vectors:
                hold_limit(self._store, self._path)
            return done

    def require_free(self) -> None:
        """Refuse where another process writes documents to this folder, before anything is written anywhere.

        Raises:
            IndexLockedError: one does.
        """
        with self._lock, WriterLock(self._path / LOCK_NAME):
            pass

    def touch(self, keys: Sequence[ViewKey]) -> None:
        """Note that views were used, where that can be written without waiting."""
        for key in keys:
            view = self._store.views.find(key)
            if view is not None:
                self._views.note_use([view.view_id])

    def build(self, keys: Sequence[ViewKey]) -> None:
        """Build the vector index of every one of some views that has outgrown its own."""
        with self._lock, WriterLock(self._path / LOCK_NAME):
            build_outgrown_views(self._store, keys, self._path, self._device)

    def compact(self) -> list[int]:
        """Drop what deleted documents left behind, and build every view's vector index anew."""
        with self._lock, WriterLock(self._path / LOCK_NAME):
            return compact(self._store, self._path, self._device)

    def start_run(self, command: str, versions: Mapping[str, JSON]) -> int:
        """Record that a command begins."""
        return self._store.runs.start(command, versions)

    def finish_run(self, run: int, failed: str) -> None:
        """Record how a command ended: ``failed``, ``interrupted``, or empty where it did what it should."""
        status = "partial" if self._store.runs.quarantined(run) else "finished"
        self._store.runs.finish(run, failed or status)  # type: ignore[arg-type]

    def _loaded(self, key: ViewKey) -> LoadedView | None:
        view = self._store.views.find(key)
        return None if view is None else self._views.loaded(view)

    def _matching(self, condition: Condition) -> Ids:
        """Return the contents that a condition allows, ascending; those of the last conditions are remembered."""
        at = (self._store.documents_revision(), condition.where.expression, condition.where.contents)
        with self._filters:
            found = self._allowed.get(at)
        if found is None:
            found = self._store.documents.matching(bound(condition))
            with self._filters:
                self._allowed[at] = found
                while len(self._allowed) > _FILTERS:
                    self._allowed.popitem(last=False)
        return found
