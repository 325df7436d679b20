"""`retriever verify`: is every byte of an index still what was stored?

The quick way checks the database's structure and catalogue, and the vector index of every view (its file's SHA-256).
The deep way also compares SQLite's indexes with its tables, every text with its hash, every document and vector with
its checksum, the word index with the texts, and embeds a sample of texts again. Nothing is mended.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.errors import ConsentError, IndexDamagedError, RetrieverError
from retriever.core.results import SCHEMA_VERSION
from retriever.core.text import counted
from retriever.core.types import Embeddings, Ids
from retriever.index.encoding import Loader, load_described
from retriever.index.sources.catalog import Sources, sources_of
from retriever.index.sources.source import Source
from retriever.store.checksums import BrokenSeal
from retriever.store.damage import RowDamage
from retriever.store.database import DATABASE, Store
from retriever.store.generations import Generation
from retriever.store.vectors import StoredVectors
from retriever.store.views import View
from retriever.vectors.backend import open_backend

SAMPLE = 16
"""Texts embedded again for each view."""
LEAST_COSINE = 0.98
"""Below this, a vector made again is another one: number formats and batches move a cosine by less."""


class Remedy(StrEnum):
    """A remedy for damage."""

    REPAIR = "retriever repair"
    INDEX = "retriever repair, then index these documents again"
    CLUSTER = "retriever repair, then cluster again and save it anew"
    TEACH = "retriever repair, then teach the question again"
    RESTORE = "restore a copy or an export, or index the corpus again into another folder"
    READ = "retriever repair, then read it again"
    MODEL = "put the model back, or `retriever reembed` with another"


@dataclass(frozen=True, slots=True)
class Finding:
    """One damaged thing.

    Attributes:
        artefact: the file, row or model.
        problem: what is wrong with it.
        remedy: what to do.
    """

    artefact: str
    problem: str
    remedy: Remedy


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a check.

    Attributes:
        path: the index folder.
        deep: whether every row was read.
        findings: what is damaged; empty when nothing is.
        files: vector indexes that were checked.
        embedded: texts embedded again.
        seconds: wall-clock time.
    """

    path: str
    deep: bool
    findings: list[Finding]
    files: int
    embedded: int
    seconds: float

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "whole": self.whole}


def verify(path: Path, *, deep: bool = False, load: Loader = load_described) -> Verification:
    """Check an index.

    Args:
        path: its folder.
        deep: read every row, and embed a sample again.
        load: gives the encoder of a description.

    Raises:
        IndexNotFoundError: there is no index.
        SchemaError: another version of retriever wrote it.
        ConsentError: a deep check would send texts to a host that nobody allowed; nothing was sent.
    """
    started = time.perf_counter()
    checking = _Checking(path, deep, load)
    findings = list(checking.findings())
    seconds = round(time.perf_counter() - started, 3)
    return Verification(str(path), deep, findings, checking.files, checking.embedded, seconds)


