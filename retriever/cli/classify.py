"""`retriever classify` and `retriever topics`: assign documents to named categories, and edit saved groups."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.cluster import render, say_basis, say_new, show_caution, size_of, write_csv
from retriever.cli.options import (
    DEFAULT_INDEX,
    CsvOption,
    DeviceOption,
    ExplainOption,
    IndexOption,
    JsonOption,
    SavedOption,
    SaveOption,
    WhereOption,
    refuse,
)
from retriever.cli.reading import Reading, say_known
from retriever.clusters.references import NONE, ordinal, references
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering
    from retriever.clusters.edits import Edit
    from retriever.clusters.proposing import Proposal
    from retriever.clusters.saved import SavedClustering
    from retriever.workspace import Index

_QUOTED = 100  # characters of an example


@command_options(Reading)
def classify(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[str, typer.Option(help="Question that the categories answer.")] = "",
    into: Annotated[
        str,
        typer.Option(help='Categories: "refund, repair, nothing", or a .json or .jsonl file with descriptions.'),
    ] = "",
    several: Annotated[bool, typer.Option("--several", help="Allow several categories per document.")] = False,
    where: WhereOption = None,
    save: SaveOption = None,
    saved: SavedOption = None,
    as_rows: Annotated[
        Path | None,
        typer.Option("--as-rows", help="With --saved: write answers by people as rows for finetune.", hidden=True),
    ] = None,
    csv_file: CsvOption = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Propose categories instead of assigning documents.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="With --propose: write the categories to this JSON file, for --into."),
    ] = None,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Assign documents to the categories that you name.

    Each document goes to the category that answers the instruction best, or to none. A file for --into holds names, or
    objects with name, description and examples (ids of documents). Where examples taught the instruction, a category
    without any gets no document. A language model that reads the instruction chooses a category for each text of a
    sample; `other` and `not said` are further categories. With --propose it writes at most twelve categories, from
    known answers or from thirty texts, for you to edit. `retriever topics` corrects, renames, merges, splits and hides
    saved categories.

    Example: retriever classify --instruction "What does the customer want?" --into "refund, repair, nothing"
    """
    from retriever.clusters.categories import read_categories

    sorts = several or save is not None
    excluded = into or sorts or csv_file is not None or as_rows is not None or saved is not None
    refuse(propose and excluded, "--propose assigns no documents.", "Leave the other options out.")
    refuse(file and not propose, "-o is for proposed categories.", "Add --propose, or write documents with --csv.")
    refuse(saved is None and as_rows, "--as-rows is for saved categories.", "Name them with --saved.")
    refuse(
        not (into or propose or saved is not None),
        "No categories are named.",
        'Name them: --into "refund, repair, nothing".',
    )
    refuse(
        saved is not None and (into or sorts or instruction or where),
        "--saved shows categories as they were saved.",
        "Leave the other options out.",
    )
    reading = made(Reading, options)
    budget = reading.texts
    with reading.opened(index, device) as opened, output.ProgressLine() as line:
        clustering: Clustering
        if propose:
            reading.begin(opened, instruction)
            proposal = opened.clusterings.propose(instruction, where=where, progress=line.show)
            _show_proposal(proposal, file, json=json)
            return
        if saved is not None:
            clustering = _saved(opened, saved, as_rows, line)
        else:
            sort = partial(opened.clusterings.classify, instruction, read_categories(into), several=several)
            sort = partial(sort, where=where, read=budget, progress=line.show)
            clustering = reading.make(opened, instruction, sort, save)
    if csv_file is not None:
        write_csv(csv_file, clustering)
    if json:
        output.document(clustering.to_json())
    else:
        _render(clustering)


def _show_proposal(proposal: "Proposal", file: Path | None, *, json: bool) -> None:
    """Print proposed categories, and write them where a file is named."""
    from retriever.clusters.proposing import write_proposal

    if file is not None:
        write_proposal(file, proposal)
    if json:
        output.document(proposal.to_json())
        return
    for proposed in proposal.categories:
        name = output.style(printable(proposed.category.name), "green")
        output.result(f"{proposed.texts:4}  {name}  {printable(proposed.category.description)}")
    made = (
        f"{proposal.written_by} wrote the categories" if proposal.written_by else "The categories are groups of answers"
    )
    said = f"{proposal.texts} answers of {proposal.reader}; {proposal.not_said} texts do not answer. {made}."
    output.say(printable(f"{said} The language model wrote none: {proposal.fault}" if proposal.fault else said))
    say_known(proposal.known_answers)
    if file is not None:
        output.say(f"The categories are in {file}: edit them, then `retriever classify --into {file}`.")


def _saved(opened: "Index", name: str, as_rows: Path | None, line: output.ProgressLine) -> "SavedClustering":
    """Return saved categories, and write what people answered to their question as rows where that is requested."""
    clustering = opened.clusterings.get(name, progress=line.show)
    if as_rows is not None:
        from retriever.training.from_index import write_answers

        count = write_answers(as_rows, opened, clustering.request.instruction or "")
        output.say(f"{count} rows for `retriever finetune` were written to {as_rows}.")
    return clustering


