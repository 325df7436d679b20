"""`retriever models`: which encoders there are, which is the default, and how they leave for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DeviceOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.schema import SCHEMA_VERSION

app = typer.Typer(
    help="List, inspect, promote, merge and export encoders.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_models(json: JsonOption = False) -> None:
    """List the named encoders and the backbones that are installed.

    Example: retriever models list
    """
    from retriever.index.model_names import WHEELS, is_installed, named

    entries = named()
    installed = {name: is_installed(name) for name in WHEELS}
    if json:
        encoders = [{"name": name, "spec": entry.spec, "summary": entry.summary} for name, entry in entries.items()]
        backbones = [{"name": name, "installed": found} for name, found in installed.items()]
        output.document({"schema_version": SCHEMA_VERSION, "encoders": encoders, "backbones": backbones})
        return
    output.table(["name", "stands for", ""], [[name, one.spec, one.summary] for name, one in entries.items()])
    output.result()
    output.table(
        ["backbone", "installed"],
        [[name, "yes" if found else WHEELS[name].install] for name, found in installed.items()],
    )


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="An encoder.")] = "default", json: JsonOption = False) -> None:
    """Load an encoder and show what it is.

    Example: retriever models show gircse
    """
    from retriever import load_encoder
    from retriever.index.encoding import card

    found = card(load_encoder(name))
    if json:
        output.document({"schema_version": SCHEMA_VERSION, **found})
        return
    output.table(["property", "value"], [[key, value] for key, value in found.items()])


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="A backbone.")] = "smollm2-135m", json: JsonOption = False) -> None:
    """Unpack or convert a backbone into the cache now, so that the first search need not.

    Example: retriever models fetch
    """
    from retriever.index.model_names import find_source

    source = find_source(name)
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "name": source.name, "folder": str(source.folder)})
        return
    output.result(f"{source.name} is ready in {source.folder}.")


@app.command("promote")
def promote(
    folder: Annotated[Path | None, typer.Argument(help="A checkpoint folder.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Go back to the shipped default.")] = False,
    json: JsonOption = False,
) -> None:
    """Make a checkpoint the encoder that new indexes take by default. Indexes that exist keep theirs.

    Example: retriever models promote models/reviews
    """
    from retriever.index import models

    if (folder is None) != reset:
        raise UsageError("Name a checkpoint folder, or say --reset.", hint="retriever models promote FOLDER")
    if folder is None:
        models.reset()
    else:
        folder = models.promote(folder)
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "default": None if folder is None else str(folder)})
        return
    output.result("The shipped default is back." if folder is None else f"{folder} is the default encoder now.")


@app.command("merge")
def merge(
    names: Annotated[list[str], typer.Argument(metavar="FOLDER-OR-NAME", help="Trained models, two or more.")],
    folder: Annotated[Path, typer.Option("--output", "-o", help="The checkpoint folder to write; must not exist yet.")],
    share: Annotated[
        float | None, typer.Option(help="Of the first model in the mean, 0 to 1. [default: as much as every other]")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the mean of the weights of models that were trained on one backbone, by one method, as a model.

    Example: retriever models merge models/shop models/desk -o models/both
    """
    from retriever.index import models

    written = models.merge(names, folder, share=share)
    if json:
        output.document({"schema_version": SCHEMA_VERSION, "folder": str(written), "merged": names})
        return
    output.result(f"The mean of {len(names)} models is written to {written}. It was not measured.")


@app.command("export")
def export(
    name: Annotated[str, typer.Argument(metavar="FOLDER-OR-NAME", help="A checkpoint folder or an encoder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; must not exist yet.")],
    to: Annotated[str, typer.Option(help="sentence-transformers.")] = "sentence-transformers",
    device: DeviceOption = "cpu",
    json: JsonOption = False,
) -> None:
    """Write an encoder as a folder for sentence-transformers, without remote code. GIRCSE brings a short loader.

    The weights are merged in float32, and the folder's vectors compared with the encoder's before it is put in place.

    Example: retriever models export default exported
    """
    from retriever.index import models

    done = models.export(name, out, to=to, device=device)
    if json:
        found = {"name": done.name, "folder": str(done.folder), "loader": done.loader}
        output.document({"schema_version": SCHEMA_VERSION, **found})
        return
    output.result(f"{done.name} is written to {done.folder}; its README.md says how to use it with {done.loader}.")
