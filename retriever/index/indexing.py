"""From rows to stored documents and vectors, a batch at a time: what is committed is never computed again.

Batches are read and embedded in the caller's thread, and stored on one of its own, the last while the next is embedded.
"""

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import count, islice

import numpy as np

from retriever.core.errors import InputError
from retriever.core.results import Forecast, IndexingReport, OnIndexing
from retriever.core.types import BadRow, Document, Ids
from retriever.index import forecast
from retriever.index.dividing import divided, kind, windows_of, windows_with_vectors
from retriever.index.embedder import Batch, EmbeddedBatch, TextGroup
from retriever.index.forecast import LEAST_TEXTS, Amount, Course
from retriever.index.indexing_options import SMALL_BATCH
from retriever.index.indexing_options import IndexingOptions as IndexingOptions
from retriever.index.parcels import Parcel, UnknownTexts, chunks, first_ids, put_aside
from retriever.index.sources.catalog import Sources
from retriever.index.sources.filling import by_encoder, derive
from retriever.index.sources.source import Source
from retriever.store.checking import CheckedDocument, checked
from retriever.store.database import Store


class Indexer:
    """One indexing run. The caller holds the writer's lock.

    Args:
        store: the index's database.
        sources: of the index. The base view is filled first where it has an encoder of its own: it is searchable long
            before the others are full.
        wanted: sources whose views to fill; the base view's is always among them.
        options: how to treat the input.
        progress: called in the caller's thread with the growing report, a few times a second at most.
        lazy: whether a part of the views is wanted, so that those made now are lazy; the base view never is.
    """

    def __init__(
        self,
        store: Store,
        sources: Sources,
        wanted: Sequence[Source] = (),
        *,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
        lazy: bool = False,
    ) -> None:
        self._store = store
        self._index, self._base = sources, sources.base
        self._options = options or IndexingOptions()
        self._progress = progress or (lambda report: None)
        self._sources = sources.with_dependents([self._base, *wanted])
        reading = by_encoder(self._sources)
        for group in reading:
            new = [source.instruction for source in group if source.instruction and sources.view(source) is None]
            if new:  # an instruction that cannot be read fails before anything is stored
                group[0].encoder.encode_many(["."], new)
        with store.transaction():
            self._filled = {
                source: store.views.ensure(source.key, lazy=lazy and bool(source.instruction))
                for source in self._sources
                if source.reads
            }
        self.views = [view for source, view in self._filled.items() if not source.hidden]
        # One encoder reads a text once for all its views; the base view's goes ahead of another.
        self._ahead = [source for source in self._filled if source in reading[0]]
        instructions = [view.key.instruction for view in self.views]
        self.report = IndexingReport(
            views=[view.view_id for view in self.views], instructions=instructions, rows=self._options.rows
        )
        self._later = len(self._ahead) < len(self._filled)
        self._course = Course(self._options.rows, sum(map(bool, instructions)), later=self._later)
        self._forecast: Forecast | None = None
        self._committed = self._snapshot()
        self._started = time.perf_counter()
        self._numbers = count()
        self._unknown = UnknownTexts()
        self._parcels: dict[int, Parcel] = {}  # by the numbers of their batches
        self._in_flight: set[str] = set()  # texts whose vectors are not stored yet
        self._cut_later = Counter[int]()  # by the limit of an encoder other than the base view's: texts it read in part
        self._refused: dict[str, str] = {}  # texts that nothing could embed, and why
        self._reached = self._tokens = self._read = 0  # rows and tokens embedded; tokens of the batches in flight
        self._seen: set[str] = set()
        self._anonymous = False  # whether a bad row had no id, so that nothing can be called gone

    def run(self, rows: Iterable[Document | BadRow], run_id: int) -> IndexingReport:
        """Store every good row with its vectors and every bad one in quarantine.

        Raises:
            InputError: a text is too long and ``on_long`` is ``error``. What was stored before stays.
        """
        rows = iter(rows)
        if self._options.alone and (self._options.rows or 0) >= LEAST_TEXTS:
            self._measure(rows, run_id)
        self._embed(self._batches(rows), run_id)
        if self._options.sync:
            self._delete_absent()
        self._fill(self._pending(), run_id, counted=self._later)
        self.report.notes += self._unknown.notes()
        if self.report.truncated:
            self.report.notes.append(self._truncated_note())
        for limit, cut in (+self._cut_later).items():
            texts = "1 text is" if cut == 1 else f"{cut} texts are"
            self.report.notes.append(
                f"{texts} longer than the {limit} tokens that the instruction encoder reads: under an instruction, "
                "only the beginning counts."
            )
        self._options.workers.spool_of(self._store.path.parent).clear()
        return self._finished()

    def fill(self, run_id: int, among: Ids | None = None) -> None:
        """Embed every stored text that one of the views lacks, batch by batch; given content ids, only of those."""
        if pending := self._pending(among):
            self._fill(pending, run_id, counted=True)
            self._finished()

    def _fill(self, pending: Sequence[int], run_id: int, *, counted: bool) -> None:
        """Embed stored texts; the progress counts them from nought, or goes on counting rows."""
        if counted and pending:
            self.report.expected = len(pending)
            self.report.in_hand = self._reached = 0
        self._course.fill(Amount.stored(self._store.documents, pending))
        if self._options.alone and len(pending) >= LEAST_TEXTS:
            pending = self._measured(pending, run_id, counted=counted)
        self._embed(self._unfilled(pending, counted=counted), run_id)

    def _measure(self, rows: Iterator[Document | BadRow], run_id: int) -> None:
        """Embed the first rows, and read some texts under the instructions, until their times are known."""
        if self._later:
            self._course.begin(Amount.stored(self._store.documents, self._pending()))
        for size in self._course.ahead.pieces(self._options.batch):
            reached = self._reached
            self._embed(self._batches(islice(rows, size)), run_id)
            if self._reached == reached:
                return
        if self._later:
            self._measured(self._pending(), run_id, counted=False)

    def _measured(self, pending: Sequence[int], run_id: int, *, counted: bool) -> Sequence[int]:
        """Embed some stored texts, of all kinds, until it is known how long they take; return the others."""
        order, done = np.random.default_rng(0).permutation(pending).tolist(), 0
        for size in self._course.behind.pieces(self._options.batch):
            if done >= len(order):
                break
            self._embed(self._unfilled(order[done : done + size], counted=counted), run_id)
            done += size
        return sorted(order[done:])

    def _embed(self, jobs: Iterable[Batch], run_id: int) -> None:
        """Embed batches and store each in one transaction, on a thread that ends with this call, however that ends."""
        self._committed = self._snapshot()
        make = self._options.embedder or self._options.workers.embedder(self._store.path.parent)
        with ThreadPoolExecutor(1, "commit") as thread, ExitStack() as closing:
            commit: Future[EmbeddedBatch] | None = None
            before = forecast.clock()
            embedded = make(self._count).embed(jobs)
            if isinstance(embedded, Generator):  # it ends with this call too: nothing more is sent
                closing.callback(embedded.close)
            for done in embedded:
                before, seconds = forecast.clock(), forecast.clock() - before
                parcel = self._parcels.pop(done.batch.number)
                if parcel.known:
                    self._course.behind.took(parcel.amount.work, seconds)
                else:
                    self._course.embedded(parcel.size, parcel.amount, seconds)
                self._reached += parcel.size
                self._tokens += done.tokens
                self._read = max(0, self._read - done.tokens)
                self._settle(commit)
                commit = thread.submit(self._commit, done, self._without_refused(done, parcel), run_id)
            self._settle(commit)

    def _settle(self, commit: "Future[EmbeddedBatch] | None") -> None:
        """Wait for a transaction, and raise what it raised."""
        if commit is None:
            return
        stored = commit.result()
        stored.on_stored()
        self._in_flight.difference_update(stored.batch.texts)
        self._committed = self._snapshot()
        self._tick()

    def _commit(self, done: EmbeddedBatch, parcel: Parcel, run_id: int) -> EmbeddedBatch:
        """Store a batch; the one method that another thread runs, and the one that counts what is stored."""
        report = self.report
        with self._store.transaction():
            stored = self._store.documents.put(parcel.documents)
            ids = {**parcel.known, **stored.embedded}
            windows = windows_with_vectors(parcel.windows, done.windows, ids)
            for group, encoded in done.of_texts:
                contents = [ids[text] for text in group.texts]
                for source, output in zip(group.sources, encoded, strict=True):
                    behind = {text: windows[text] for text in contents if text in windows} if source.windowed else {}
                    view_id = self._filled[source].view_id
                    self._store.vectors.put(view_id, contents, output.embeddings, output.words, behind)
                    if not source.hidden:
                        report.embedded[view_id] = report.embedded.get(view_id, 0) + len(contents)
            contents = [ids[text] for text in done.batch.texts]
            derive(self._index, [derived for derived in self._sources if not derived.in_words], contents)
            self._store.runs.quarantine(run_id, parcel.bad)
            report.read += len(parcel.documents) + len(parcel.bad)
            report.in_hand += parcel.size
            report.tokens += done.tokens
            report.added += stored.added
            report.updated += stored.updated
            report.unchanged += stored.unchanged
            report.skipped += len(parcel.bad)
            report.truncated += len(parcel.truncated_ids)
            report.truncated_ids += parcel.truncated_ids
            report.seconds = time.perf_counter() - self._started
            self._store.runs.progress(run_id, report.to_json())
        return done

    def _without_refused(self, done: EmbeddedBatch, parcel: Parcel) -> Parcel:
        """Return a batch's parcel less what nothing could embed, now or in a batch before."""
        self._refused.update(done.refused)
        if not self._refused:
            return parcel
        known = [parcel.known[text] for text in done.refused if text in parcel.known]
        stored = [document for each in self._store.documents.expand(known).values() for document in each]
        return parcel.without(self._refused, stored)

    def _batches(self, rows: Iterable[Document | BadRow]) -> Iterator[Batch]:
        """Yield the rows' batches, and note what is to be stored with each."""
        for chunk in chunks(rows, lambda: self._batch_of(self._ahead)):
            bad = [row for row in chunk if isinstance(row, BadRow)]
            documents = divided(self._store, [checked(row) for row in chunk if isinstance(row, Document)])
            documents, refused, counted = self._fit(documents)
            bad += refused
            if self._options.sync:
                self._anonymous |= any(row.id is None for row in bad)
                self._seen.update(document.document.id for document in documents)
                self._seen.update(row.id for row in bad if row.id is not None)
            groups = self._lacking(documents)
            new = [text for group in groups for text in group.texts]
            lengths = {text: counted[text] for text in new} if counted else self._lengths(new)
            self._unknown.see(self._base.encoder, documents, set(new))
            cut = self._truncated(documents, lengths)
            yield self._batch(groups, Parcel(len(chunk), sum(lengths.values()), Amount.of(new), documents, bad, cut))

    def _unfilled(self, pending: Sequence[int], *, counted: bool) -> Iterator[Batch]:
        """Yield batches of stored texts; the progress counts them or has other things to count."""
        *_, last = (source for source in self._filled if not source.hidden)
        size = self._batch_of(self._filled)
        for start in range(0, len(pending), size):
            encoder = last.encoder
            texts = self._store.documents.texts(pending[start : start + size])
            known = {text: content_id for content_id, text in texts.items()}
            tokens = encoder.count_tokens(list(known))
            if encoder is not self._base.encoder and (limit := encoder.spec.max_text_tokens) is not None:
                self._cut_later[limit] += sum(length > limit for length in tokens)
            parcel = Parcel(len(known) if counted else 0, sum(tokens), Amount.of(known), known=known)
            yield self._batch(self._grouped(known, self._filled), parcel)

    def _batch_of(self, sources: Iterable[Source]) -> int:
        """Return how many rows or texts some sources get at a time."""
        elsewhere = any(source.encoder.at_once > 1 for source in sources)
        return min(self._options.batch, SMALL_BATCH) if elsewhere else self._options.batch

    def _batch(self, groups: Sequence[TextGroup], parcel: Parcel) -> Batch:
        """Return the next batch, whose long texts the base encoder reads in windows too."""
        texts = [text for group in groups if self._base in group.sources for text in group.texts]
        windows = windows_of(self._store, texts)
        read = [text[span.start : span.end] for text, spans in windows.items() for span in spans]
        if read:
            groups = [*groups, TextGroup(list(dict.fromkeys(read)), [self._base], windows=True)]
            more = parcel.tokens * sum(map(len, read)) // max(1, sum(map(len, texts)))
            parcel = replace(parcel, windows=windows, tokens=parcel.tokens + more)
        batch = Batch(next(self._numbers), groups)
        self._parcels[batch.number] = parcel
        self._in_flight.update(batch.texts)
        return batch

    def _pending(self, among: Ids | None = None) -> list[int]:
        lacking = {int(content_id) for view in self.views for content_id in self._store.vectors.pending(view.view_id)}
        return sorted(lacking if among is None else lacking.intersection(among.tolist()))

    def _lacking(self, documents: Sequence[CheckedDocument]) -> list[TextGroup]:
        """Return the documents' texts that a view filled now lacks and that no batch before holds."""
        embedded = {digest: text for document in documents for digest, text in document.embedded.items()}
        texts = {digest: text for digest, text in embedded.items() if text not in self._in_flight}
        stored = self._store.documents.by_hash(texts)
        return self._grouped({text: stored.get(digest) for digest, text in texts.items()}, self._ahead)

    def _grouped(self, texts: Mapping[str, int | None], among: Iterable[Source]) -> list[TextGroup]:
        """Return texts that a view of some sources lacks, with the others that lack the same views.

        Content ids of the texts are None for those that are not stored.
        """
        ids = [content_id for content_id in texts.values() if content_id is not None]
        lacking: dict[str, list[Source]] = {text: [] for text in texts}
        for source in among:
            missing = {None, *self._store.vectors.missing(self._filled[source].view_id, ids)}
            for text, content_id in texts.items():
                if content_id in missing:
                    lacking[text].append(source)
        groups: dict[tuple[Source, ...], list[str]] = {}
        for text, sources in lacking.items():
            groups.setdefault(tuple(sources), []).append(text)
        return [TextGroup(texts, read) for sources, texts in groups.items() for read in by_encoder(sources)]

    def _lengths(self, texts: Sequence[str]) -> dict[str, int]:
        """Return the tokens of texts for the base encoder, by text."""
        return dict(zip(texts, self._base.encoder.count_tokens(texts), strict=True))

    def _fit(self, documents: list[CheckedDocument]) -> tuple[list[CheckedDocument], list[BadRow], Mapping[str, int]]:
        """Apply ``on_long``: return the documents to store, those to put aside, and tokens where they were counted."""
        limit = self._base.encoder.spec.max_text_tokens
        if limit is None or self._options.on_long == "truncate":
            return documents, [], {}
        lengths = self._lengths([text for candidate in documents for text in candidate.embedded.values()])
        fitting, refused = [], []
        for candidate in documents:
            document, length = candidate.document, max(lengths[text] for text in candidate.embedded.values())
            if length <= limit:
                fitting.append(candidate)
            elif self._options.on_long == "skip":
                reason = f"The text has {length} tokens; the encoder reads {limit}."
                refused.append(put_aside(document, reason))
            else:
                raise InputError(
                    f"The text of document {document.id!r} has {length} tokens; the encoder reads {limit}.",
                    hint="Shorten it, or use --on-long truncate or skip.",
                )
        return fitting, refused, lengths

    def _truncated(self, documents: Sequence[CheckedDocument], lengths: Mapping[str, int]) -> list[str]:
        """Return the first document's id for each text that is embedded now and cut."""
        limit = self._base.encoder.spec.max_text_tokens
        long = set() if limit is None else {text for text, length in lengths.items() if length > limit}
        first = {
            text: document.document.id
            for document in reversed(documents)
            for text in document.embedded.values()
            if text in long
        }
        return list(reversed(first.values()))

    def _truncated_note(self) -> str:
        cut, ids = self.report.truncated, first_ids(self.report.truncated_ids, self.report.truncated)
        texts = "1 text is" if cut == 1 else f"{cut} texts are"
        use = (
            "Only the beginning is searched."
            if kind(self._store) == "sentences"
            else "Searches without a question find all parts; clusters use the beginning."
        )
        limit = self._base.encoder.spec.max_text_tokens
        return f"{texts} longer than the {limit} tokens that the encoder reads at once: {ids}. {use}"

    def _delete_absent(self) -> None:
        if self._anonymous:
            self.report.notes.append("Nothing was deleted by --sync: a skipped row had no readable id.")
            return
        with self._store.transaction():
            self.report.deleted = self._store.documents.delete_absent(self._seen)

    def _count(self, tokens: int) -> None:
        self._read += tokens
        self._tick()

    def _tick(self) -> None:
        """Tell how far the run is."""
        in_flight = self._parcels.values()
        share = min(1.0, self._read / max(1, sum(parcel.tokens for parcel in in_flight)))
        ahead = sum(parcel.amount.work for parcel in in_flight if not parcel.known)
        behind = sum(parcel.amount.work for parcel in in_flight if parcel.known)
        left = self._course.left(share * ahead, share * behind)
        self._forecast = self._forecast or self._course.forecast()
        self._progress(
            replace(
                self._committed,
                in_hand=self._reached + int(sum(parcel.size for parcel in in_flight) * share),
                tokens=self._tokens + self._read,
                seconds=time.perf_counter() - self._started,
                left=left,
                forecast=self._forecast,
            )
        )

    def _snapshot(self) -> IndexingReport:
        """Return the report as it is between two commits: while one writes to it, nobody else may look."""
        return replace(self.report, embedded=dict(self.report.embedded))

    def _finished(self) -> IndexingReport:
        self.report.seconds = time.perf_counter() - self._started
        self._progress(self.report)
        return self.report
