"""`retriever export --to qdrant`: an index as a Qdrant collection, on a server or in a folder of its local mode.

Documents are points with one named vector a complete view; text, metadata and words are their payload. Each state of
an index is a collection of its own, filled behind the alias that readers use; the alias moves when everything is there,
in one step, and the collection before is removed after it. An export that was interrupted goes on with what is missing.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import RetrieverError, UsageError
from retriever.core.fingerprint import json_hash
from retriever.core.paths import new_folder, writing
from retriever.core.schema import SCHEMA_VERSION
from retriever.core.types import JSON, Document
from retriever.index.handover.contents import Contents, Rows
from retriever.store.database import DATABASE, Store
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.vectors import qdrant_server

POINTS = uuid.UUID("5b1f2c9e-6a55-5c0b-9f3d-1d3f0c1a7e21")
"""The namespace of points' ids: that of document X is ``uuid5(POINTS, X)``."""

_COLLECTION = re.compile(r"\w[\w.-]{0,200}")
_REQUEST_BYTES = 8 << 20  # a server takes 32 MiB
_SAMPLE = 1000  # documents that show which fields there are
_LONGEST = 256  # characters of a value that is worth an index
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_PLAIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class HandedOver:
    """An index as a Qdrant collection.

    Attributes:
        index: the index folder.
        location: the server's address, or the folder.
        collection: the name readers use, an alias.
        stored_in: the collection behind it.
        points: how many documents it holds.
        sent: how many of them this run sent; the others were there from one that was interrupted.
        vectors: the instruction of each named vector.
        indexed: payload fields with an index, and its type.
        left: instructions of views that lack texts, and stay behind.
    """

    index: str
    location: str
    collection: str
    stored_in: str
    points: int
    sent: int
    vectors: Mapping[str, str]
    indexed: Mapping[str, str]
    left: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def point_id(document_id: str) -> str:
    """Return the id of a document's point."""
    return str(uuid.uuid5(POINTS, document_id))


def export_qdrant(path: Path, location: str, collection: str | None = None) -> HandedOver:
    """Write an index to a Qdrant server, or as a new folder of Qdrant's local mode.

    Args:
        path: the index folder.
        location: a server's address, or a folder, which must not exist yet: local mode keeps pickles, and those of
            others are not opened.
        collection: the name readers use; None for the name of the index's folder.

    Raises:
        UsageError: the folder exists, or the name cannot be one or is that of a collection.
        IndexNotFoundError: there is no index.
        IndexLockedError: another process writes to the index.
        RetrieverError: the server does not answer, or the package is missing.
    """
    name = path.resolve().name if collection is None else collection
    if not _COLLECTION.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a collection.", hint="Use letters, digits, dots, - and _.")
    with Store.open(path / DATABASE) as store, WriterLock(path / LOCK_NAME):
        if location.startswith(("http://", "https://")):
            return _Export(store, qdrant_server.connect(location), location, name).run()
        folder = Path(location)
        if folder.exists():
            raise UsageError(f"{folder} exists already.", hint="Choose another folder.")
        with writing(folder, "folder"), new_folder(folder, private=True) as draft:
            client = qdrant_server.local(draft)
            try:
                return _Export(store, client, location, name).run()
            finally:
                client.close()


