"""`retriever repair`: makes anew what follows from something whole, and names what is lost.

FAISS files, the word index, the list of metadata fields and SQLite's own indexes follow from the tables. A vector
follows from its text and the encoder. A document or text that is damaged is nowhere else: it is taken out and put in
quarantine, for the user to index it again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from retriever.core.errors import EncoderMismatchError, IndexDamagedError, RetrieverError
from retriever.core.protocols import Encoder
from retriever.services.encoding import encode_views, load_described, view_key
from retriever.services.generations import IndexType, build_generation
from retriever.services.index_status import ENCODER
from retriever.services.results import SCHEMA_VERSION
from retriever.services.run_record import versions
from retriever.services.verifying import EncoderSource, file_problem
from retriever.services.workspace import DATABASE
from retriever.store.checksums import BrokenSeal
from retriever.store.database import Store
from retriever.store.inspection import DamagedVector, RowDamage
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.store.views import View

_NO_WAY = "Restore it from a copy or an export, or index the corpus again into another folder."


@dataclass(slots=True)
class Repair:
    """What a repair did.

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


def repair(path: Path, *, encoder: EncoderSource | None = None) -> Repair:
    """Mend an index as far as what is whole in it allows; calling it twice is harmless.

    Args:
        path: its folder.
        encoder: what to embed lost vectors with; None loads the index's own.

    Raises:
        IndexNotFoundError: there is no index.
        IndexDamagedError: the database's pages or the encoder's description are damaged; nothing was changed.
        IndexLockedError: another process writes to the index.
    """
    with Store.open(path / DATABASE, check=False) as store, WriterLock(path / LOCK_NAME):
        return _Repairing(path, store, encoder).run()


