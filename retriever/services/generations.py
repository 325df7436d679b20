"""Building FAISS generations from the stored vectors, and clearing away what they replace."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from retriever.core.paths import folder_within
from retriever.index.building import build_index
from retriever.index.generations import remove_other_generations, write_generation
from retriever.store.database import Store
from retriever.store.generations import Generation, GenerationFile
from retriever.store.views import View

TAIL_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class IndexType:
    """What FAISS index to build.

    Attributes:
        factory: a FAISS factory string, or auto by size.
        min_recall: recall@10 against exact search it has to reach.
        device: where it will be searched.
    """

    factory: str = "auto"
    min_recall: float = 0.95
    device: str = "auto"


def needs_generation(store: Store, view: View) -> bool:
    """Whether the vectors newer than the view's generation have outgrown their share of it."""
    generation = store.generations.active(view.view_id)
    size = generation.size if generation else 0
    newer = store.vectors.count_after(view.view_id, generation.watermark if generation else 0)
    return newer > TAIL_SHARE * size


def build_outgrown(store: Store, views: Iterable[View], folder: Path, index_type: IndexType) -> None:
    """Build the FAISS index of every view that has outgrown its own."""
    for view in views:
        if needs_generation(store, view):
            build_generation(store, view, folder, index_type)


def build_generation(store: Store, view: View, folder: Path, index_type: IndexType) -> Generation | None:
    """Write a generation over all vectors of a view and make it the one in use.

    The file is on the disk before the database names it; a kill between the two leaves a file that nothing names,
    which the next build removes.

    Returns:
        The new generation, or None when the view has no vectors.

    Raises:
        IndexDamagedError: the view's folder is a link.
    """
    target = view_folder(folder, view)
    watermark = store.vectors.last_id(view.view_id)
    ids = store.vectors.content_ids(view.view_id, through=watermark)
    if not len(ids):
        store.generations.retire(view.view_id)
        forget_obsolete(store, view)
        remove_other_generations(target, ())
        return None
    built = build_index(
        ids,
        store.vectors.scan_contents(view.view_id, through=watermark),
        view.key.dim,
        factory=index_type.factory,
        min_recall=index_type.min_recall,
        device=index_type.device,  # type: ignore[arg-type]
    )
    name = uuid.uuid4().hex  # never that of a file in use
    written = write_generation(built.index, target, name)
    file = GenerationFile(
        path=written.path.relative_to(folder).as_posix(),
        sha256=written.sha256,
        factory=built.factory,
        size=built.index.size,
        watermark=watermark,
        recall=built.recall,
        details={
            "probes": built.probes,
            "seconds": round(built.seconds, 3),
            "bytes_per_vector": round(built.bytes_per_vector, 1),
            "note": built.note,
        },
    )
    with store.transaction():
        generation = store.generations.activate(view.view_id, file)
        forget_obsolete(store, view)
    remove_other_generations(target, {name})
    return generation


def view_folder(folder: Path, view: View) -> Path:
    """Return where a view's files lie in the index's folder.

    Raises:
        IndexDamagedError: it is a link, so what lies there may be somebody else's.
    """
    return folder_within(folder, "views", str(view.view_id))


def forget_obsolete(store: Store, view: View) -> None:
    """Drop the records of a view's files that serve it no longer."""
    for old in store.generations.obsolete():
        if old.view_id == view.view_id:
            store.generations.forget(old.generation_id)
