"""FAISS as a vector backend: one hashed file a view, searched on the CPU or a GPU."""

from typing import Literal, cast

from retriever.core.paths import within
from retriever.core.types import Embeddings, Ids
from retriever.vectors.backend import (
    BuildOptions,
    BuiltIndex,
    Handle,
    ListedIndex,
    ViewVectors,
    number_of,
    refuse_location,
    text_of,
)
from retriever.vectors.faiss.building import EXACT, build_index, check_options
from retriever.vectors.faiss.files import read_faiss, write_faiss
from retriever.vectors.faiss.gpu import place
from retriever.vectors.faiss.index import FaissIndex
from retriever.vectors.files import FileBackend, new_path


class FaissBackend(FileBackend):
    """Keeps FAISS indexes as files; implements `retriever.vectors.backend.VectorBackend`.

    With ``cpu`` as the device FAISS stays off the GPU.
    """

    suffix = ".faiss"

    def require(self, dim: int, options: BuildOptions) -> None:
        """Raise UsageError for a factory string that FAISS does not know for ``dim``, or a recall that is no share."""
        refuse_location(options)
        check_options(dim, factory=options.factory, min_recall=options.min_recall)

    def build(self, view: int, vectors: ViewVectors, options: BuildOptions) -> BuiltIndex:
        """Build and write the index of a view; see `VectorBackend.build`."""
        target = new_path(self.folder, view, self.suffix)
        built = build_index(
            vectors.ids,
            vectors.batches,
            vectors.dim,
            factory=options.factory,
            min_recall=options.min_recall,
            device=cast("Literal['auto', 'cpu', 'cuda']", self.device),
        )
        handle: Handle = {
            "path": target.relative_to(self.folder).as_posix(),
            "sha256": write_faiss(built.index, target),
            "size": built.index.size,
            "dim": vectors.dim,
            "probes": built.probes,
        }
        size = round(built.bytes_per_vector, 1)
        details: Handle = {"factory": built.factory, "bytes_per_vector": size, "note": built.note}
        return BuiltIndex(handle, built.recall, details)

    def open(self, handle: Handle) -> ListedIndex:
        """Open an index and place it on the device; see `VectorBackend.open`."""
        return place(self.read(handle), "cpu" if self.device == "cpu" else "auto")

    def hold(self, ids: Ids, embeddings: Embeddings) -> ListedIndex:
        """Return an exact index in half precision, as the built ones are; see `VectorBackend.hold`."""
        return build_index(ids, [embeddings], embeddings.shape[1], factory=EXACT).index

    def read(self, handle: Handle) -> FaissIndex:
        """Read the index in the file of a handle; see `FileBackend.read`."""
        return read_faiss(
            within(self.folder, text_of(handle, "path")),
            sha256=text_of(handle, "sha256"),
            size=number_of(handle, "size"),
            dim=number_of(handle, "dim"),
            probes=number_of(handle, "probes"),
        )
