"""Makes one collection, fills it, builds its index, and measures what that finds.

Every collection has a file: a line of JSON that notes where it is, and the content ids that it holds. It is written
before the collection is made, so that nothing is on a server that no file names.
"""

import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.registry import resolve
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import BuildOptions, Handle, ViewVectors, number_of, text_of
from retriever.vectors.exact import exact_nearest, least_effort, overlap, picked, queries_near, sample_rows
from retriever.vectors.files import checked_batches, reading, write_file
from retriever.vectors.milvus.index import ID, METRIC, VECTOR, Collection, MilvusIndex
from retriever.vectors.milvus.server import (
    ANSWER_SECONDS,
    EXACT,
    KINDS,
    WORK_SECONDS,
    Kind,
    description_of,
    load,
    wait_for,
)

logger = logging.getLogger(__name__)

SUFFIX = ".milvus"
_LONGEST = 1 << 12


@dataclass(frozen=True, slots=True)
class Note:
    """Where a collection is, and whose it is.

    Attributes:
        url: the server's address.
        collection: its name there.
        index: the identity of the index.
        folder: the mark of the folder that made it.
        view: the view.
    """

    url: str
    collection: str
    index: str
    folder: int
    view: int

    @classmethod
    def of(cls, handle: Handle) -> Self:
        """Return the note that a handle or a file holds; raises IndexDamagedError where it holds none."""
        url, collection, index = (text_of(handle, key) for key in ("url", "collection", "index"))
        return cls(url, collection, index, number_of(handle, "folder"), number_of(handle, "view"))

    @property
    def description(self) -> str:
        """The collection's description on the server, to be compared before it is dropped."""
        return json.dumps({"retriever": {"index": self.index, "folder": self.folder, "view": self.view}})


def write_note(path: Path, note: Note, ids: Ids) -> str:
    """Write a note with the ids (n,) of its collection and return the file's SHA-256.

    Raises:
        RetrieverError: the disk is full or the folder cannot be written.
    """

    def write(take: Callable[[bytes], None]) -> None:
        take(json.dumps(asdict(note)).encode() + b"\n")
        held = io.BytesIO()
        np.save(held, ids.astype("<i8"), allow_pickle=False)
        take(held.getvalue())

    return write_file(path, write)


def read_note(path: Path) -> Note | None:
    """Return what a file notes, or None where it is no note."""
    try:
        with path.open("rb") as file:
            return Note.of(json.loads(file.readline(_LONGEST)))
    except (OSError, ValueError, AttributeError, RecursionError, IndexDamagedError):
        return None


def read_ids(path: Path, sha256: str) -> Ids:
    """Return the ids (n,) that a file notes, ascending.

    Raises:
        IndexDamagedError: it is missing or not what was written.
    """
    with reading(path, sha256) as file:
        file.readline(_LONGEST)
        ids: Ids = np.load(file, allow_pickle=False).astype(np.int64)
    return ids


_REQUEST_BYTES = 8 << 20


def create(client: Any, name: str, dim: int, description: str) -> None:  # noqa: ANN401 - a pymilvus.MilvusClient
    """Make an empty collection of ids and vectors."""
    types = resolve("pymilvus:DataType")
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
    schema.add_field(ID, types.INT64, is_primary=True)
    schema.add_field(VECTOR, types.FLOAT_VECTOR, dim=dim)
    client.create_collection(name, schema=schema, timeout=ANSWER_SECONDS)


