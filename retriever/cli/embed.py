"""`retriever embed`: texts in, a NumPy array out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DeviceOption, EncodingOption, JsonOption
from retriever.core.errors import InputError, OutputError
from retriever.core.paths import writing
from retriever.core.schema import SCHEMA_VERSION


def embed(
    output_file: Annotated[Path, typer.Option("--output", "-o", help="Where to write the vectors (.npy).")],
    file: Annotated[
        str, typer.Argument(help="A corpus file, a .txt with one text a line, or - for lines on stdin.")
    ] = "-",
    instruction: Annotated[str, typer.Option(help="What to look at, in plain words.")] = "",
    encoding: EncodingOption = None,
    encoder: Annotated[str, typer.Option(help="A name, METHOD:BACKBONE or a checkpoint folder.")] = "default",
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Embed texts without an index: one row per text, in the same order.

    Example: retriever embed examples/reviews.jsonl --instruction "How does the customer feel?" -o vectors.npy
    """
    import numpy as np

    from retriever import load_encoder

    with writing(output_file, "--output"):
        next(output_file.parent.iterdir(), None)  # before any work is spent on it
    texts = _texts(file, encoding)
    loaded = load_encoder(encoder, device=device)
    embeddings = loaded.encode(texts, instruction=instruction, show_progress=True)
    try:
        with writing(output_file, "--output"), output_file.open("wb") as target:
            np.save(target, embeddings)
    except OutputError:
        if output_file.is_file():
            output_file.unlink()  # half a file is worse than none
        raise
    summary = {"texts": len(texts), "dim": loaded.dim, "output": str(output_file), "fingerprint": loaded.fingerprint}
    if json:
        output.document({"schema_version": SCHEMA_VERSION, **summary})
    else:
        output.result(f"{len(texts)} vectors of {loaded.dim} numbers written to {output_file}.")


def _texts(file: str, encoding: str | None) -> list[str]:
    """Return the texts of a corpus file, or the lines of a text file or stdin.

    Raises:
        UsageError: there is no such encoding.
        InputError: a row is bad (a row left out would shift all that follow), or there are no texts.
    """
    from retriever.core.types import BadRow
    from retriever.index.files import UTF8, read_documents, require_encoding

    if file == "-" or Path(file).suffix == ".txt":
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            raw = data.decode(require_encoding(encoding or UTF8)).replace("\r\n", "\n")
        except (OSError, UnicodeError) as error:
            raise InputError(f"{file} cannot be read: {error}.", hint="Name its encoding with --encoding.") from error
        texts = raw.removeprefix("\ufeff").removesuffix("\n").split("\n")
        empty = next((number for number, line in enumerate(texts, 1) if not line.strip()), None)
        if empty is not None and texts != [""]:
            raise InputError(f"{file}, line {empty} is empty.", hint="Remove it: every line gives one row.")
        texts = [line for line in texts if line]
    else:
        texts = []
        for row in read_documents([file], encoding=encoding):
            if isinstance(row, BadRow):
                raise InputError(f"{row.file}, line {row.line}: {row.reason}", hint="Mend or remove the row.")
            texts.append(row.text)
    if not texts:
        raise InputError(f"{file} holds no texts.")
    return texts
