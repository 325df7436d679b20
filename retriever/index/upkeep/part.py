"""`index.upkeep`: what keeps an index in order."""

from collections.abc import Collection, Sequence
from pathlib import Path

from retriever.core.arguments import require
from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder
from retriever.core.requests import IndexType
from retriever.core.results import OnIndexing
from retriever.core.types import Ids
from retriever.index import reembedding
from retriever.index.completing import complete, lacking
from retriever.index.filtering import request_filter
from retriever.index.indexing import IndexingOptions
from retriever.index.opened import Opened
from retriever.index.sources.encoders import BaseEncoder
from retriever.index.upkeep import archive, repair, verify
from retriever.index.view_upkeep import LAZY_LIMIT, clear_dropped, evict, lazy_limit, views_of
from retriever.vectors.files import view_folder


class Upkeep:
    """The part of an index (`retriever.workspace.Index`) that keeps it in order; the index may be damaged."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def complete(
        self,
        instructions: Sequence[str],
        *,
        where: str | None = None,
        ids: Collection[str] | None = None,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
    ) -> None:
        """Embed what the views of some instructions lack, all in one pass.

        Nothing but their use is noted where nothing is lacking. Whatever interrupts it, whole batches stay. Completed
        for a part of the documents, a view stays lazy.

        Args:
            instructions: of the views.
            where: complete them for the documents that this filter over metadata accepts.
            ids: complete them for these documents; None for all.
            options: how to embed.
            progress: called with the growing report, which counts texts.

        Raises:
            InputError: one of the views is not there yet, and there is no document or none matches.
            UsageError: an instruction is too long.
            FilterError: the filter cannot be parsed or names an unknown field.
        """
        require(Sequence[str], instructions=instructions)
        condition = request_filter(self._opened.store, where, *instructions)
        complete(self._opened, instructions, condition, ids, options=options, progress=progress)

    def lacking(
        self, instructions: Sequence[str], *, where: str | None = None, ids: Collection[str] | None = None
    ) -> Ids:
        """Return the content ids of the texts that one of the views of some instructions lacks, ascending.

        Documents are looked at as by `complete`.
        """
        require(Sequence[str], instructions=instructions)
        condition = request_filter(self._opened.store, where, *instructions)
        return lacking(self._opened, instructions, condition, ids)

    def drop_views(self, instructions: Sequence[str]) -> None:
        """Remove the views of some instructions, with vectors, words and files: all of them or none.

        Raises:
            UsageError: the base view is among them.
            InputError: there is no such view.
            IndexLockedError: another process writes to this index.
        """
        require(Sequence[str], instructions=instructions)
        opened, store = self._opened, self._opened.store
        dropped = views_of(store, instructions)
        if dropped:
            with opened.writing("drop"):
                for view in dropped:
                    view_folder(opened.path, view.view_id)  # refuses a link before anything is done
                with store.transaction():
                    store.views.drop(*(view.view_id for view in dropped))
                clear_dropped(store, opened.path)
            opened.views.forget(dropped)

    @property
    def lazy_limit(self) -> int | None:
        """The most bytes that vectors of lazily filled views may take; None for no limit. Setting it removes excess."""
        return lazy_limit(self._opened.store)

    @lazy_limit.setter
    def lazy_limit(self, limit: int | None) -> None:
        with self._opened.writing("limit"):
            if limit is not None and limit < 0:
                raise UsageError(f"The limit is {limit} bytes.", hint="Give at least 0, or none.")
            self._opened.store.settings.set(LAZY_LIMIT, limit)
            if limit is not None:
                evict(self._opened.store, self._opened.path, limit)

    def verify(self, *, deep: bool = False) -> verify.Verification:
        """Check every part of the index for damage; see `retriever.index.upkeep.verify.verify`."""
        return verify.verify(self._opened.path, deep=deep, load=self._opened.load)

    def repair(self, index_type: IndexType | None = None) -> repair.Repair:
        """Make the index whole and compact; see `retriever.index.upkeep.repair.repair`."""
        opened = self._opened
        return repair.repair(opened.path, index_type, load=opened.load, device=opened.device)

    def reembed(
        self,
        encoder: Encoder | None = None,
        *,
        plain: BaseEncoder | None = None,
        options: IndexingOptions | None = None,
        progress: OnIndexing | None = None,
    ) -> reembedding.Reembedding:
        """Make other encoders the index's own; see `retriever.index.reembedding.reembed`."""
        return reembedding.reembed(
            self._opened.path, encoder, plain=plain, load=self._opened.load, options=options, progress=progress
        )

    def archive(self, file: Path) -> archive.Archived:
        """Write the index as one file; see `retriever.index.upkeep.archive.export_index`."""
        return archive.export_index(self._opened.path, file)