def filled(client: Any, name: str, vectors: ViewVectors) -> Iterator[Embeddings]:  # noqa: ANN401
    """Put the vectors into a collection, batch by batch; yield each batch when it is there.

    Raises:
        UsageError: as `checked_batches`.
    """
    step = max(1, _REQUEST_BYTES // (4 * vectors.dim))
    for batch in checked_batches(vectors):
        for start in range(0, len(batch.ids), step):
            part = slice(start, start + step)
            rows = zip(batch.ids[part].tolist(), batch.embeddings[part], strict=True)
            client.insert(name, [{ID: id, VECTOR: vector} for id, vector in rows], timeout=WORK_SECONDS)
        yield batch.embeddings


def begin_index(client: Any, name: str, kind: Kind, size: int) -> None:  # noqa: ANN401
    """Ask for an index of a kind; the server refuses at once what it does not have."""
    wanted = client.prepare_index_params()
    wanted.add_index(VECTOR, index_type=kind.name, index_name=VECTOR, metric_type=METRIC, params=kind.built(size))
    client.create_index(name, wanted, sync=False, timeout=ANSWER_SECONDS)


def build_index(client: Any, name: str, kind: Kind, size: int) -> None:  # noqa: ANN401
    """Build the index of a collection that was flushed, and load it; return when it can be searched.

    Raises:
        RetrieverError: as `wait_for`.
    """
    begin_index(client, name, kind, size)

    def share() -> float:
        told = client.describe_index(name, VECTOR, timeout=ANSWER_SECONDS)
        shares = {"Finished": 1.0, "Failed": -1.0}
        return shares.get(str(told["state"]), min(0.99, int(told["indexed_rows"]) / max(1, size)))

    wait_for(f"build its index {kind.name} of {size} vectors", share)
    load(client, name)


def count(client: Any, name: str) -> int:  # noqa: ANN401
    """Return how many vectors a loaded collection holds, all writes of any client counted."""
    rows = client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong", timeout=ANSWER_SECONDS)
    return int(rows[0]["count(*)"])


def measured(
    index: MilvusIndex, vectors: ViewVectors, sample: Embeddings, kind: Kind, enough: float
) -> "tuple[float, str]":
    """Raise the effort of an index until its recall is enough; return the recall, and why it is not enough, or nothing.

    The vectors are read once more, for the exact nearest of queries near ``sample`` (q, dim).
    """
    if kind.name == EXACT or not len(sample):
        return 1.0, ""
    queries = queries_near(sample)
    truth = exact_nearest(vectors, queries)

    def recall(effort: int) -> float:
        index.effort = effort
        return overlap(index.search(queries, truth.shape[1]).ids, truth)

    _, reached = least_effort(recall, kind.first, kind.most(len(vectors.ids)), enough)
    if reached >= enough:
        return reached, ""
    shortfall = f"{kind.name} finds {reached:.3f} of the ten nearest at most, below the {enough:g} asked for"
    return 1.0, f"{shortfall}; search is exact."


def built(
    collection: Collection, note: Note, vectors: ViewVectors, options: BuildOptions
) -> tuple[MilvusIndex, float, str]:
    """Make a collection of vectors, loaded; return it with its recall, and why it is not of the kind asked for."""
    client, name, kind, size = collection.client, collection.name, collection.kind, len(vectors.ids)
    create(client, name, vectors.dim, note.description)
    rows = sample_rows(size) if kind.effort else np.empty(0, np.int64)
    sample = picked(filled(client, name, vectors), rows, vectors.dim)
    client.flush(name, timeout=WORK_SECONDS)
    build_index(client, name, kind, size)
    held = count(client, name)
    if held != size:
        raise RetrieverError(f"{name} holds {held} of {size} vectors.", hint="Run the same command again.")
    index = MilvusIndex(collection, vectors.ids, vectors.dim, kind.first)
    recall, why = measured(index, vectors, sample, kind, options.min_recall)
    if not why:
        return index, recall, why
    client.release_collection(name, timeout=WORK_SECONDS)
    client.drop_index(name, VECTOR, timeout=WORK_SECONDS)
    build_index(client, name, KINDS[EXACT], size)
    exact = Collection(client, name, collection.url, KINDS[EXACT])
    return MilvusIndex(exact, vectors.ids, vectors.dim, 0), recall, why


def require_built(collection: Collection, note: Note, dim: int) -> None:
    """Raise IndexDamagedError where the collection of a name is another than the one that was built."""
    described = description_of(collection.client, collection.name)
    kinds = {field["name"]: field.get("params", {}) for field in described["fields"]}
    metric = collection.client.describe_index(collection.name, VECTOR, timeout=ANSWER_SECONDS) or {}
    if described.get("description") != note.description:
        raise other_collection(collection, "is another index's")
    if int(kinds.get(VECTOR, {}).get("dim", 0)) != dim or metric.get("metric_type") != METRIC:
        raise other_collection(collection, f"holds vectors of another kind than {dim} numbers each")


def drop(client: Any, note: Note) -> None:  # noqa: ANN401 - a pymilvus.MilvusClient
    """Drop a collection, unless it is another than the one that was made."""
    described = description_of(client, note.collection)
    if described.get("description") != note.description:
        logger.warning("The collection %s at %s is not the one made here and stays.", note.collection, note.url)
        return
    for alias in described.get("aliases", ()):
        client.drop_alias(alias, timeout=ANSWER_SECONDS)
    client.drop_collection(note.collection, timeout=ANSWER_SECONDS)


def other_collection(collection: Collection, what: str) -> IndexDamagedError:
    """Return the error of a collection that is not what was built."""
    return IndexDamagedError(
        f"The Milvus collection {collection.name} at {collection.url} {what}.", hint="Run `retriever repair`."
    )
