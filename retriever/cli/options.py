"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.core.errors import UsageError
from retriever.core.options import option
from retriever.core.requests import WHERE

if TYPE_CHECKING:
    from retriever.index.generations import IndexType
    from retriever.index.indexing import IndexingOptions


def possible_device(name: str) -> str:
    """Return the name of a device that is there, also where the command at hand comes to need none.

    Raises:
        UsageError: it is not there.
    """
    if name not in ("auto", "cpu"):  # torch takes seconds to load
        from retriever.index.encoding import require_device

        require_device(name)
    return name


def refuse(wrong: object, message: str, hint: str) -> None:
    """Raise `UsageError` where options do not go together."""
    if wrong:
        raise UsageError(message, hint=hint)


IndexOption = Annotated[Path, typer.Option("--index", help="Index folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.", callback=possible_device)]
WhereOption = Annotated[str | None, typer.Option("--where", help=WHERE)]
SaveOption = Annotated[str | None, typer.Option("--save", help="Save what was made under this name.")]
SavedOption = Annotated[
    str | None,
    typer.Option("--saved", help="Show what was saved under this name, with what is new put to the nearest."),
]
CsvOption = Annotated[
    Path | None, typer.Option("--csv", help="Write id, number and name of every document's cluster or category.")
]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Show the figures that clusters were made by: how close, how steady.")
]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", help="What text files are in, e.g. windows-1252; UTF-8 if left out.")
]
DEFAULT_INDEX = Path("indexes/default")


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where texts are embedded: in this process, in others of this machine, or on a Ray cluster."""

    workers: int | None = option(
        None,
        "Embed with so many processes of this machine, or with --ray so many actors: one per GPU, else one per four "
        "CPUs, if left out.",
    )
    ray: str | None = option(None, "Embed on the Ray cluster at this address; auto finds one, local starts one here.")
    spool: Path | None = option(
        None, "Folder, for this index alone, that all workers reach under this name; in the index's own if left out."
    )

    def options(self, device: str) -> "IndexingOptions":
        """Return how to embed on a device."""
        from retriever.index.indexing import IndexingOptions
        from retriever.index.workers.embedder import Workers

        pool = "processes" if self.ray is None else "ray"
        return IndexingOptions(workers=Workers(self.workers, pool, self.ray or "", self.spool, device))


@dataclass(frozen=True, slots=True)
class Build:
    """The vector index that is built from now on; what is None stays as the index remembers it."""

    backend: str | None = option(
        None,
        "What finds nearest vectors: faiss (the first choice), exact or milvus=http://HOST:19530. Remembered for later "
        "builds.",
    )
    factory: str | None = option(
        None,
        "FAISS factory string, or with milvus FLAT, HNSW, IVF_SQ8 or GPU_CAGRA; auto (the first choice) by size. "
        "Remembered.",
    )
    min_recall: float | None = option(
        None, "recall@10 against exact search that an approximate index must reach, 0.95 at first. Remembered."
    )

    @property
    def index_type(self) -> "IndexType":
        """The same for the index."""
        from retriever.index.generations import IndexType

        return IndexType(self.factory, self.min_recall, self.backend)
