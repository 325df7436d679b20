"""Builds, opens and removes the Milvus collections of one index folder.

Every vector index is a collection of its own, which never changes once it is built, so that hits are those of one
state. An alias a view names the collection in use for other programs; our own searches go by the name that the index's
database holds.

A collection is dropped by the folder alone that made it, known by the number that its file system gives a folder:
renaming keeps it, a copy has another. The collection's description holds it too, with the index's identity, and is
compared first.
"""

import hashlib
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.paths import make_folder, within
from retriever.core.registry import resolve
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import (
    BuildOptions,
    BuiltIndex,
    Handle,
    ListedIndex,
    ViewVectors,
    check_ids,
    folder_mark,
    number_of,
    text_of,
)
from retriever.vectors.exact import ExactIndex
from retriever.vectors.files import new_path, remove_others, view_folder
from retriever.vectors.milvus import building
from retriever.vectors.milvus.building import SUFFIX, Note, read_ids, read_note, write_note
from retriever.vectors.milvus.index import Collection, MilvusIndex
from retriever.vectors.milvus.server import (
    ANSWER_SECONDS,
    KINDS,
    asking,
    connect,
    description_of,
    kind_of,
    load,
    require_ours,
)

logger = logging.getLogger(__name__)

PREFIX = "retriever_"
"""Prefix of the names of collections and aliases."""


class MilvusBackend:
    """Keeps vector indexes as Milvus collections; implements `retriever.vectors.backend.VectorBackend`.

    The device is the server's own affair.
    """

    def __init__(self, folder: Path, device: str = "auto") -> None:
        self._folder = folder

    def require(self, dim: int, options: BuildOptions) -> None:
        """Refuse a type of index that there is not, and a server that does not answer; see `VectorBackend.require`."""
        kind = kind_of(options, 0)
        client = connect(options.location)
        if kind.everywhere:
            return
        name = PREFIX + uuid.uuid4().hex
        with asking(options.location):
            building.create(client, name, dim, "")
            try:
                building.begin_index(client, name, kind, 0)
            except resolve("pymilvus:MilvusException") as error:
                raise UsageError(
                    f"The Milvus server at {options.location} has no index type {kind.name}: {error.message}.",
                    hint="Say --factory auto.",
                ) from error
            finally:
                client.drop_collection(name, timeout=ANSWER_SECONDS)

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Make a collection of a view's vectors and load it; see `VectorBackend.build`."""
        kind = kind_of(options, len(vectors.ids))
        if options.folder is not None:
            require_ours(self._folder, options.folder, options.location)
        check_ids(vectors.ids)
        client = connect(options.location)
        make_folder(self._folder, private=True)
        path = new_path(self._folder, view, SUFFIX)
        note = Note(options.location, PREFIX + path.stem, options.index, folder_mark(self._folder), view)
        sha256 = write_note(path, note, vectors.ids)
        with asking(note.url):
            collection = Collection(client, note.collection, note.url, kind)
            index, recall, why = building.built(collection, note, vectors, options)
        handle: Handle = {
            "path": path.relative_to(self._folder).as_posix(),
            "sha256": sha256,
            "size": index.size,
            "dim": index.dim,
            "kind": index.collection.kind.name,
            "effort": index.effort,
            **asdict(note),
        }
        return BuiltIndex(handle, recall, {"factory": index.collection.kind.name, "note": why})

    def open(self, handle: Handle) -> ListedIndex:
        """Open a collection once it is sure to be the one that was built, and loaded; see `VectorBackend.open`."""
        note = Note.of(handle)
        ids = read_ids(within(self._folder, text_of(handle, "path")), text_of(handle, "sha256"))
        if len(ids) != number_of(handle, "size") or text_of(handle, "kind") not in KINDS:
            raise IndexDamagedError(
                f"The record of the collection {note.collection} is not what was written.",
                hint="Run `retriever repair`.",
            )
        require_ours(self._folder, note.folder, note.url)
        collection = Collection(connect(note.url), note.collection, note.url, KINDS[text_of(handle, "kind")])
        dim = number_of(handle, "dim")
        with asking(note.url):
            building.require_built(collection, note, dim)
            load(collection.client, note.collection)
            held = building.count(collection.client, note.collection)
        if held != len(ids):
            raise building.other_collection(collection, f"holds {held} vectors, not the {len(ids)} that were built")
        return MilvusIndex(collection, ids, dim, number_of(handle, "effort"))

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index of a few vectors; see `VectorBackend.hold`."""
        return ExactIndex(ids, embeddings)

    def check(self, handle: Handle) -> str | None:
        """Describe what is wrong with the note, or with the number and kind of the vectors on the server."""
        try:
            self.open(handle)
        except RetrieverError as error:
            return error.message
        return None

    def remove(self, view: int, *, keep: Sequence[Handle] = ()) -> None:
        """Move the view's alias to what is kept, and drop its other collections; see `VectorBackend.remove`."""
        folder = view_folder(self._folder, view)
        for handle in keep:
            with _later(f"The alias of {handle.get('collection')}"):
                self._point(view, handle)
        kept = {Path(text_of(handle, "path")).name for handle in keep}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if path.name not in kept and not self._dropped(path):
                kept.add(path.name)
        remove_others(folder, SUFFIX, kept)

    def _point(self, view: int, handle: Handle) -> None:
        """Let the alias of a view, by which other programs find it, name a collection in one step."""
        note = Note.of(handle)
        if note.folder != folder_mark(self._folder):
            return
        owner = hashlib.sha256(f"{note.index} {note.folder}".encode()).hexdigest()[:16]
        client, alias = connect(note.url), f"{PREFIX}{owner}_view_{view}"
        failed = resolve("pymilvus:MilvusException")
        with asking(note.url):
            if alias in description_of(client, note.collection).get("aliases", ()):
                return
            try:
                client.alter_alias(note.collection, alias, timeout=ANSWER_SECONDS)
            except failed:  # there is none yet
                client.create_alias(note.collection, alias, timeout=ANSWER_SECONDS)

    def _dropped(self, path: Path) -> bool:
        """Drop the collection that a file notes, if this folder made it; return whether the file may go too."""
        note = read_note(path)
        if note is None or note.collection != PREFIX + path.stem:
            return True
        if note.folder != folder_mark(self._folder):
            logger.warning("The collection %s at %s is another folder's and stays there.", note.collection, note.url)
            return True
        with _later(f"The collection {note.collection}"):
            client = connect(note.url)
            with asking(note.url):
                if client.has_collection(note.collection, timeout=ANSWER_SECONDS):
                    building.drop(client, note)
            return True
        return False


@contextmanager
def _later(what: str) -> Iterator[None]:
    """Leave to a later call what cannot be done now."""
    try:
        yield
    except RetrieverError as error:
        logger.warning("%s is left as it is for now: %s", what, error.message)
