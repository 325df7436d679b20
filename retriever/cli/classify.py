"""`retriever classify`: every document to the category, of those somebody names, that answers a question."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retriever.cli import output
from retriever.cli.cluster import say_basis, write_csv
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened

if TYPE_CHECKING:
    from retriever.workspace import Index

_NONE = -1
_QUOTED = 100  # characters of an example


def classify(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[str, typer.Option(help="What the categories are answers to, in plain words.")] = "",
    into: Annotated[
        str,
        typer.Option(help='The categories: "refund, repair, nothing", or a .json or .jsonl file with descriptions.'),
    ] = "",
    several: Annotated[bool, typer.Option("--several", help="A document may belong to several.")] = False,
    where: Annotated[
        str | None, typer.Option(help="Filter over metadata: \"stars <= 2 and category = 'toy'\".")
    ] = None,
    save: Annotated[str | None, typer.Option(help="Save the categories under this name.")] = None,
    saved: Annotated[
        str | None, typer.Option(help="Show the categories of this name, with what is new put to the nearest.")
    ] = None,
    correct: Annotated[
        list[str] | None,
        typer.Option(help="With --saved, put a document elsewhere: ID=refund, or ID=none; repeatable."),
    ] = None,
    as_rows: Annotated[
        Path | None, typer.Option("--as-rows", help="With --saved, write what was corrected as rows for finetune.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write id, category and its name of every document.")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Put every document to the category that answers the instruction, or to none; what its view lacks is embedded.

    A file holds names, or objects with name, description and examples (ids of documents). `retriever topics` renames,
    merges, splits and hides saved categories.

    Example: retriever classify --instruction "What does the customer want?" --into "refund, repair, nothing"
    """
    from retriever.clusters.categories import read_categories
    from retriever.workspace import Index

    if saved is None and (correct or as_rows):
        raise UsageError("--correct and --as-rows are for saved categories.", hint="Name them with --saved.")
    if saved is None and not into:
        raise UsageError("No categories are named.", hint='Name them: --into "refund, repair, nothing".')
    if saved is not None and (any([instruction, into, where, several]) or save is not None):
        raise UsageError("--saved shows categories as they were saved.", hint="Leave the other options out.")
    line = output.ProgressLine()
    with Index(index, device=device) as opened:
        if saved is not None:
            document = _saved(opened, saved, correct or [], as_rows, line)
        else:
            if save is not None:
                opened.store.clusterings.check_name(save)
            found = opened.classify(
                instruction, read_categories(into), several=several, where=where, progress=line.show
            )
            document = found.to_json()
            if save is not None:
                opened.save_classification(save, found)
        quoted = opened.documents([id for one in document["clusters"] for id in one["examples"][:1]])
    line.close()
    if csv_file is not None:
        write_csv(csv_file, document)
    if json:
        output.document(document)
    else:
        _render(document, {id: one.text for id, one in quoted.items()})


def _saved(
    opened: "Index", name: str, correct: list[str], as_rows: Path | None, line: output.ProgressLine
) -> dict[str, Any]:
    """Return saved categories, corrected first, and write the corrections as rows where that is asked for."""
    from retriever.clusters.edit_requests import ClusterEdits

    if correct:
        moved = dict(assigned(one, "--correct") for one in correct)
        found = opened.edit_clustering(name, ClusterEdits(move=moved), progress=line.show)
    else:
        found = opened.saved_clustering(name, progress=line.show)
    if as_rows is not None:
        from retriever.training.corrections import write_corrections

        count = write_corrections(as_rows, found)
        output.say(f"{count} rows for `retriever finetune` written to {as_rows}.")
    return found.to_json()


def assigned(given: str, option: str) -> tuple[str, str]:
    """Return the two sides of ID=CATEGORY; an id may hold the sign itself.

    Raises:
        UsageError: there is no such sign, or nothing on a side of it.
    """
    id, _, value = given.rpartition("=")
    if not id.strip() or not value.strip():
        raise UsageError(f"{option} is {given!r}.", hint=f"Write {option} ID=NAME.")
    return id.strip(), value.strip()


def _render(document: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    total = max(1, document["documents"])
    hidden = document.get("hidden", [])
    for one in document["clusters"]:
        if one["cluster"] in hidden:
            continue
        name = output.style(printable(one["label"]), "green")
        output.result(f"{one['cluster']:3}  {name}  {one['size']} documents ({one['size'] / total:.0%})")
        if one["keywords"]:
            output.result(f"       answered: {printable(', '.join(one['keywords']))}")
        for id in one["examples"][:1]:
            output.result(f"       {printable(id)}: {shortened(texts.get(id, ''), _QUOTED)}")
    none = sum(number == _NONE for number in document["assignments"].values())
    output.result(f"     none of these  {none} documents ({none / total:.0%})")
    say_basis(document)
    if document.get("new"):
        output.say(f"{len(document['new'])} documents are new; {len(document['fits_none'])} of them fit none.")
