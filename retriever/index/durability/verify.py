"""`retriever verify`: is every byte of an index still what was stored?

The quick way checks the database's structure and catalogue, and the vector index of every view (its file's
SHA-256). The deep way also
compares SQLite's indexes with its tables, every text with its hash, every document and vector with its checksum, the
word index with the texts, and embeds a sample of texts again. Nothing is mended;
opening brings an older schema up to date.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from retriever.core.encoder import Encoder
from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import Ids
from retriever.index.encoding import Loader, load_described
from retriever.index.readers import Readers, described_readers
from retriever.index.status import own_views, reader_descriptions
from retriever.index.teaching.taught import mapped, taught_of
from retriever.store.database import DATABASE, Store
from retriever.store.generations import Generation
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


def verify(path: Path, *, deep: bool = False, load: Loader = load_described, seed: int = 0) -> Verification:
    """Check an index.

    Args:
        path: its folder.
        deep: read every row, and embed a sample again.
        load: gives the encoder of a description.
        seed: of the sample.

    Raises:
        IndexNotFoundError: there is no index.
        SchemaError: a newer version wrote it.
    """
    started = time.perf_counter()
    checking = _Checking(path, deep, load, seed)
    findings = list(checking.findings())
    seconds = round(time.perf_counter() - started, 3)
    return Verification(str(path), deep, findings, checking.files, checking.embedded, seconds)


class _Checking:
    """One check under way."""

    def __init__(self, path: Path, deep: bool, load: Loader, seed: int) -> None:
        self._path = path
        self._deep = deep
        self._load = load
        self._random = np.random.default_rng(seed)
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
            broken = [Finding(DATABASE, problem, Remedy.REPAIR) for problem in self._structure(store)]
            yield from broken
            if broken:
                return
            yield from self._rows(store)
            yield from self._lacking(store)
            yield from self._taught(store)
            for view in store.views.all():
                yield from self._generation(store, view)
            if self._deep:
                yield from self._sample(store)

    def _structure(self, store: Store) -> list[str]:
        return store.inspection.structure(quick=not self._deep)

    def _rows(self, store: Store) -> Iterator[Finding]:
        for seal in store.inspection.seals():
            yield Finding(f"{seal.kind} {seal.key}", str(seal), Remedy.REPAIR)
        if not self._deep:
            return
        found = store.inspection.rows()
        for content_id in found.texts:
            wholes = store.units.wholes_of([content_id])  # a unit's text is made from theirs again
            made_again = bool(wholes) and content_id not in wholes
            yield Finding(f"text {content_id}", "differs from its hash", Remedy.REPAIR if made_again else Remedy.INDEX)
        for content_id in found.units:
            yield Finding(f"units of text {content_id}", "are not what was stored", Remedy.REPAIR)
        for id in found.documents.values():
            yield Finding(f"document {id!r}", "differs from its checksum", Remedy.INDEX)
        for vector in found.vectors:
            name = f"vector of text {vector.content_id} in view {vector.view_id}"
            yield Finding(name, "differs from its checksum", Remedy.REPAIR)
        for name in store.clusterings.damaged().values():
            yield Finding(f"clustering {name!r}", "differs from its checksum", Remedy.CLUSTER)
        if store.inspection.words_differ():
            yield Finding("word index", "differs from the texts", Remedy.REPAIR)

    def _lacking(self, store: Store) -> Iterator[Finding]:
        """Check that the base view holds every text: a document comes with units and vectors in one transaction."""
        if undivided := len(store.units.undivided()):
            yield Finding(DATABASE, f"lacks the units of {undivided} texts", Remedy.REPAIR)
        for view in own_views(store):
            lacking = 0 if view.key.instruction else len(store.vectors.pending(view.view_id))
            if lacking:
                yield Finding(f"view {view.view_id}", f"lacks the vectors of {lacking} texts", Remedy.REPAIR)

    def _taught(self, store: Store) -> Iterator[Finding]:
        """Check what views were taught, and that taught views hold what it makes of them, the vectors only deeply."""
        damaged, views = store.heads.damaged(), {view.view_id: view for view in store.views.all()}
        for view_id in damaged:
            yield Finding(f"head of view {view_id}", "differs from its checksum", Remedy.TEACH)
        for view_id, source_id in store.heads.sources().items():
            if view_id in damaged or source_id not in views or view_id not in views:
                continue
            if views[view_id].tuned:
                held = store.vectors.content_ids(source_id, through=store.vectors.last_id(source_id))
                if lacking := len(store.vectors.missing(view_id, held)):
                    yield Finding(f"view {view_id}", f"lacks {lacking} texts of view {source_id}", Remedy.REPAIR)
            elif differing := store.vectors.differing(view_id, source_id):
                problem = f"holds {differing} texts less or more than view {source_id}, which it is made of"
                yield Finding(f"view {view_id}", problem, Remedy.REPAIR)
            elif self._deep:
                yield from self._map_again(store, views[source_id])

    def _map_again(self, store: Store, source: View) -> Iterator[Finding]:
        """Map some vectors of a view again and compare them with those of its taught view."""
        try:
            found = taught_of(store, source)
        except IndexDamagedError as error:
            yield Finding(f"what view {source.view_id} was taught", error.message, Remedy.TEACH)
            return
        if found is None:
            return
        try:
            again = mapped(store, found, self._some(store, source))
            stored = store.vectors.get(found.view.view_id, again.content_ids)
        except IndexDamagedError:
            return  # named already
        cosines = (again.embeddings * stored.embeddings).sum(axis=1)
        for content_id in again.content_ids[cosines < LEAST_COSINE].tolist():
            name = f"vector of text {content_id} in view {found.view.view_id}"
            yield Finding(name, "is not what was taught makes of the text", Remedy.TEACH)

    def _some(self, store: Store, view: View) -> Ids:
        """Return the ids of some texts that a view holds."""
        held = store.vectors.content_ids(view.view_id, through=store.vectors.last_id(view.view_id))
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
        """Embed some texts of every view again and compare."""
        readers, descriptions = described_readers(store, self._load), reader_descriptions(store)
        if readers is None or descriptions is None:
            return
        gone: set[str] = set()  # encoders that do not load; each is told once
        for view in own_views(store):
            name = str(descriptions.of(view).get("name"))
            if name in gone:
                continue
            try:
                readers.reader(view.key.instruction)
            except RetrieverError as error:
                gone.add(name)
                yield Finding(f"encoder {name}", error.message, Remedy.MODEL)
                continue
            yield from self._embed_again(store, view, readers.reader(view.key.instruction), view.key.instruction)
            yield from self._read_tuned_again(store, view, readers)

    def _read_tuned_again(self, store: Store, source: View, readers: Readers) -> Iterator[Finding]:
        """Let the reader that was tuned for a view, if any, read some texts again and compare."""
        try:
            found = taught_of(store, source)
            if found is not None and found.tuning is not None:
                yield from self._embed_again(store, found.plain, found.reader(readers), "")
        except IndexDamagedError:
            return  # named already
        except RetrieverError as error:
            yield Finding(f"what view {source.view_id} was taught", error.message, Remedy.TEACH)

    def _embed_again(self, store: Store, view: View, reader: Encoder, instruction: str) -> Iterator[Finding]:
        chosen = self._some(store, view)
        try:
            stored = store.vectors.get(view.view_id, chosen)
            texts = store.documents.texts(stored.content_ids)
        except IndexDamagedError:
            return  # named already
        again = reader.encode(list(texts.values()), instruction=instruction)
        self.embedded += len(again)
        cosines = (again * stored.embeddings).sum(axis=1)
        for content_id, cosine in zip(stored.content_ids.tolist(), cosines.tolist(), strict=True):
            if cosine < LEAST_COSINE:
                name = f"vector of text {content_id} in view {view.view_id}"
                problem = f"has a cosine of {cosine:.3f} with what the encoder makes of the text today"
                yield Finding(name, problem, Remedy.MODEL)


def index_problem(folder: Path, generation: Generation) -> str | None:
    """Check the vector index of a generation and describe what is wrong with it, or return None."""
    try:
        return open_backend(generation.backend, folder, "cpu").check(generation.handle)
    except RetrieverError as error:
        return error.message