class _Export:
    """One export under way."""

    def __init__(self, store: Store, client: Any, location: str, name: str) -> None:  # noqa: ANN401
        self._store, self._client, self._location, self._name = store, client, location, name
        self._contents = Contents(store)
        self._collection = f"{name}-{json_hash(self._state())[:12]}"
        self._models = qdrant_server.request_types()
        self._sent = 0

    def run(self) -> HandedOver:
        """Send what is missing, then let readers have it."""
        with qdrant_server.asking(self._location):
            if self._client.collection_exists(self._name) and self._name not in self._aliases():
                raise UsageError(
                    f"{self._location} has a collection {self._name}, which is none of ours.",
                    hint="Choose another --collection.",
                )
            indexed = self._prepare()
            for rows in self._contents.rows():
                for part in self._parts(rows):
                    self._send(part)
            points = int(self._client.count(self._collection, exact=True).count)
            if points != len(self._store.documents):
                raise RetrieverError(
                    f"{self._collection} holds {points} points for {len(self._store.documents)} documents.",
                    hint="Somebody else writes to it: remove it and export again.",
                )
            self._switch()
        return HandedOver(
            str(self._store.path.parent),
            self._location,
            self._name,
            self._collection,
            points,
            self._sent,
            {one.name: one.view.key.instruction for one in self._contents.views},
            indexed,
            self._contents.left,
        )

    def _state(self) -> dict[str, JSON]:
        """Return what tells this state of the index from others."""
        store, views = self._store, [one.view.view_id for one in self._contents.views]
        vectors = {str(view): str(store.vectors.revision(view)) for view in views}
        return {"index": store.identity(), "documents": store.documents_revision(), "views": vectors}

    def _prepare(self) -> dict[str, str]:
        """Make the collection and the indexes of its payload, unless an interrupted export did; return those."""
        models = self._models
        if not self._client.collection_exists(self._collection):
            vectors = {
                one.name: models.VectorParams(size=one.view.key.dim, distance=models.Distance.DOT)
                for one in self._contents.views
            }
            about = {one.name: asdict(one.view.key) for one in self._contents.views}
            self._client.create_collection(self._collection, vectors_config=vectors, metadata={"views": about})
        indexed = {"id": "keyword", **field_types(self._first())}
        for field, kind in indexed.items():
            self._client.create_payload_index(self._collection, field, models.PayloadSchemaType(kind), wait=True)
        return indexed

    def _first(self) -> list[Document]:
        rows = next(self._contents.rows(), None)
        return [] if rows is None else list(rows.documents)[:_SAMPLE]

    def _parts(self, rows: Rows) -> Iterator[Rows]:
        """Yield rows as many at a time as a request holds."""
        numbers = 22 * sum(one.shape[1] for one in rows.vectors.values())
        longest = max((len(one.text) for one in rows.documents), default=0)
        step = max(1, _REQUEST_BYTES // (numbers + 4 * longest + 4096))
        for start in range(0, len(rows.documents), step):
            part = slice(start, start + step)
            yield Rows(
                rows.documents[part],
                {name: one[part] for name, one in rows.vectors.items()},
                {name: one[part] for name, one in rows.words.items()},
            )

    def _send(self, rows: Rows) -> None:
        ids = [point_id(one.id) for one in rows.documents]
        there = self._client.retrieve(self._collection, ids, with_payload=False, with_vectors=False)
        known = {str(one.id) for one in there}
        points = [
            self._models.PointStruct(
                id=id,
                vector={name: one[row].tolist() for name, one in rows.vectors.items()},
                payload={
                    "id": document.id,
                    "text": document.text,
                    "metadata": dict(document.metadata),
                    "words": {name: list(one[row]) for name, one in rows.words.items()},
                },
            )
            for row, (id, document) in enumerate(zip(ids, rows.documents, strict=True))
            if id not in known
        ]
        if points:
            self._client.upsert(self._collection, points, wait=True)
            self._sent += len(points)

    def _aliases(self) -> dict[str, str]:
        return {one.alias_name: one.collection_name for one in self._client.get_aliases().aliases}

    def _switch(self) -> None:
        """Point the alias to the collection in one step, then remove those it pointed to before."""
        models, there = self._models, self._name in self._aliases()
        create = models.CreateAlias(collection_name=self._collection, alias_name=self._name)
        steps = [models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._name))] if there else []
        self._client.update_collection_aliases([*steps, models.CreateAliasOperation(create_alias=create)])
        ours = re.compile(rf"{re.escape(self._name)}-[0-9a-f]{{12}}")
        for one in self._client.get_collections().collections:
            if ours.fullmatch(one.name) and one.name != self._collection:
                self._client.delete_collection(one.name)


def field_types(documents: Sequence[Document]) -> dict[str, str]:
    """Return the payload index that fits each field of some documents' metadata, by its path in the payload."""
    values: dict[str, list[JSON]] = {}
    for document in documents:
        _collect(document.metadata, "metadata", values)
    found = {path: _type(seen) for path, seen in sorted(values.items())}
    return {path: kind for path, kind in found.items() if kind is not None}


def _collect(value: JSON, path: str, values: dict[str, list[JSON]]) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _collect(inner, f"{path}.{name if _PLAIN.fullmatch(name) else json_name(name)}", values)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            if not isinstance(inner, Mapping | list):
                values.setdefault(path, []).append(inner)
    else:
        values.setdefault(path, []).append(value)


def json_name(name: str) -> str:
    """Return a field's name as a path takes it that holds other signs than letters and digits."""
    return '"' + name.replace('"', "") + '"'


def _type(values: Sequence[JSON]) -> str | None:
    """Return the type of a field's index, or None where its values are of several kinds, long texts or nothing."""
    said = [one for one in values if one is not None]
    kinds = {type(one) for one in said}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "integer"
    if kinds and kinds <= {int, float}:
        return "float"
    if kinds != {str} or max(len(str(one)) for one in said) > _LONGEST:
        return None
    return "datetime" if all(_DATE.fullmatch(str(one)) for one in said) else "keyword"
