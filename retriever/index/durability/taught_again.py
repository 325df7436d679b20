"""Part of `repair`: what taught views lack is made again of the views that they are made of."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from retriever.core.errors import RetrieverError
from retriever.index.readers import Readers
from retriever.index.teaching.taught import TaughtViews
from retriever.store.database import Store
from retriever.store.views import View

if TYPE_CHECKING:
    from retriever.index.durability.repair import Repair


def make_taught(store: Store, readers: Callable[[], Readers], report: "Repair") -> None:
    """Make the vectors that taught views lack, in the caller's transaction, and say in the report what was made.

    Args:
        store: the index's database.
        readers: gives the index's encoders, which are needed only where the view of a tuned reader lacks some.
        report: of the repair.
    """
    taught, vectors, made = TaughtViews(store), store.vectors, store.heads.sources()
    for source in [one for one in store.views.all() if one.view_id in made.values()]:
        views = [one for one, made_of in made.items() if made_of == source.view_id]
        for view_id in views:
            vectors.remove_unsourced(view_id, source.view_id)
        before = {view_id: vectors.count(view_id) for view_id in views}
        _read_tuned(store, taught, source, readers, report)
        taught.derive_all(source)
        more = {view_id: vectors.count(view_id) - count for view_id, count in before.items()}
        report.mended += [f"{count} vectors of view {view_id}" for view_id, count in more.items() if count]


def _read_tuned(
    store: Store, taught: TaughtViews, source: View, readers: Callable[[], Readers], report: "Repair"
) -> None:
    """Let the reader that was tuned for a view read what its view lacks."""
    found = taught.of(source)
    held = store.vectors.content_ids(source.view_id, through=store.vectors.last_id(source.view_id))
    if found is not None and found.tuning is not None and store.vectors.missing(found.plain.view_id, held):
        try:
            taught.read_tuned(source, held, readers())
        except RetrieverError as error:
            view = found.plain.view_id
            report.left.append(f"view {view} lacks vectors, and the encoder does not load: {error.message}")
