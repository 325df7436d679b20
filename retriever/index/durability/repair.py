"""`retriever repair`: makes anew what follows from something whole, and names what is lost.

Vector indexes, the word index, the list of metadata fields and SQLite's own indexes follow from the tables. A vector
follows from its text and the encoder. A document or text that is damaged is nowhere else: it is taken out and put in
quarantine, for the user to index it again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retriever.core.errors import EncoderMismatchError, IndexDamagedError, RetrieverError
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import BadRow
from retriever.index.dividing import divide_stored
from retriever.index.durability.taught_again import make_taught
from retriever.index.durability.verify import index_problem
from retriever.index.encoding import Loader, load_described
from retriever.index.generations import build_generation, build_outgrown
from retriever.index.readers import Readers, described_readers
from retriever.index.run_record import versions
from retriever.index.status import ENCODER, PLAIN, own_views
from retriever.index.teaching.taught import unreadable
from retriever.store.checksums import BrokenSeal
from retriever.store.database import DATABASE, Store
from retriever.store.inspection import DamagedVector, RowDamage
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.units import UNITS
from retriever.store.views import View

_NO_WAY = "Restore it from a copy or an export, or index the corpus again into another folder."


@dataclass(slots=True)
class Repair:
    """The result of a repair.

    Attributes:
        mended: what was made anew.
        lost: documents that were taken out; index them again.
        left: what could not be made anew, and why.
    """

    mended: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def repair(path: Path, *, load: Loader = load_described) -> Repair:
    """Mend an index as far as what is whole in it allows; calling it twice is harmless.

    Args:
        path: its folder.
        load: gives the encoder of a description, to embed lost vectors with.

    Raises:
        IndexNotFoundError: there is no index.
        IndexDamagedError: the database's pages or the encoder's description are damaged; nothing was changed.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE, check=False) as store, WriterLock(path / LOCK_NAME):
        return _Repairing(path, store, load).run()