class _Repairing:
    """One repair under way."""

    def __init__(self, path: Path, store: Store, encoder: EncoderSource | None) -> None:
        self._path = path
        self._store = store
        self._source = encoder
        self._encoder: Encoder | None = None
        self.report = Repair()

    def run(self) -> Repair:
        """Mend the database first, then what is made from it."""
        self._mend_structure()
        damage = self._store.inspection.rows()
        self._require_encoder(damage.seals)
        views = self._views_to_rebuild(damage)
        wanting = self._remove(damage)
        self._embed(wanting)
        for view in self._store.views.all():
            if view.view_id in views:
                self._rebuild(view)
        self._store.checkpoint()
        return self.report

    def _mend_structure(self) -> None:
        inspection = self._store.inspection
        if problems := inspection.structure():
            try:
                with self._store.transaction():
                    self._store.mending.reindex()
                    if problems := inspection.structure():
                        raise IndexDamagedError(problems[0])
            except IndexDamagedError as error:
                message = f"{self._store.path} cannot be repaired: {problems[0]}."
                raise IndexDamagedError(message, hint=_NO_WAY) from error
            self.report.mended.append("SQLite's indexes")
        if inspection.words_differ():
            self._rebuild_words()

    def _rebuild_words(self) -> None:
        self._store.documents.rebuild_words()
        self.report.mended.append("word index")

    def _require_encoder(self, seals: Sequence[BrokenSeal]) -> None:
        """Where the encoder's description changed, keep it only if it still leads to the encoder of a view."""
        if not any((seal.kind, seal.key) == ("setting", ENCODER) for seal in seals):
            return
        try:
            fingerprint = self._load().fingerprint
            if all(view.key.fingerprint != fingerprint for view in self._store.views.all()):
                raise EncoderMismatchError("it is not the encoder of any view")
        except (RetrieverError, ValueError, KeyError, TypeError) as error:
            raise IndexDamagedError(
                f"{self._store.path} no longer says which encoder made it: {error}.", hint=_NO_WAY
            ) from error
        self.report.mended.append(f"setting {ENCODER}")

    def _load(self) -> Encoder:
        if self._encoder is None:
            description = self._store.settings.get(ENCODER)
            if not isinstance(description, dict):
                raise EncoderMismatchError("The index names no encoder.")
            self._encoder = load_described(description) if self._source is None else self._source()
        return self._encoder

    def _views_to_rebuild(self, damage: RowDamage) -> set[int]:
        """Return the views whose FAISS file is damaged or holds what is taken out."""
        views = {vector.view_id for vector in damage.vectors}
        views |= self._views_of_broken_generations(damage.seals)
        for view in self._store.views.all():
            generation = self._store.generations.active(view.view_id)
            if generation and (damage.texts or file_problem(self._path, view, generation)):
                views.add(view.view_id)
        return views

    def _views_of_broken_generations(self, seals: Sequence[BrokenSeal]) -> set[int]:
        broken = {seal.key for seal in seals if seal.kind == "generation"}
        if not broken:
            return set()
        # A record that changed may name another view than its own: all views are built anew.
        return {view.view_id for view in self._store.views.all()}

    def _remove(self, damage: RowDamage) -> list[DamagedVector]:
        """Take out what is damaged, in one transaction; return the vectors whose text is whole."""
        mending = self._store.mending
        with self._store.transaction():
            run_id = self._store.runs.start("repair", versions())
            removed = mending.remove_texts(damage.texts)
            removed += mending.remove_documents(damage.documents)
            mending.remove_vectors(damage.vectors)
            clusterings = self._store.clusterings.damaged()
            self._store.clusterings.remove(clusterings)
            self._mend_seals(damage.seals)
            self._store.runs.quarantine(run_id, removed)
            self._store.runs.finish(run_id, "partial" if removed else "finished", {"skipped": len(removed)})
        if damage.texts:
            self._rebuild_words()
        self.report.lost += [f"document {row.id!r}" for row in removed]
        again = "was removed: cluster again and save it anew."
        self.report.left += [f"clustering {name!r} {again}" for name in clusterings.values()]
        return [vector for vector in damage.vectors if vector.content_id not in damage.texts]

    def _mend_seals(self, seals: Sequence[BrokenSeal]) -> None:
        """Take out damaged rows of the catalogue; the transaction's end seals what is left."""
        mending = self._store.mending
        if any(seal.kind == "field" for seal in seals):
            mending.rebuild_fields()
            self.report.mended.append("metadata fields")
        for seal in seals:
            if seal.gone:
                self._note_gone(seal)
            elif seal.kind == "view":
                mending.remove_view(int(seal.key))
                self.report.left.append(f"view {seal.key} was dropped: what it answered is unknown. Complete it again.")
            elif seal.kind == "generation":
                mending.remove_generation(int(seal.key))
            elif seal.kind == "similarity":
                mending.remove_similarity(int(seal.key))
            elif seal.kind == "setting" and seal.key != ENCODER:
                self._store.settings.remove(seal.key)
                self.report.left.append(f"setting {seal.key} was forgotten.")

    def _note_gone(self, seal: BrokenSeal) -> None:
        if seal.kind in ("view", "setting"):
            self.report.left.append(f"{seal.kind} {seal.key} is gone.")

    def _embed(self, wanting: Sequence[DamagedVector]) -> None:
        """Embed the texts whose vector was taken out."""
        by_view: dict[int, list[int]] = {}
        for vector in wanting:
            by_view.setdefault(vector.view_id, []).append(vector.content_id)
        for view in self._store.views.all():
            if view.view_id in by_view:
                self._embed_view(view, by_view[view.view_id])

    def _embed_view(self, view: View, content_ids: Sequence[int]) -> None:
        name = f"{len(content_ids)} vectors of view {view.view_id}"
        try:
            encoder = self._load()
        except RetrieverError as error:
            self.report.left.append(f"{name} are missing, and the encoder does not load: {error.message}")
            return
        if view_key(encoder, view.key.instruction) != view.key:
            self.report.left.append(f"{name} are missing: they are another encoder's.")
            return
        texts = self._store.documents.texts(content_ids)
        (encoded,) = encode_views(encoder, list(texts.values()), [view.key.instruction])
        with self._store.transaction():
            self._store.vectors.put(view.view_id, list(texts), encoded.embeddings, encoded.words)
        self.report.mended.append(name)

    def _rebuild(self, view: View) -> None:
        generation = self._store.generations.active(view.view_id)
        built = build_generation(self._store, view, self._path, IndexType(generation.factory if generation else "auto"))
        if built is not None:
            self.report.mended.append(built.path)
