"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
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


IndexOption = Annotated[Path, typer.Option("--index", help="Index folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.", callback=possible_device)]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        help="Filter over metadata and known answers: \"stars <= 2 and category = 'toy'\", \"answer = 'refund'\".",
    ),
]
SaveOption = Annotated[str | None, typer.Option("--save", help="Save what was made under this name.")]
SavedOption = Annotated[
    str | None,
    typer.Option("--saved", help="Show what was saved under this name, with what is new put to the nearest."),
]
CsvOption = Annotated[
    Path | None, typer.Option("--csv", help="Write id, number and name of every document's cluster or category.")
]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", help="What text files are in, e.g. windows-1252; UTF-8 if left out.")
]
BackendOption = Annotated[
    str | None,
    typer.Option(
        "--backend",
        help="What finds nearest vectors: faiss (the first choice), exact or milvus=http://HOST:19530. "
        "Remembered for later builds.",
    ),
]
FactoryOption = Annotated[
    str | None,
    typer.Option(
        "--factory",
        help="FAISS factory string, or with milvus FLAT, HNSW, IVF_SQ8 or GPU_CAGRA; auto (the first choice) by size. "
        "Remembered.",
    ),
]
PlainOption = Annotated[
    str | None,
    typer.Option(
        "--plain",
        help="Plain reader, which fills the base view: a sentence-transformers model, or none for the question reader. "
        "minilm in a new index.",
    ),
]
RecallOption = Annotated[
    float | None,
    typer.Option(
        "--min-recall",
        help="recall@10 against exact search that an approximate index must reach, 0.95 at first. Remembered.",
    ),
]

WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Embed with so many processes of this machine, or with --ray so many actors: one per GPU, else one per "
        "four CPUs, if left out.",
    ),
]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", help="Embed on the Ray cluster at this address; auto finds one, local starts one here."),
]
SpoolOption = Annotated[
    Path | None,
    typer.Option(
        "--spool",
        help="Folder, for this index alone, that all workers reach under this name; in the index's own if left out.",
    ),
]

DEFAULT_INDEX = Path("indexes/default")


def embedding(workers: int | None, ray: str | None, spool: Path | None, device: str) -> "IndexingOptions":
    """Return how to embed, from the options above and a device."""
    from retriever.index.indexing import IndexingOptions
    from retriever.index.workers.embedder import Workers

    return IndexingOptions(workers=Workers(workers, "processes" if ray is None else "ray", ray or "", spool, device))
