"""A corpus in shards as one object: the same ways to search, add and delete as an index in one folder has."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from retriever.core.closing import Closing
from retriever.core.encoder import Encoder
from retriever.core.errors import UsageError
from retriever.core.patterns import TextPattern
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.results import IndexingReport, IndexStatus, SearchResult, ViewStatus
from retriever.core.types import JSON, BadRow, Document
from retriever.index import encoding
from retriever.index.encoding import OnTexts
from retriever.index.indexing import Indexer, IndexingOptions, OnIndexing
from retriever.index.open_views import OpenViews
from retriever.index.readers import PlainReader, Readers
from retriever.index.run_record import versions
from retriever.index.search.patterns import most_often
from retriever.index.search.searcher import Searcher
from retriever.index.searches import Searches
from retriever.index.status import ENCODER, MODEL, OWN_MODEL, PLAIN, ReaderDescriptions
from retriever.shards.fleet import Fleet
from retriever.shards.manifest import Manifest
from retriever.shards.session import Scope
from retriever.shards.status import joined_status
from retriever.shards.store import ShardedStore
from retriever.shards.transport import InProcess, Transport
from retriever.shards.views import ShardedViews
from retriever.store.database import Store
from retriever.store.filters import EVERYTHING, Filter, optional_filter
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View, ViewKey


class _Searcher(Searcher):
    """Searches shards; they look for a regular expression themselves."""

    def _holding(self, request: SearchRequest) -> Filter | None:
        where = optional_filter(request.where)
        if request.regex is None:
            return where
        TextPattern(request.regex)  # refuses what is none
        found = cast("ShardedStore", self._store).documents.pattern_counts(request.regex, where)
        return replace(where or EVERYTHING, contents=tuple(sorted(found)))


class ShardedIndex(Closing, Searches):
    """A corpus in shards (`retriever shard`) that can be searched under any instruction; safe in several threads.

    Answers are those of one index over the same documents. Where a shard does not answer in time, an answer is a
    partial one: `SearchResult.seen` says which share of the documents it saw.

    Args:
        path: the folder of the shards.
        encoder: what follows instructions; None takes the one the index was made with.
        plain: what fills the base view; None takes what the index was made with.
        device: where loaded encoders run, and shards in this process search.
        load: gives an encoder that the index describes; None loads it on ``device``.
        search_options: how far searches go; None for the defaults.
        transport: reaches the shards; None opens them in this process.
        deadline: seconds until an answer goes without late shards; None waits for all that are there.

    Raises:
        IndexNotFoundError: there are no shards.
        IndexDamagedError: their manifest is damaged.
    """

    def __init__(  # noqa: PLR0913 - one parameter a setting
        self,
        path: Path,
        *,
        encoder: Encoder | None = None,
        plain: PlainReader | None = None,
        device: str = "auto",
        load: encoding.Loader | None = None,
        search_options: SearchOptions | None = None,
        transport: Transport | None = None,
        deadline: float | None = None,
    ) -> None:
        manifest = Manifest.read(path)
        self.path = path
        self._given, self._given_plain = encoder, plain if isinstance(plain, Encoder) else None
        self._load = load or (lambda description: encoding.load_described(description, device=device))
        self._search_options = search_options or SearchOptions()
        self._transport = transport or InProcess(manifest.folders(path), device=device)
        self.fleet = Fleet(self._transport, path, manifest, deadline)
        self.store = ShardedStore(self.fleet)
        self._views = ShardedViews(self.store)
        self._opening = threading.Lock()
        self._readers: Readers | None = None
        self._descriptions: ReaderDescriptions | None = None

    @property
    def encoder(self) -> Encoder:
        """The encoder that follows instructions, loaded on first use."""
        return self.readers.question

    @property
    def readers(self) -> Readers:
        """The index's encoders, each loaded on first use.

        Raises:
            EncoderMismatchError: a given one is not what the index was made with.
        """
        found = self._described()
        with self._opening:
            if self._readers is None or found != self._descriptions:
                if self._given is not None:
                    encoding.check_fingerprint(self._given, found.question)
                question = partial(encoding.described_encoder, found.question, self._given, self._load)
                plain = found.plain
                self._readers = Readers(
                    question,
                    None
                    if plain is None
                    else partial(encoding.described_encoder, plain, self._given_plain, self._load),
                )
                self._descriptions = found
            return self._readers

    @property
    def identity(self) -> str:
        """Key that tells this corpus from all others; to key caches by."""
        manifest = self.fleet.manifest
        return f"{self.path} {manifest.generation} {manifest.created}"

    @property
    def revision(self) -> int:
        """A number that grows with every change of documents, vectors or views that this process knows of."""
        return self.fleet.version()

    def close(self) -> None:
        """Let go of the shards."""
        self._transport.close()

    def documents(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return documents by their ids; ids that are not there are left out."""
        return self.store.documents.get(list(ids))

    def meant(self, id: str) -> Document | None:
        """Return the document of an id, or None."""
        return self.documents([id]).get(id)

    def search_pattern(self, regex: str, *, k: int = 10, where: str | None = None) -> SearchResult:
        """Return the k documents whose text holds a regular expression most often; see `Index.search_pattern`.

        Raises:
            UsageError: it is no regular expression or takes too long, or k is below 1.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        if k < 1:
            raise UsageError(f"k is {k}.", hint="Ask for at least 1 hit.")
        TextPattern(regex)  # refuses what is none
        scope = Scope(self.fleet.deadline)
        with self.fleet.answering(scope), self.store.snapshot():
            condition = optional_filter(where)
            counts = self.store.documents.pattern_counts(regex, condition)
            found = most_often(cast("Store", self.store), counts, k, condition)
        return replace(found, seen=self.fleet.seen(scope))

    def search_progressively(
        self, request: SearchRequest, on_texts: OnTexts | None = None
    ) -> Iterator[list[SearchResult]]:
        """Yield answers as they get better: a first one where the instruction's view lacks texts, then the last.

        Raises:
            UsageError: hits are to be like or unlike marked ones.
        """
        if request.more or request.less:
            raise UsageError(
                f"{self.path} is in shards, where no hits are marked.", hint="Mark them in an index in one folder."
            )
        answers, scope = self.searching().search(request, on_texts), Scope(self.fleet.deadline)
        while True:
            with self.fleet.answering(scope):
                results = next(answers, None)
                if results is None:
                    return
                self._views.note_use(one.view for one in results if one.view is not None)
                rated = [self._views.calibration.rated(one) for one in results]
            seen = self.fleet.seen(scope)
            yield [replace(one, seen=seen) for one in rated]
            scope.renew()

    def searching(self, encoder: Encoder | None = None) -> Searcher:
        """Return a searcher, with queries embedded by another encoder of the same views if one is given."""
        readers = (lambda: self.readers) if encoder is None else (lambda: Readers.of(encoder))
        return _Searcher(cast("Store", self.store), cast("OpenViews", self._views), readers, self._search_options)

    def add(
        self,
        documents: Iterable[Document | BadRow],
        *,
        instructions: Sequence[str] = (),
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
    ) -> IndexingReport:
        """Insert or update documents by id, as `Index.add` does: what is embedded here is stored by the shards.

        A text goes to the shard that has it, a new one to the shard with the fewest documents.

        Raises:
            IndexLockedError: another process writes to the shards.
            EncoderMismatchError: the index was made with another encoder.
            RetrieverError: a shard does not answer. What was stored before stays; the same call goes on from there.
        """
        with self._writing("index") as run_id:
            wanted = [view.key.instruction for view in self._own_views() if not view.lazy]
            indexer = self._indexer([*instructions, *wanted], options, progress)
            report = indexer.run(documents, run_id)
            self._build([view.key for view in indexer.views])
            self.store.runs.progress(run_id, report.to_json())
        return report

    def complete(
        self,
        instructions: Sequence[str],
        *,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
    ) -> list[View]:
        """Embed what the views of some instructions lack, all in one pass, and return the views."""
        with self._writing("complete") as run_id:
            indexer = self._indexer(instructions, options, progress)
            indexer.fill(run_id)
            self._build([view.key for view in indexer.views])
            self.store.runs.progress(run_id, indexer.report.to_json())
        return indexer.views

    def delete(self, ids: Iterable[str]) -> list[str]:
        """Delete documents from every view at once; return the ids that were there."""
        with self._writing("delete"):
            return self.store.documents.delete(list(ids))

    def compact(self) -> list[int]:
        """Let every shard drop what deleted documents left behind and rebuild its vector indexes."""
        with self._writing("compact"):
            built = self.fleet.told(list(self.fleet.parts), "compact")
            self.fleet.forget_states()
        return [one for part in built.values() for one in part]

    def views(self) -> list[ViewStatus]:
        """Return the state of every view."""
        return self.status().views

    def status(self) -> IndexStatus:
        """Report what the shards hold together, and how the last runs went."""
        parts = self.fleet.told(list(self.fleet.parts), "status")
        return joined_status(str(self.path), [parts[part] for part in sorted(parts)])

    def _indexer(
        self, instructions: Sequence[str], options: IndexingOptions | None, progress: OnIndexing | None
    ) -> Indexer:
        store = cast("Store", self.store)
        return Indexer(store, self.readers, instructions, options=options, progress=progress)

    def _own_views(self) -> list[View]:
        descriptions = self._described()
        return [view for view in self.store.views.all() if descriptions.make(view)]

    def _build(self, keys: Sequence[ViewKey]) -> None:
        self.fleet.told(list(self.fleet.parts), "build", (keys,))
        self.fleet.forget_states()

    def _described(self) -> ReaderDescriptions:
        """Read how the index describes its encoders; a checkpoint of its own lies beside every shard."""
        state = next(iter(self.fleet.states.values()))

        def named(key: str) -> Mapping[str, JSON] | None:
            found = state.settings.get(key)
            if not isinstance(found, Mapping):
                return None
            return {**found, "name": str(Path(state.folder) / MODEL)} if found.get("name") == OWN_MODEL else found

        question = named(ENCODER)
        if question is None:
            raise UsageError(f"{self.path} holds no documents yet.", hint="Split an index that has some.")
        return ReaderDescriptions(question, named(PLAIN))

    @contextmanager
    def _writing(self, command: str) -> Iterator[int]:
        """Hold the writer's lock of the folder over a run that the first shard records."""
        with WriterLock(self.path / LOCK_NAME):
            run_id = self.store.runs.start(command, versions())
            try:
                yield run_id
            except BaseException as error:
                self.store.best_effort_write(
                    partial(
                        self.store.runs.finish,
                        run_id,
                        "interrupted" if isinstance(error, KeyboardInterrupt) else "failed",
                    )
                )
                raise
            self.store.runs.finish(run_id)