class _Checking:
    """One check under way."""

    def __init__(self, path: Path, deep: bool, load: Loader) -> None:
        self._path, self._deep, self._load = path, deep, load
        self._random = np.random.default_rng(0)
        self.files = 0
        self.embedded = 0

    def findings(self) -> Iterator[Finding]:
        """Yield what is damaged, the database first."""
        try:
            store = Store.open(self._path / DATABASE, check=False)
        except IndexDamagedError as error:
            yield Finding(DATABASE, error.message, Remedy.RESTORE)
            return
        with store:
            if problems := store.inspection.structure(quick=not self._deep):
                yield from (Finding(DATABASE, problem, Remedy.REPAIR) for problem in problems)
                return
            yield from self._rows(store)
            yield from self._lacking(store)
            yield from self._made(store)
            for view in store.views.all():
                yield from self._generation(store, view)
            if self._deep:
                yield from self._sample(store)

    def _rows(self, store: Store) -> Iterator[Finding]:
        if self._deep:
            yield from _row_findings(store.inspection.rows())
            if store.inspection.words_differ():
                yield Finding("word index", "differs from the texts", Remedy.REPAIR)
        else:
            yield from _seal_findings(store.seals.broken())
            yield from _source_findings(store.sources.damaged())

    def _lacking(self, store: Store) -> Iterator[Finding]:
        """Check that the base view holds every text: a document comes with parts and vectors in one transaction."""
        if lacking := len(store.parts.lacking()):
            yield Finding(DATABASE, f"lacks parts of {counted(lacking, 'document')}", Remedy.REPAIR)
        for view in [source.view for source in sources_of(store).visible() if source.reads]:
            if view and not view.key.instruction and (lacking := len(store.vectors.pending(view.view_id))):
                yield Finding(f"view {view.view_id}", f"lacks the vectors of {counted(lacking, 'text')}", Remedy.REPAIR)

    def _made(self, store: Store) -> Iterator[Finding]:
        """Check that made views hold what is made of those they are made of, the vectors only deeply."""
        sources, damaged = sources_of(store, self._load), store.sources.damaged()
        for view_id in sources.unmakeable():
            if view_id not in damaged:
                yield Finding(f"source of view {view_id}", "is gone or cannot be read", Remedy.TEACH)
        for source in sources.all():  # others are made up for when their encoders are the index's again
            try:
                source.check()
                contents = source.contents(sources.held)
            except IndexDamagedError:
                continue  # named above
            if contents is None:
                continue
            held, name = store.vectors.held(source.view_id), f"view {source.view_id}"
            # Answers are stored before their vectors, which the next search makes of them.
            if (lacking := len(np.setdiff1d(contents, held))) and not source.in_words:
                yield Finding(name, f"lacks {counted(lacking, 'text')} of what it is made of", Remedy.REPAIR)
            elif more := len(np.setdiff1d(held, contents)):
                yield Finding(name, f"holds {counted(more, 'text')} more than what it is made of", Remedy.REPAIR)
            elif self._deep and not source.reads and not source.in_words and source.view is not None:
                yield from self._make_again(store, source.view, source, sources)

    def _make_again(self, store: Store, view: View, source: Source, sources: Sources) -> Iterator[Finding]:
        """Make some vectors of a view again and compare."""
        with suppress(IndexDamagedError):  # named already
            again = source.derive(sources.stored, self._some(store, view))
            if again is not None:
                stored = store.vectors.get(view.view_id, again.content_ids)
                for name in _differing(view, stored, again.embeddings):
                    yield Finding(name, "is not what is made of the text", Remedy.TEACH)

    def _some(self, store: Store, view: View) -> Ids:
        """Return the ids of some texts that a view holds."""
        held = store.vectors.held(view.view_id)
        chosen: Ids = self._random.choice(held, min(SAMPLE, len(held)), replace=False)
        return chosen

    def _generation(self, store: Store, view: View) -> Iterator[Finding]:
        """Check the view's vector index; one that was replaced meanwhile is none of it any more."""
        generation = store.generations.active(view.view_id)
        while generation is not None:
            problem = index_problem(self._path, generation)
            now = store.generations.active(view.view_id)
            if problem is None or now == generation:
                self.files += 1
                if problem:
                    yield Finding(generation.name, problem, Remedy.REPAIR)
                return
            generation = now

    def _sample(self, store: Store) -> Iterator[Finding]:
        """Read some texts of every view of the index's encoders again and compare."""
        sources = sources_of(store, self._load)
        gone: set[str] = set()  # encoders that do not load; each is told once
        for source in sources.all():
            try:
                source.check()
                if source.reads and source.name not in gone and source.view is not None:
                    yield from self._read_again(store, source.view, source)
            except IndexDamagedError:
                continue  # named already
            except ConsentError:  # no damage: nobody was asked
                raise
            except RetrieverError as error:
                if source.needs:
                    yield Finding(f"source of view {source.view_id}", error.message, Remedy.TEACH)
                    continue
                gone.add(source.name)
                yield Finding(f"encoder {source.name}", error.message, Remedy.MODEL)

    def _read_again(self, store: Store, view: View, source: Source) -> Iterator[Finding]:
        encoder, chosen = source.encoder, self._some(store, view)
        stored = store.vectors.get(view.view_id, chosen)
        texts = store.documents.texts(stored.content_ids)
        again = encoder.encode(list(texts.values()), instruction=view.key.instruction)
        self.embedded += len(again)
        for name, cosine in _differing(view, stored, again).items():
            problem = f"has a cosine of {cosine:.3f} with what the encoder makes of the text today"
            yield Finding(name, problem, Remedy.MODEL)


def _differing(view: View, stored: StoredVectors, again: Embeddings) -> dict[str, float]:
    """Return the names of stored vectors that are others than those made again (n, dim), with their cosines."""
    cosines = zip(stored.content_ids.tolist(), (again * stored.embeddings).sum(axis=1).tolist(), strict=True)
    return {f"vector of text {id} in view {view.view_id}": cosine for id, cosine in cosines if cosine < LEAST_COSINE}


def _row_findings(damage: RowDamage) -> list[Finding]:
    differs = "differs from its checksum"
    return [
        *_seal_findings(damage.seals),
        *(Finding(f"text {content_id}", "differs from its hash", Remedy.REPAIR) for content_id in damage.texts),
        *(Finding(f"document {id!r}", "or its text is damaged", Remedy.INDEX) for id in damage.documents.values()),
        *(Finding(f"parts of document {id!r}", "are not what was stored", Remedy.REPAIR) for id in damage.divided),
        *(Finding(name, differs, Remedy.REPAIR) for name in damage.vectors.values()),
        *(Finding(f"clustering {name!r}", differs, Remedy.CLUSTER) for name in damage.clusterings.values()),
        *_source_findings(damage.sources),
        *(Finding(f"answer {row} to {question!r}", differs, Remedy.READ) for row, question in damage.answers.items()),
    ]


def _seal_findings(seals: Iterable[BrokenSeal]) -> list[Finding]:
    return [Finding(f"{seal.kind} {seal.key}", str(seal), Remedy.REPAIR) for seal in seals]


def _source_findings(view_ids: Iterable[int]) -> list[Finding]:
    return [Finding(f"source of view {view_id}", "differs from its checksum", Remedy.TEACH) for view_id in view_ids]


def index_problem(folder: Path, generation: Generation) -> str | None:
    """Check the vector index of a generation and describe what is wrong with it, or return None."""
    try:
        return open_backend(generation.backend, folder, "cpu").check(generation.handle)
    except RetrieverError as error:
        return error.message
