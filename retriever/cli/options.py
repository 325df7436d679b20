"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

IndexOption = Annotated[Path, typer.Option("--index", help="Index folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
FactoryOption = Annotated[str, typer.Option("--factory", help="FAISS factory string, or auto by size.")]
RecallOption = Annotated[
    float, typer.Option("--min-recall", help="recall@10 against exact search that an approximate index must reach.")
]

DEFAULT_INDEX = Path("indexes/default")