class _Repairing:
    """One repair under way."""

    def __init__(self, path: Path, store: Store, load: Loader) -> None:
        self._path = path
        self._store = store
        self._load = load
        self._loaded: Readers | None = None
        self._documents: list[BadRow] = []  # that were taken out
        self._vectors: list[DamagedVector] = []  # likewise
        self._heads: list[int] = []  # taught views whose head's record is not what was stored
        self._strays = 0  # of those vectors, how many no longer said whose they were
        self.report = Repair()

    def run(self) -> Repair:
        """Mend the database first, in one transaction, then what is made from it.

        What is taken out is known to this run alone: what takes its place has to come in the same transaction, or a
        repair that was killed would leave a gap that the next one does not see.
        """
        # The transaction's end seals the catalogue, so what is wrong with it has to be mended in the same one.
        pages = self._store.inspection.pages()  # found damaged within a transaction, an index could not be made anew
        with self._store.transaction():
            self._mend_structure(pages)
            damage = self._store.inspection.rows()
            self._require_encoder(damage.seals)
            self._remove(damage)
            views = self._views_to_rebuild(damage)
            self._embed()
            retired = [view for view in self._store.views.all() if view.view_id in views and not view.tuned]
            for view in retired:
                self._store.generations.retire(view.view_id)
        for view in retired:
            self._rebuild(view)
        build_outgrown(self._store, self._store.views.all(), self._path)
        self._store.checkpoint()
        return self.report

    def _mend_structure(self, problems: Sequence[str]) -> None:
        """Make SQLite's indexes anew and take out rows that refer to nothing, in the caller's transaction."""
        try:
            if problems:
                self._reindex()
                self.report.mended.append("SQLite's indexes")
            self._remove_orphans()
            if problems and (problems := self._store.inspection.pages()):
                raise IndexDamagedError(problems[0])
        except IndexDamagedError as error:
            message = f"{self._store.path} cannot be repaired: {problems[0] if problems else error.message}"
            raise IndexDamagedError(message, hint=_NO_WAY) from error
        if self._store.inspection.words_differ():
            self._rebuild_words()

    def _reindex(self) -> None:
        try:
            self._store.mending.reindex()
        except IndexDamagedError:
            raise
        except RetrieverError as error:  # damage made a row the equal of another, which a unique index refuses
            self._remove_doubles(error)

    def _remove_doubles(self, refused: RetrieverError) -> None:
        """Take out the rows whose checksum does not hold, and make SQLite's indexes anew."""
        damage, mending = self._store.inspection.rows(), self._store.mending
        with mending.indexes_lost():
            self._documents += mending.remove_documents(damage.documents)
            self._store.units.remove(damage.units)
            self._take_out(damage.vectors, stray=True)
            self._remove_clusterings()
            for seal in damage.seals:
                if seal.kind == "generation":
                    mending.remove_generation(int(seal.key))
        try:
            mending.reindex()
        except RetrieverError as error:
            raise IndexDamagedError(error.message) from refused

    def _remove_orphans(self) -> None:
        """Take out the rows that refer to nothing."""
        rowids: dict[str, list[int]] = {}
        for orphan in self._store.inspection.orphans():
            rowids.setdefault(orphan.table, []).append(orphan.rowid)
        mending = self._store.mending
        self._take_out(self._store.inspection.vectors(rowids.get("vectors", ())), stray=True)
        self._documents += mending.remove_documents(rowids.get("documents", ()))
        for view_id in rowids.get("similarities", ()):
            mending.remove_similarity(view_id)
        self._store.edits.remove(rowids.get("edits", ()))
        for view_id in rowids.get("verdicts", ()):
            mending.remove_verdict(view_id)
        if rows := rowids.get("quarantine"):
            mending.remove_quarantined(rows)
            self.report.left.append(f"{len(rows)} rows in quarantine were removed: their run is unknown.")

    def _take_out(self, vectors: Sequence[DamagedVector], *, stray: bool = False) -> None:
        self._store.mending.remove_vectors(vectors)
        self._vectors += vectors
        self._strays += len(vectors) if stray else 0

    def _remove_clusterings(self) -> None:
        clusterings = self._store.clusterings.damaged()
        self._store.clusterings.remove(clusterings)
        again = "was removed: cluster again and save it anew."
        self.report.left += [f"clustering {name!r} {again}" for name in clusterings.values()]

    def _remove_heads(self) -> None:
        """Take out what is damaged of what views were taught, and taught views that cannot be made again."""
        before = {view.view_id: view for view in self._store.views.all() if view.taught}
        self._store.heads.remove([*self._heads, *self._store.heads.damaged()])
        self._store.heads.remove(unreadable(self._store))
        self._store.mending.remove_untaught()
        left = {view.view_id for view in self._store.views.all()}
        for view_id, view in before.items():
            if view_id not in left:
                self.report.left.append(f"what {view.key.instruction!r} was taught was removed: teach it again.")

    def _rebuild_words(self) -> None:
        self._store.documents.rebuild_words()
        self.report.mended.append("word index")

    def _require_encoder(self, seals: Sequence[BrokenSeal]) -> None:
        """Where an encoder's description changed, keep it only if it still leads to the encoder of a view."""
        for setting in (ENCODER, PLAIN):
            broken = [seal for seal in seals if (seal.kind, seal.key) == ("setting", setting)]
            if not broken or (setting == PLAIN and broken[0].gone):
                continue
            try:
                readers = self._readers()
                fingerprint = (readers.question if setting == ENCODER else readers.base).fingerprint
                if all(view.key.fingerprint != fingerprint for view in self._store.views.all()):
                    raise EncoderMismatchError("it is not the encoder of any view")
            except (RetrieverError, ValueError, KeyError, TypeError) as error:
                raise IndexDamagedError(
                    f"{self._store.path} no longer says which encoder made it: {error}.", hint=_NO_WAY
                ) from error
            self.report.mended.append(f"setting {setting}")

    def _readers(self) -> Readers:
        if self._loaded is None:
            self._loaded = described_readers(self._store, self._load)
            if self._loaded is None:
                raise EncoderMismatchError("The index names no encoder.")
        return self._loaded

    def _views_to_rebuild(self, damage: RowDamage) -> set[int]:
        """Return the views whose vector index is damaged or holds what was taken out."""
        views = {vector.view_id for vector in self._vectors}
        views |= self._views_of_broken_generations(damage.seals)
        for view in self._store.views.all():
            generation = self._store.generations.active(view.view_id)
            if generation and (damage.texts or self._strays or index_problem(self._path, generation)):
                views.add(view.view_id)
        return views

    def _views_of_broken_generations(self, seals: Sequence[BrokenSeal]) -> set[int]:
        broken = {seal.key for seal in seals if seal.kind == "generation"}
        if not broken:
            return set()
        # A record that changed may name another view than its own: all views are built anew.
        return {view.view_id for view in self._store.views.all()}

    def _remove(self, damage: RowDamage) -> None:
        """Take out what is damaged, in the caller's transaction."""
        mending, units = self._store.mending, self._store.units
        run_id = self._store.runs.start("repair", versions())
        parents = {*damage.units, *units.wholes_of(damage.texts)}
        self._documents += mending.remove_texts(damage.texts)
        self._documents += mending.remove_documents(damage.documents)
        units.remove(sorted(parents))
        self._take_out(damage.vectors)
        self._remove_clusterings()
        self._mend_seals(damage.seals)
        self._remove_heads()
        if divided := divide_stored(self._store):
            self.report.mended.append(f"units of {divided} texts")
        if damage.texts:
            self._rebuild_words()
        lost = self._documents
        self._store.runs.quarantine(run_id, lost)
        self._store.runs.finish(run_id, "partial" if lost else "finished", {"skipped": len(lost)})
        self.report.lost += [f"document {row.id!r}" for row in lost]

    def _mend_seals(self, seals: Sequence[BrokenSeal]) -> None:
        """Take out damaged rows of the catalogue; the transaction's end seals what is left."""
        mending = self._store.mending
        if any(seal.kind == "field" for seal in seals):
            mending.rebuild_fields()
            self.report.mended.append("metadata fields")
        for seal in seals:
            if seal.gone and (seal.kind, seal.key) != ("setting", UNITS):
                self._note_gone(seal)
            else:
                self._take_out_sealed(seal)

    def _take_out_sealed(self, seal: BrokenSeal) -> None:
        """Take out a row of the catalogue that is not what was stored."""
        mending, left = self._store.mending, self.report.left
        match seal.kind:
            case "view":
                mending.remove_view(int(seal.key))
                left.append(f"view {seal.key} was dropped: what it answered is unknown. Complete it again.")
            case "generation":
                mending.remove_generation(int(seal.key))
            case "similarity":
                mending.remove_similarity(int(seal.key))
            case "verdict":
                mending.remove_verdict(int(seal.key))
            case "head":
                self._heads.append(int(seal.key))
            case "edit":
                self._store.edits.remove_from([int(seal.key)])
                left.append(f"edit {seal.key} of a clustering and those after it were removed: look it over.")
            case "mark":
                self._store.marks.remove([int(seal.key)])
                left.append(f"mark {seal.key} was removed: mark the hit again.")
            case "setting" if seal.key == UNITS:
                self.report.mended.append(f"setting {UNITS}: {self._store.units.restore()}")
            case "setting" if seal.key not in (ENCODER, PLAIN):
                self._store.settings.remove(seal.key)
                left.append(f"setting {seal.key} was forgotten.")

    def _note_gone(self, seal: BrokenSeal) -> None:
        if seal.kind in ("view", "setting", "edit", "mark"):
            self.report.left.append(f"{seal.kind} {seal.key} is gone.")

    def _embed(self) -> None:
        """Embed the texts whose vector was taken out, and all that the base view lacks, in the caller's transaction."""
        found, own = False, own_views(self._store)
        for view in [one for one in self._store.views.all() if not (one.taught or one.tuned)]:
            named = [vector.content_id for vector in self._vectors if vector.view_id == view.view_id]
            missing = self._store.vectors.missing(view.view_id, named)
            wanting = dict.fromkeys(self._store.documents.texts(missing))
            # A row whose reference changed names another text than its own. Of a whole view it is what lacks a vector.
            base = view in own and not view.key.instruction
            pending = self._store.vectors.pending(view.view_id).tolist() if self._vectors or base else []
            if base or len(pending) <= len(self._vectors):
                wanting |= dict.fromkeys(pending)
                found |= bool(pending)
            if wanting:
                self._embed_view(view, list(wanting))
        make_taught(self._store, self._readers, self.report)
        if self._strays and not found:
            self.report.left.append(f"{self._strays} vectors were removed: of which texts is unknown.")

    def _embed_view(self, view: View, content_ids: Sequence[int]) -> None:
        name = f"{len(content_ids)} vectors of view {view.view_id}"
        try:
            readers = self._readers()
            own = readers.view_key(view.key.instruction) == view.key
        except RetrieverError as error:
            self.report.left.append(f"{name} are missing, and the encoder does not load: {error.message}")
            return
        if not own:
            self.report.left.append(f"{name} are missing: they are another encoder's.")
            return
        texts = self._store.documents.texts(content_ids)
        (encoded,) = readers.encode_views(list(texts.values()), [view.key.instruction])
        self._store.vectors.put(view.view_id, list(texts), encoded.embeddings, encoded.words)
        self.report.mended.append(name)

    def _rebuild(self, view: View) -> None:
        built = build_generation(self._store, view, self._path)
        if built is not None:
            self.report.mended.append(built.name)
