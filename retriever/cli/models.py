"""`retriever embed` and `retriever models`: vectors of texts without an index, and the encoders that make them."""

from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.help import Command, Group
from retriever.cli.model_notes import say_notes
from retriever.cli.options import DeviceOption, EncodingOption, JsonOption
from retriever.core.errors import InputError, OutputError, UsageError
from retriever.core.files import STDIN, read_lines
from retriever.core.paths import writing

app = typer.Typer(
    help="List, inspect, promote and export encoders.", no_args_is_help=True, rich_markup_mode=None, cls=Group
)


@app.command("list", cls=Command)
def list_models(json: JsonOption = False) -> None:
    """List the named encoders and the backbones that are installed.

    Encoders of other packages are listed without being imported.

    Example: retriever models list
    """
    from retriever.index.model_names import AT_FIRST_USE, WHEELS, hidden_plugins, is_installed, named

    entries = named()
    for note in hidden_plugins():
        output.say(note)
    installed = {name: is_installed(name) for name in WHEELS}
    if json:
        encoders = [{"name": name, "spec": entry.spec, "summary": entry.summary} for name, entry in entries.items()]
        backbones = [{"name": name, "installed": present} for name, present in installed.items()]
        output.document({"encoders": encoders, "backbones": backbones})
        return
    output.table(["name", "stands for", ""], [[name, entry.spec, entry.summary] for name, entry in entries.items()])
    output.result()
    output.table(
        ["backbone", "installed"],
        [[name, "yes" if present else AT_FIRST_USE] for name, present in installed.items()],
    )


@app.command("show", cls=Command)
def show(
    name: Annotated[str, typer.Argument(help="Name of the encoder.")] = "default", json: JsonOption = False
) -> None:
    """Load an encoder and show what it is.

    Of a model that did not come with retriever, the command also says what was recognised and what seems wrong.

    Example: retriever models show gircse
    """
    from retriever import load_encoder
    from retriever.index.encoding import card
    from retriever.index.model_notes import notes_on

    encoder = load_encoder(name)
    properties, notes = card(encoder), notes_on(encoder)
    if json:
        said = {} if notes is None else {"recognised": notes.recognised, "weaknesses": notes.weaknesses}
        output.document(properties | said)
        return
    output.table(["property", "value"], [[key, value] for key, value in properties.items()])
    say_notes(notes)


@app.command("fetch", cls=Command)
def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Backbones or named encoders. [default: those of new indexes]")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download backbones and convert them into the cache.

    The first use of each does the same. A machine without a network needs this before it leaves the network.

    Example: retriever models fetch
    """
    from retriever.index.model_names import USUAL, fetched

    done = [fetched(name) for name in names or USUAL]
    listed = [{"name": source.name, "folder": str(source.folder)} for source in done]
    said = "\n".join(f"{source.name} is ready in {source.folder}." for source in done)
    output.outcome({"models": listed}, said, json=json)


@app.command("promote", cls=Command)
def promote(
    folder: Annotated[Path | None, typer.Argument(help="A checkpoint folder.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Return to the shipped default.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a checkpoint the default encoder of new indexes.

    Existing indexes keep their encoder.

    Example: retriever models promote models/reviews
    """
    from retriever.index import models

    if (folder is None) != reset:
        raise UsageError("Name either a checkpoint folder or --reset.", hint="retriever models promote FOLDER")
    if folder is None:
        models.reset()
    else:
        folder = models.promote(folder)
    said = "The shipped model is the default encoder again." if reset else f"{folder} is the default encoder now."
    output.outcome({"default": None if folder is None else str(folder)}, said, json=json)


@app.command("export", cls=Command)
def export(
    name: Annotated[str, typer.Argument(metavar="FOLDER-OR-NAME", help="A checkpoint folder or an encoder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; it must not exist.")],
    to: Annotated[str, typer.Option(help="Format of the folder.")] = "sentence-transformers",
    device: DeviceOption = "cpu",
    json: JsonOption = False,
) -> None:
    """Export an encoder for sentence-transformers.

    The folder needs no remote code; for GIRCSE it contains a short loader. The weights are merged in float32, and the
    folder's vectors are compared with the encoder's before it is put in place.

    Example: retriever models export default exported
    """
    from retriever.index import models

    done = models.export(name, out, to=to, device=device)
    said = f"{done.name} was written to {done.folder}; its README.md shows how to use it with {done.loader}."
    output.outcome({"name": done.name, "folder": str(done.folder), "loader": done.loader}, said, json=json)


def embed(
    output_file: Annotated[Path, typer.Option("--output", "-o", help="Write the vectors to this .npy file.")],
    file: Annotated[
        str, typer.Argument(help="Corpus file, .txt file with one text per line, or - for lines on stdin.")
    ] = "-",
    instruction: Annotated[str, typer.Option(help="Question under which texts are embedded.")] = "",
    encoding: EncodingOption = None,
    encoder: Annotated[str, typer.Option(help="Encoder: a name, METHOD:BACKBONE or a checkpoint folder.")] = "default",
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Embed texts without an index: one vector per text.

    The rows of the file have the order of the texts.

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
    said = f"Wrote {output.counted(len(texts), 'vector')} of {loaded.dim} dimensions to {output_file}."
    output.outcome(summary, said, json=json)


def _texts(file: str, encoding: str | None) -> list[str]:
    """Return the texts of a corpus file, or the lines of a text file or stdin.

    Raises:
        UsageError: there is no such encoding.
        InputError: a row is bad (a row left out would shift all that follow), or there are no texts.
    """
    from retriever.core.types import BadRow
    from retriever.index.files import read_documents, require_encoding

    if file == STDIN or Path(file).suffix == ".txt":
        named = None if encoding is None else require_encoding(encoding)
        texts = read_lines(file, encoding=named, hint="Name its encoding with --encoding.")
        empty = next((number for number, line in enumerate(texts, 1) if not line.strip()), None)
        if empty is not None and texts != [""]:
            raise InputError(f"{file}, line {empty} is empty.", hint="Remove it: every line becomes one vector.")
        texts = [line for line in texts if line]
    else:
        texts = []
        for row in read_documents([file], encoding=encoding):
            if isinstance(row, BadRow):
                raise InputError(f"{row.file}, line {row.line}: {row.reason}", hint="Correct or remove the row.")
            texts.append(row.text)
    if not texts:
        raise InputError(f"{file} holds no texts.")
    return texts
