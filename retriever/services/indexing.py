"""From rows to stored documents and vectors, a shard at a time: what is committed is never computed again."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import Encoder
from retriever.core.types import BadRow, Document, Encoded, Ids
from retriever.services.encoding import count_tokens, encode_views, token_limit, view_key
from retriever.services.results import IndexingReport
from retriever.store.database import Store
from retriever.store.views import View

SHARD = 1000
OnLong = Literal["truncate", "skip", "error"]
Progress = Callable[[IndexingReport], None]


@dataclass(frozen=True, slots=True)
class IndexingOptions:
    """How an indexing run treats its input.

    Attributes:
        on_long: texts over the token limit are cut, put in quarantine, or end the run.
        sync: delete documents that the input no longer has.
    """

    on_long: OnLong = "truncate"
    sync: bool = False

    def __post_init__(self) -> None:
        if self.on_long not in ("truncate", "skip", "error"):
            raise UsageError(f"Unknown on_long {self.on_long!r}.", hint="Known: truncate, skip, error.")


@dataclass(frozen=True, slots=True)
class _Shard:
    """The shard under way, for the progress line: its rows, and the tokens read before it and to read in it."""

    rows: int
    tokens_before: int
    tokens: int


class Indexer:
    """One indexing run. The caller holds the writer's lock.

    Args:
        store: the index's database.
        encoder: what to embed with.
        instructions: views to fill; the base view is always among them.
        options: how to treat the input.
        progress: called with the growing report, a few times a second at most.
        lazy: whether a part of the views is wanted, so that those made now are lazy; the base view never is.
    """

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        instructions: Sequence[str] = (),
        *,
        options: IndexingOptions | None = None,
        progress: Progress | None = None,
        lazy: bool = False,
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._options = options or IndexingOptions()
        self._progress = progress or (lambda report: None)
        keys = dict.fromkeys(view_key(encoder, instruction) for instruction in ("", *instructions))
        if instructions:
            # An instruction that cannot be read fails before anything is stored.
            encoder.encode_many(["."], [one.strip() for one in instructions])
        with store.transaction():
            self.views: list[View] = [store.views.ensure(key, lazy=lazy and bool(key.instruction)) for key in keys]
        self.report = IndexingReport(views=[view.view_id for view in self.views])
        self._started = time.perf_counter()
        self._shard = _Shard(0, 0, 1)
        self._seen: set[str] = set()
        self._anonymous = False  # whether a bad row had no id, so that nothing can be called gone

    def run(self, rows: Iterable[Document | BadRow], run_id: int) -> IndexingReport:
        """Store every good row with its vectors and every bad one in quarantine.

        Raises:
            InputError: a text is too long and ``on_long`` is ``error``. What was stored before stays.
        """
        for shard in _shards(rows, SHARD):
            self._store_shard(shard, run_id)
        if self._options.sync:
            self._delete_absent()
        self.fill(run_id)
        self._tick()
        return self.report

    def fill(self, run_id: int, among: Ids | None = None) -> None:
        """Embed every stored text that one of the views lacks, shard by shard; given content ids, only of those."""
        lacking = {int(one) for view in self.views for one in self._store.vectors.pending(view.view_id)}
        pending = sorted(lacking if among is None else lacking.intersection(among.tolist()))
        for start in range(0, len(pending), SHARD):
            texts = self._store.documents.texts(pending[start : start + SHARD])
            known = {text: content_id for content_id, text in texts.items()}
            encoded = self._encode(known, list(known))
            with self._store.transaction():
                self._put(encoded, known)
                self._store.runs.progress(run_id, self.report.to_json())

    def _store_shard(self, rows: Sequence[Document | BadRow], run_id: int) -> None:
        bad = [row for row in rows if isinstance(row, BadRow)]
        documents = [row for row in rows if isinstance(row, Document)]
        self._store.documents.check(documents)
        documents, refused = self._fit(documents)
        bad += refused
        self._anonymous |= any(row.id is None for row in bad)
        self._seen.update(document.id for document in documents)
        self._seen.update(row.id for row in bad if row.id is not None)
        texts = list(dict.fromkeys(document.text for document in documents))
        encoded = self._encode(self._store.documents.known(texts), texts, rows=len(rows))
        with self._store.transaction():
            stored = self._store.documents.upsert(documents)
            ids = dict(zip((document.text for document in documents), stored.content_ids, strict=True))
            self._put(encoded, ids)
            self._store.runs.quarantine(run_id, bad)
            self.report.read += len(rows)
            self.report.in_hand = self.report.read
            self.report.added += stored.added
            self.report.updated += stored.updated
            self.report.unchanged += stored.unchanged
            self.report.skipped += len(bad)
            self._store.runs.progress(run_id, self.report.to_json())
        self._tick()

    def _encode(
        self, known: dict[str, int], texts: Sequence[str], *, rows: int = 0
    ) -> list[tuple[View, list[str], Encoded]]:
        """Embed the texts that a view lacks, those that lack the same views in one pass."""
        lacking: dict[str, list[View]] = {text: [] for text in texts}
        for view in self.views:
            missing = set(self._store.vectors.missing(view.view_id, list(known.values())))
            for text in texts:
                if text not in known or known[text] in missing:
                    lacking[text].append(view)
        groups: dict[tuple[int, ...], list[str]] = {}
        for text, views in lacking.items():
            if views:
                groups.setdefault(tuple(view.view_id for view in views), []).append(text)
        by_id = {view.view_id: view for view in self.views}
        waiting = sum(count_tokens(self._encoder, [text for group in groups.values() for text in group]))
        self._shard = _Shard(rows, self.report.tokens, max(1, waiting))
        result = []
        for view_ids, group in groups.items():
            views = [by_id[view_id] for view_id in view_ids]
            many = encode_views(self._encoder, group, [view.key.instruction for view in views], self._count)
            result += [(view, group, encoded) for view, encoded in zip(views, many, strict=True)]
        return result

    def _put(self, encoded: Iterable[tuple[View, list[str], Encoded]], ids: dict[str, int]) -> None:
        for view, texts, one in encoded:
            self._store.vectors.put(view.view_id, [ids[text] for text in texts], one.embeddings, one.words)
            self.report.embedded[view.view_id] = self.report.embedded.get(view.view_id, 0) + len(texts)

    def _fit(self, documents: list[Document]) -> tuple[list[Document], list[BadRow]]:
        """Apply ``on_long``: return the documents to store and those to put aside."""
        limit = token_limit(self._encoder)
        if limit is None:
            return documents, []
        lengths = count_tokens(self._encoder, [document.text for document in documents])
        long = {document.id: length for document, length in zip(documents, lengths, strict=True) if length > limit}
        if not long:
            return documents, []
        if self._options.on_long == "error":
            identifier, length = next(iter(long.items()))
            raise InputError(
                f"The text of document {identifier!r} has {length} tokens; the encoder reads {limit}.",
                hint="Shorten it, or use --on-long truncate or skip.",
            )
        if self._options.on_long == "truncate":
            self.report.truncated += len(long)
            return documents, []
        refused = [
            BadRow("", 0, one.id, f"The text has {long[one.id]} tokens; the encoder reads {limit}.", one.text[:2000])
            for one in documents
            if one.id in long
        ]
        return [one for one in documents if one.id not in long], refused

    def _delete_absent(self) -> None:
        if self._anonymous:
            self.report.notes.append("Nothing was deleted by --sync: a skipped row had no readable id.")
            return
        with self._store.transaction():
            self.report.deleted = self._store.documents.delete_absent(self._seen)

    def _count(self, tokens: int) -> None:
        self.report.tokens += tokens
        share = min(1.0, (self.report.tokens - self._shard.tokens_before) / self._shard.tokens)
        self.report.in_hand = self.report.read + int(self._shard.rows * share)
        self._tick()

    def _tick(self) -> None:
        self.report.seconds = time.perf_counter() - self._started
        self._progress(self.report)


def _shards(rows: Iterable[Document | BadRow], size: int) -> Iterator[list[Document | BadRow]]:
    iterator = iter(rows)
    while shard := list(islice(iterator, size)):
        yield shard
