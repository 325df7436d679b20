"""The seam between a view and its nearest vectors: the promises of a backend, the table of backends, checks of arrays.

A backend makes a vector index of a view's vectors and gives back a *handle*, a JSON value that the database stores and
by which the index is found again. Whatever it writes is derived: it can be removed and built anew at any time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from retriever.core.errors import IndexDamagedError, RetrieverError, UsageError
from retriever.core.plugins import find_plugin, plugins
from retriever.core.protocols import VectorIndex
from retriever.core.registry import nearest, resolve
from retriever.core.types import JSON, Embeddings, Ids

Handle: TypeAlias = Mapping[str, JSON]
"""Everything a backend needs to find an index again; without secrets, as it is stored in the index's database."""

BACKENDS = {
    "faiss": "retriever.vectors.faiss.backend:FaissBackend",
    "exact": "retriever.vectors.exact:ExactBackend",
    "milvus": "retriever.vectors.milvus.backend:MilvusBackend",
}
"""Our own backends by name, which no other package's can take; `open_backend` finds both."""

_METHODS = ("require", "build", "open", "hold", "check", "remove")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Settings of the vector index to build.

    Attributes:
        backend: a name of `BACKENDS` or of a backend that another package brings.
        location: the server's address, for backends that have one; empty for this machine.
        factory: a FAISS factory string or Milvus's name of an index type, or auto by size; exact ignores it.
        min_recall: recall@10 against exact search that an approximate index has to reach.
        index: the identity of the index, for what is kept elsewhere.
        folder: `folder_mark` of the folder in which the location was chosen; None where the caller chose it just now.
    """

    backend: str = "faiss"
    location: str = ""
    factory: str = "auto"
    min_recall: float = 0.95
    index: str = ""
    folder: int | None = None


@dataclass(frozen=True, slots=True)
class ViewVectors:
    """The vectors of a view.

    Attributes:
        ids: (n,) content ids, ascending.
        dim: length of a vector.
        batches: float32 arrays (m, dim) of rows of length 1, together n, in the order of ``ids``. They may be iterated
            again, for measuring.
    """

    ids: Ids
    dim: int
    batches: Iterable[Embeddings]


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """A vector index that is whole and will survive a power loss.

    Attributes:
        handle: how to open it.
        recall: share of the exact ten nearest it finds, measured; 1 for an exact index.
        details: what the backend tells of it: ``factory``, ``bytes_per_vector``, ``note``.
    """

    handle: Handle
    recall: float = 1.0
    details: Mapping[str, JSON] = field(default_factory=dict)


class ListedIndex(VectorIndex, Protocol):
    """A vector index that says what it holds."""

    @property
    def ids(self) -> Ids:
        """The (n,) ids of its vectors, ascending."""


class VectorBackend(Protocol):
    """Builds, opens, checks and removes the vector indexes of one index folder.

    Its class is made with the index's folder and the device to search on (``auto``, ``cpu``, ``cuda``).
    """

    def require(self, dim: int, options: BuildOptions) -> None:
        """Refuse options that nothing could be built with, before anything is embedded.

        Raises:
            UsageError: a value makes no sense.
            RetrieverError: a package or a server is missing.
        """

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Make an index of all vectors of a view beside the one in use, which goes on serving.

        Raises:
            UsageError: the options or the vectors make no sense.
            RetrieverError: the disk is full, or a server does not answer.
        """

    def open(self, handle: Handle) -> ListedIndex:
        """Open an index for searching.

        Raises:
            IndexDamagedError: it is missing or not what was built.
            RetrieverError: a server does not answer.
        """

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index, in memory alone, whose scores are those of the built ones: for a view's tail.

        The ids (n,) ascend, the embeddings are (n, dim) rows of length 1.
        """

    def check(self, handle: Handle) -> str | None:
        """Check an index and describe what is wrong with it, or return None; nothing is changed."""

    def remove(self, view: int, *, keep: Sequence[Handle] = ()) -> None:
        """Remove everything of a view but the indexes to keep: old ones, and what killed builds left in no handle.

        Only the one writer of an index may call it. Open indexes are not disturbed. What cannot be removed today is
        removed by a later call.
        """


def open_backend(name: str, folder: Path, device: str = "auto") -> VectorBackend:
    """Return the backend of a name for an index's folder.

    ``device`` is where it searches: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        UsageError: there is none of that name; the nearest is suggested.
        RetrieverError: its package is missing, and the hint has the pip line; or another package brings it and it does
            not do.
    """
    if name in BACKENDS:
        return cast("VectorBackend", resolve(BACKENDS[name])(folder, device))
    plugin = find_plugin("vector backend", name)
    if plugin is None:
        known = [*BACKENDS, *(other.name for other in plugins("vector backend"))]
        raise UsageError(f"There is no vector backend {name!r}.", hint=nearest(name, known))
    kind = plugin.load()
    if lacking := [method for method in _METHODS if not callable(getattr(kind, method, None))]:
        raise plugin.fault(f"has no method {' and no '.join(lacking)}")
    try:
        return cast("VectorBackend", kind(folder, device))
    except RetrieverError:
        raise
    except Exception as error:
        raise plugin.fault(f"cannot be opened ({type(error).__name__}: {error})") from error


def text_of(handle: Handle, key: str) -> str:
    """Return a text of a handle.

    Raises:
        IndexDamagedError: it has none under that key.
    """
    value = handle.get(key)
    if not isinstance(value, str):
        raise _foreign(handle, key)
    return value


def number_of(handle: Handle, key: str) -> int:
    """Return a whole number of a handle, at least 0.

    Raises:
        IndexDamagedError: it has none under that key.
    """
    value = handle.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _foreign(handle, key)
    return value


def folder_mark(folder: Path) -> int:
    """Return the number that the file system gives a folder: renaming keeps it, a copy has another."""
    return folder.stat().st_ino


def _foreign(handle: Handle, key: str) -> IndexDamagedError:
    return IndexDamagedError(
        f"The record of a vector index has no proper {key!r} but {handle.get(key)!r}.", hint="Run `retriever repair`."
    )


def check_search(queries: NDArray[Any], k: int, dim: int) -> None:
    """Raise UsageError unless ``queries`` is a finite (q, dim) float32 array and ``k`` at least 1."""
    if k < 1:
        raise UsageError(f"k is {k}.", hint="Ask for at least one hit.")
    check_embeddings(queries, dim, what="query")


def check_embeddings(embeddings: NDArray[Any], dim: int, *, what: str = "vector") -> None:
    """Raise UsageError unless ``embeddings`` is a finite (n, dim) float32 array; ``what`` is one row's name."""
    if embeddings.ndim != 2 or embeddings.shape[1] != dim:
        raise UsageError(
            f"Expected {what} rows of shape (n, {dim}), got {embeddings.shape}.",
            hint="Embed with the encoder this index was made with.",
        )
    if embeddings.dtype != np.float32:
        raise UsageError(f"A {what} is float32, not {embeddings.dtype}.", hint="Convert with .astype(np.float32).")
    if not np.isfinite(embeddings).all():
        row = int(np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0])
        raise UsageError(f"The {what} in row {row} holds NaN or infinity.", hint="Embed its text again, in float32.")


def check_ids(ids: NDArray[Any]) -> None:
    """Raise UsageError unless ``ids`` is one-dimensional, of integers, non-negative and without repeats."""
    if ids.ndim != 1 or not (ids.size == 0 or np.issubdtype(ids.dtype, np.integer)):
        raise UsageError(f"Ids are one row of integers, not {ids.dtype} of shape {ids.shape}.")
    if ids.size and ids.min() < 0:
        raise UsageError(f"The id {ids.min()} is negative.", hint="-1 marks a missing hit.")
    if np.unique(ids).size != ids.size:
        raise UsageError("An id occurs twice.", hint="Give every vector its own id.")
