"""Options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.core.errors import UsageError
from retriever.core.options import option

if TYPE_CHECKING:
    from retriever.index.indexing import IndexingOptions


def possible_device(name: str) -> str:
    """Return the name of a device, or raise `UsageError` where it is not there, needed in the end or not."""
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
DeviceOption = Annotated[
    str,
    typer.Option("--device", help="Device of the models: auto, cpu or cuda.", callback=possible_device, hidden=True),
]
CsvOption = Annotated[
    Path | None, typer.Option("--csv", help="Write id, number and name of the group of each document.")
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show scores and other measures too.")]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", help="Encoding of text files, such as windows-1252. [default: UTF-8]")
]
DEFAULT_INDEX = Path("indexes/default")


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where texts are embedded: in this process, in others of this machine, or on a Ray cluster."""

    workers: int | None = option(
        None,
        "Number of processes that embed, or of actors with --ray. [default: one per GPU, else one per four CPUs]",
    )
    ray: str | None = option(
        None, "Embed on the Ray cluster at this address; auto finds one, local starts one here.", advanced=True
    )
    spool: Path | None = option(
        None,
        "Folder that all workers reach under this name, for this index alone. [default: in the index]",
        advanced=True,
    )

    def options(self, device: str) -> "IndexingOptions":
        """Return how to embed on a device."""
        from retriever.index.indexing import IndexingOptions
        from retriever.index.workers.embedder import Workers

        pool = "processes" if self.ray is None else "ray"
        return IndexingOptions(workers=Workers(self.workers, pool, self.ray or "", self.spool, device))
