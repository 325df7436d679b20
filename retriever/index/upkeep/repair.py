"""`retriever repair`: rebuilds what is derived, embeds what is lost, and gives the space of what was deleted back.

Derived are SQLite's own indexes, the word index, the list of metadata fields, the parts of documents, taught vectors
and every vector index; a lost vector is embedded again. What nothing in the index can replace is taken out and named.
An index that cannot be read without it is left as it is: restore a copy.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from retriever.core.errors import EncoderMismatchError, IndexDamagedError, RetrieverError
from retriever.core.paths import folder_within
from retriever.core.requests import IndexType
from retriever.core.results import SCHEMA_VERSION
from retriever.core.text import counted
from retriever.index.dividing import UNITS, divide_again
from retriever.index.encoding import Loader, load_described
from retriever.index.generations import build_generation, remember
from retriever.index.indexing import Indexer
from retriever.index.run_record import recorded
from retriever.index.sources.catalog import Sources, sources_of
from retriever.index.sources.encoders import ENCODER, PLAIN, described
from retriever.index.sources.filling import catch_up
from retriever.index.view_upkeep import clear_dropped, remove_unsourced
from retriever.index.workers.spool import FOLDER as SPOOL
from retriever.index.workers.spool import Spool
from retriever.store.checksums import BrokenSeal
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.word_index import LANGUAGE
from retriever.vectors.files import view_folder

_RESTORE = "Restore a copy or an export, or index the corpus again into another folder."


@dataclass(slots=True)
class Repair:
    """The result of a repair.

    Attributes:
        rebuilt: what was damaged and is made anew.
        lost: what is gone, each with what to do about it.
        generations: the vector indexes that were built, one of each view.
    """

    rebuilt: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def repair(
    path: Path, index_type: IndexType | None = None, *, load: Loader = load_described, device: str = "auto"
) -> Repair:
    """Make an index whole and compact; calling it twice is harmless.

    Args:
        path: its folder.
        index_type: the vector index to build now and from now on; None for what the index remembers.
        load: gives the encoder of a description, to embed lost vectors with.
        device: where vector indexes will be searched.

    Raises:
        IndexNotFoundError: there is no index.
        IndexDamagedError: what is damaged cannot be had from the rest of the index; nothing was taken out.
        IndexLockedError: another process writes to the index.
        UsageError: nothing could be built as ``index_type`` says.
    """
    with Store.open(path / DATABASE, check=False) as store, WriterLock(path / LOCK_NAME):
        return _Repairing(path, store, load).run(index_type, device)


class _Repairing:
    """One repair under way."""

    def __init__(self, path: Path, store: Store, load: Loader) -> None:
        self._path, self._store, self._load = path, store, load
        self._report = Repair()

    def run(self, index_type: IndexType | None, device: str) -> Repair:
        """Mend the tables in one transaction, then fill and build what is made from them.

        What is lacking is embedded after it, while others search and write; the next repair goes on with one that was
        killed.
        """
        self._reindex()
        kept = self._require_settings()
        for view in self._store.views.all():
            view_folder(self._path, view.view_id)  # refuses before anything is done
        with recorded(self._store, "repair") as run_id:
            remember(self._store, index_type, self._path, {view.key.dim for view in self._store.views.all()})
            with self._store.transaction():
                self._mend(kept)
            sources = sources_of(self._store, self._load)
            if sources.encoders.descriptions is not None:
                self._embed(sources, run_id)
                self._derive(sources)
            self._compact(device)
        self._store.checkpoint()
        return self._report

    def _reindex(self) -> None:
        """Make SQLite's indexes anew where they are damaged, and refuse a database of which more is."""
        problems = self._store.inspection.pages()
        if not problems:
            return
        try:
            self._store.mending.reindex()
        except RetrieverError as error:
            raise self._refused(error.message) from error
        if problems := self._store.inspection.pages():
            raise self._refused(problems[0])
        self._report.rebuilt.append("SQLite's indexes")

    def _require_settings(self) -> list[BrokenSeal]:
        """Refuse an index that no longer says what made it; return the broken seals of settings that still do."""
        broken = [seal for seal in self._store.seals.broken() if seal.kind == "setting"]
        fingerprints = {view.key.fingerprint for view in self._store.views.all()}
        for seal in broken:
            if seal.key in (ENCODER, PLAIN):
                try:
                    known = (described(self._store, seal.key) or {}).get("fingerprint") in fingerprints
                except IndexDamagedError:
                    known = False
                if not known:
                    raise self._refused("it no longer says which encoder made it")
        kept = [ENCODER, PLAIN, UNITS, *([LANGUAGE] if self._store.words.is_known() else [])]
        return [seal for seal in broken if seal.key in kept]

    def _refused(self, why: str) -> IndexDamagedError:
        return IndexDamagedError(f"{self._store.path} cannot be repaired: {why}.", hint=_RESTORE)

    def _mend(self, kept: Sequence[BrokenSeal]) -> None:
        """Take out what is damaged and make anew what the tables say, in the caller's transaction."""
        store, rebuilt = self._store, self._report.rebuilt
        orphans, damage = store.inspection.orphans(), store.inspection.rows()
        rebuilt += [f"setting {seal.key}" for seal in kept]
        if damage or orphans:
            mended = replace(damage, seals=[seal for seal in damage.seals if seal not in kept])
            self._report.lost += store.mending.remove(mended)
            for view in store.views.all():
                store.generations.retire(view.view_id)  # it may hold what was taken out
        if UNITS in [seal.key for seal in kept]:
            store.settings.set(UNITS, "sentences" if store.parts else "documents")
        if divided := divide_again(store):
            rebuilt.append(f"parts of {counted(divided, 'document')}")
        if any(seal.kind == "field" for seal in damage.seals):
            rebuilt.append("metadata fields")
        self._report.lost += store.mending.remove_views([*damage.sources, *sources_of(store).unmakeable()])
        if LANGUAGE in [seal.key for seal in damage.seals] or store.inspection.words_differ():
            store.words.rebuild()
            rebuilt.append("word index")
        store.seals.renew_all()

    def _embed(self, sources: Sources, run_id: int) -> None:
        """Embed what the views lack that are to be full; no transaction may be under way."""
        lacking = {
            view.view_id: (view, count)
            for view in (source.view for source in sources.visible() if source.reads)
            if view and not view.lazy and (count := len(self._store.vectors.pending(view.view_id)))
        }
        if not lacking:
            return
        try:
            for view, _ in lacking.values():
                if sources.encoders.view_key(view.key.instruction) != view.key:
                    raise EncoderMismatchError("it is another one now.")
        except RetrieverError as error:
            again = f"the encoder does not load ({error.message}); put it back and repair again"
            self._report.lost += [
                f"{counted(count, 'vector')} of view {view_id}: {again}" for view_id, (_, count) in lacking.items()
            ]
            return
        indexer = Indexer(self._store, sources, [sources.read(view.key.instruction) for view, _ in lacking.values()])
        indexer.fill(run_id)
        self._rebuilt_vectors(indexer.report.embedded)

    def _derive(self, sources: Sources) -> None:
        """Make again what made views lack, of what they are made of, and take out what they should not hold."""
        store, ours = self._store, {source.view_id for source in sources.all()}
        for source in sources.all(lambda view: True):
            encodes = source.reads or source.in_words  # which takes the encoders of the index
            contents = source.contents(sources.held)
            if contents is None or (encodes and source.view_id not in ours):
                continue
            before = store.vectors.count(source.view_id)
            remove_unsourced(store, [source])
            try:
                catch_up(sources, source)
            except RetrieverError as error:
                lacking = len(store.vectors.missing(source.view_id, contents))
                self._report.lost.append(
                    f"{counted(lacking, 'vector')} of view {source.view_id}: "
                    f"the encoder does not load ({error.message}); put it back and repair again"
                )
            self._rebuilt_vectors({source.view_id: store.vectors.count(source.view_id) - before})

    def _rebuilt_vectors(self, counts: dict[int, int]) -> None:
        self._report.rebuilt += [
            f"{counted(count, 'vector')} of view {view_id}" for view_id, count in counts.items() if count
        ]

    def _compact(self, device: str) -> None:
        """Drop what deleted documents left behind, and build every view's vector index anew."""
        store = self._store
        with store.transaction():
            store.documents.collect_garbage()
        searched = [source.view for source in sources_of(store).visible(lambda view: True)]
        built = [build_generation(store, view, self._path, device) for view in searched if view]
        self._report.generations = [generation.generation_id for generation in built if generation]
        clear_dropped(store, self._path)
        Spool(folder_within(self._path, SPOOL)).clear()
        store.vacuum()