def _render(clustering: "Clustering") -> None:
    from retriever.clusters.saved import SavedClustering

    show_caution(clustering)
    for cluster in clustering.clusters:
        if cluster.number in clustering.hidden:
            continue
        name = output.style(printable(cluster.label), "green")
        unknown = cluster.label in clustering.not_learned
        size = size_of(clustering, cluster.number, cluster.size, cluster.documents)
        output.result(f"{ordinal(cluster.number):3}  {name}  {'not learned' if unknown else size}")
        if cluster.keywords:
            output.result(f"       answered: {printable(', '.join(map(str, cluster.phrases or cluster.keywords)))}")
        for id in cluster.examples[:1]:
            output.result(f"       {printable(id)}: {shortened(clustering.documents[id].text, _QUOTED)}")
    none = clustering.members(NONE)
    parents = {clustering.documents[id].parent_id for id in none}
    if none or clustering.categories is not None:  # a closed question has options for what is none of them
        output.result(f"     none of these  {size_of(clustering, NONE, len(none), len(parents))}")
    say_basis(clustering)
    if isinstance(clustering, SavedClustering):
        say_new(clustering)


def topics(  # noqa: PLR0913 - one parameter per option
    name: Annotated[str, typer.Argument(help="Name of the saved clusters or categories.")],
    index: IndexOption = DEFAULT_INDEX,
    merge: Annotated[
        list[str] | None,
        typer.Option(help="The first takes in the others: 3,5,8. A cluster goes by number or name."),
    ] = None,
    split: Annotated[list[str] | None, typer.Option(help="Split into parts: 3=2 makes two of cluster 3.")] = None,
    move: Annotated[
        list[str] | None, typer.Option(help="Put a document elsewhere: ID=5, or ID=none for no cluster.")
    ] = None,
    rename: Annotated[list[str] | None, typer.Option(help='Give a name: 3="Late delivery".')] = None,
    hide: Annotated[list[str] | None, typer.Option(help="Hide this cluster.")] = None,
    show: Annotated[list[str] | None, typer.Option(help="Show a hidden cluster again.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last change.")] = False,
    history: Annotated[bool, typer.Option("--history", help="List all changes with author and time.")] = False,
    author: Annotated[str, typer.Option(help="Name of the author. [default: the user of this computer]")] = "",
    explain: ExplainOption = False,
    json: JsonOption = False,
) -> None:
    """Rename, merge, split or hide saved clusters and categories.

    All changes of one call are made, in the order of the options, or none. Each can be undone by itself. They apply to
    documents that are indexed later too.

    A cluster goes by its number, from 1, by its name, or by a beginning that no other name has. In a list, a name with
    a comma stands in double quotes.

    Example: retriever topics complaints --rename 3="Late delivery" --merge 1,5 --hide 7
    """
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.workspace import Index

    edits = ClusterEdits(
        merge=[references(text) for text in merge or []],
        split=dict(_parts(text) for text in split or []),
        move=dict(_assigned(text, "--move") for text in move or []),
        rename=dict(_named(text) for text in rename or []),
        hide=hide or [],
        show=show or [],
    )
    refuse(undo and edits, "--undo excludes other changes.", "Undo first, then change.")
    with Index(index) as opened, output.ProgressLine() as line:
        if undo:
            output.say(f"Undone: {opened.clusterings.undo(name).change}.")
        if edits:
            clustering = opened.clusterings.edit(name, edits, author=author, progress=line.show)
        else:
            clustering = opened.clusterings.get(name, progress=line.show)
    if json:
        output.document(clustering.to_json())
    elif history:
        _render_history(clustering.edits)
    else:
        render(clustering, explain=explain)


def _assigned(given: str, option: str) -> tuple[str, str]:
    """Return the two sides of ID=CATEGORY; an id may hold the sign itself.

    Raises:
        UsageError: there is no such sign, or nothing on a side of it.
    """
    id, _, value = given.rpartition("=")
    if not id.strip() or not value.strip():
        raise UsageError(f"{option} is {given!r}.", hint=f"Write {option} ID=NAME.")
    return id.strip(), value.strip()


def _named(given: str) -> tuple[str, str]:
    """Return the cluster and its new name, which may hold the sign itself."""
    cluster, sign, label = given.partition("=")
    if not cluster.strip() or not sign:
        raise UsageError(f"--rename is {given!r}.", hint='Write --rename 3="Late delivery".')
    return cluster.strip(), label


def _parts(given: str) -> tuple[str, int]:
    cluster, number = _assigned(given, "--split")
    if not number.isdecimal():
        raise UsageError(f"--split is {given!r}.", hint="Write --split 3=2 for two parts of cluster 3.")
    return cluster, int(number)


def _render_history(edits: "Sequence[Edit]") -> None:
    for edit in edits:
        undone = f"  (undone {_minute(edit.undone)})" if edit.undone else ""
        author, change = printable(edit.author), printable(str(edit.change))
        output.result(f"{edit.number:4}  {_minute(edit.made)}  {author}  {change}{undone}")
    if not edits:
        output.result("Nothing was changed.")


def _minute(when: str) -> str:
    return when[:16].replace("T", " ")
