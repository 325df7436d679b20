"""`retriever cluster` and `retriever report`: what the documents say about a question, in groups with names."""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    CsvOption,
    DeviceOption,
    ExplainOption,
    IndexOption,
    JsonOption,
    refuse,
)
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict, say_ways
from retriever.clusters.references import NONE, ordinal, references
from retriever.core.errors import UsageError
from retriever.core.requests import GroupOptions
from retriever.core.text import printable
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.clusters.arithmetic.choice import Choice, Tried
    from retriever.clusters.clustering import Cluster, Clustering
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.saved import SavedClustering
    from retriever.workspace import Index

_SHOWN_VALUES = 5


@command_options(GroupOptions)
@command_options(Reading)
def cluster(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    html: Annotated[Path | None, typer.Option(help="Write an interactive map as one HTML file.")] = None,
    csv_file: CsvOption = None,
    save: Annotated[str | None, typer.Option("--save", help="Save the groups under this name.")] = None,
    saved: Annotated[
        str | None, typer.Option("--saved", help="Open the groups of this name; new documents are assigned too.")
    ] = None,
    rename: Annotated[list[str] | None, typer.Option(help='With --saved, give a name: 3="Late delivery".')] = None,
    merge: Annotated[
        list[str] | None, typer.Option(help="With --saved, merge: of 3,5,8 the first takes in the others.")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="With --saved, split into parts: 3=2 makes two of group 3.")
    ] = None,
    move: Annotated[
        list[str] | None, typer.Option(help="With --saved, put a document elsewhere: ID=5, or ID=none for no group.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="With --saved, undo the last change.")] = False,
    author: Annotated[
        str, typer.Option(help="Name of who changes. [default: the user of this computer]", hidden=True)
    ] = "",
    explain: ExplainOption = False,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Group documents by their answers to an instruction.

    Texts that are not embedded under the instruction yet are embedded first. Groups are clusters of similar texts.
    Where a language model reads the instruction, it writes categories of its answers; with --into the categories are
    yours: names, or in a file objects with name, description and examples (ids of documents). Each document goes to the
    category that answers the instruction best, or to none.

    Groups that are saved can be renamed, merged and split, and documents moved; all changes of one call are made, or
    none, and each can be undone. They apply to documents that are indexed later too. A group goes by its number, from
    1, by its name, or by a beginning that no other name has; in a list, a name with a comma stands in double quotes.

    Example: retriever cluster --instruction "What do people complain about?" --where "stars <= 2" --by category
    """
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.map import map_places, write_map

    edits = ClusterEdits(
        merge=[references(text) for text in merge or []],
        split=dict(_parts(text) for text in split or []),
        move=dict(_assigned(text, "--move") for text in move or []),
        rename=dict(_named(text) for text in rename or []),
    )
    groups, reading = made(GroupOptions, options), made(Reading, options)
    chosen = groups != GroupOptions() or save is not None
    refuse(saved is not None and chosen, "--saved opens groups as they were saved.", "Leave the other options out.")
    refuse(saved is None and (edits or undo), "Only saved groups can be changed.", "Name them with --saved.")
    refuse(undo and edits, "--undo excludes other changes.", "Undo first, then change.")
    with reading.opened(index, device) as opened, output.ProgressLine() as line:
        clustering: Clustering
        if saved is not None:
            clustering = _saved(opened, saved, edits, line, undo=undo, author=author)
        else:
            clustering = _made(opened, groups, reading, line, save)
        if html is not None:
            write_map(html, clustering, map_places(clustering))
    if csv_file is not None:
        write_csv(csv_file, clustering)
    if json:
        output.document(clustering.to_json())
    else:
        render(clustering, explain=explain)


def _saved(
    opened: "Index", name: str, edits: "ClusterEdits", line: output.ProgressLine, *, undo: bool, author: str
) -> "SavedClustering":
    """Return saved groups after changes."""
    if undo:
        output.say(printable(f"Undone: {opened.clusterings.undo(name).change}."))
    if edits:
        return opened.clusterings.edit(name, edits, author=author, progress=line.show)
    return opened.clusterings.get(name, progress=line.show)


def _made(
    opened: "Index", groups: GroupOptions, reading: Reading, line: output.ProgressLine, save: str | None
) -> "Clustering":
    """Return groups made now, saved where they are to have a name."""
    from retriever.clusters.categories import read_categories

    if save is not None:
        opened.clusterings.check_name(save)
    into = read_categories(*groups.into) if groups.into else []
    reading.begin(opened, groups.instruction or "")
    make = partial(opened.cluster, groups.instruction, k=groups.k, where=groups.where, by=groups.by or [], into=into)
    clustering = make(several=groups.several, read=reading.texts, progress=line.show)
    if save is not None:
        opened.clusterings.save(save, clustering)
    return clustering


def _assigned(given: str, option: str) -> tuple[str, str]:
    """Return the two sides of ID=GROUP; an id may hold the sign itself.

    Raises:
        UsageError: there is no such sign, or nothing on a side of it.
    """
    id, _, value = given.rpartition("=")
    if not id.strip() or not value.strip():
        raise UsageError(f"{option} is {given!r}.", hint=f"Write {option} ID=NAME.")
    return id.strip(), value.strip()


def _named(given: str) -> tuple[str, str]:
    """Return the group and its new name, which may hold the sign itself."""
    cluster, sign, label = given.partition("=")
    if not cluster.strip() or not sign:
        raise UsageError(f"--rename is {given!r}.", hint='Write --rename 3="Late delivery".')
    return cluster.strip(), label


def _parts(given: str) -> tuple[str, int]:
    cluster, number = _assigned(given, "--split")
    if not number.isdecimal():
        raise UsageError(f"--split is {given!r}.", hint="Write --split 3=2 for two parts of group 3.")
    return cluster, int(number)


def render(found: "Clustering", *, explain: bool = False) -> None:
    """Print groups for a person; or also by which figures they were made."""
    from retriever.clusters.groups import groups_of
    from retriever.clusters.quotes import distinct_words, typical_words
    from retriever.clusters.saved import SavedClustering

    show_caution(found)
    distinct = distinct_words(groups_of(found))
    for group in found.clusters:
        for line in _lines(
            found, group, typical_words(distinct[group.number], found.material.language), explain=explain
        ):
            output.result(line)
    none = found.members(NONE)
    if none:
        parents = {found.documents[id].parent_id for id in none}
        output.result(f"     none of these  {size_of(found, NONE, len(none), len(parents))}")
    say_basis(found)
    sure = explain or not found.division  # what a caution doubts is not praised
    if found.choice is not None and sure:
        output.say(_chosen(found.choice, explain=explain))
    if found.stability is not None and sure and (explain or found.stability.holds):
        repeated, half = found.stability.repeated, found.stability.halves
        said = "These groups are stable: another run, also on half of the texts, gives much the same."
        figures = f"Made again these groups agree by {repeated:.2f}, from half of the texts by {half:.2f}; 1 is full."
        output.say(figures if explain else said)
    if isinstance(found, SavedClustering):
        say_new(found)


def _chosen(choice: "Choice", *, explain: bool) -> str:
    """Say by what the number of clusters was chosen."""
    clusters = output.counted(choice.k, "cluster")
    if not choice.curve:
        return f"{clusters}: the texts are too few, or too alike, for more."
    if explain:
        curve = ", ".join(f"{tried.k}: {_steadiness(tried)}" for tried in choice.curve)
        return f"{clusters}; agreement of halves of the texts, less that by chance: {curve}."
    others = [str(number) for number in choice.ladder if number != choice.k]
    return (
        f"{clusters}. {choice.sentence} Others: -k {', '.join(others)}." if others else f"{clusters}. {choice.sentence}"
    )


def _steadiness(tried: "Tried") -> str:
    if tried.stability is None:
        return "not known"
    return f"{tried.stability.halves - (tried.stability.chance or 0.0):.2f}"


def size_of(found: "Clustering", number: int, size: int, documents: int) -> str:
    """Describe how large a cluster is: its rows, the documents that these are of, and their share of all."""
    from retriever.clusters.arithmetic.intervals import share

    if of_all := share_of(found, number):
        return f"{output.counted(size, 'document')} read, {of_all}"
    mixed = any(cluster.mixed for cluster in found.clusters if cluster.number == number)
    said = output.counted(documents, "document") + ("" if mixed else f" ({share(documents, len(found.topics))})")
    return said if found.material.units is None else f"{output.counted(size, 'sentence')} of {said}"


def share_of(found: "Clustering", number: int) -> str:
    """Return a cluster's estimated share of all texts, where a sample was read; empty elsewhere."""
    if found.sampled is None or found.sampled.whole:
        return ""
    if number not in found.sampled.shares:
        return "no share: its members differ"
    interval = found.sampled.shares[number].interval
    if interval is None:
        return "too few read at random for a share"
    return f"{interval.value:.0%} of all texts [{interval.low:.0%}, {interval.high:.0%}]"


def show_caution(found: "Clustering") -> None:
    """Print what comes before clusters or categories: how well they were taught, and what to doubt."""
    if found.lessons is not None and not found.lessons.warns:  # else the caution has its sentence
        output.result(printable(found.lessons.sentence))
    if found.caution:
        output.result(output.style(printable(found.caution), "yellow"))


def say_basis(found: "Clustering") -> None:
    """Say what clusters or categories go by: what was read, and by whom."""
    say_known(found.known_answers)
    if found.sampled is not None:
        output.say(printable(found.sampled.sentence))
        if not found.sampled.whole and found.clusters:
            label, instruction = found.clusters[0].label, found.request.instruction or ""
            more = shlex.join(["retriever", "search", label, "--instruction", instruction])
            output.say(printable(f"More of the first, read as it is needed: {more}"))
    if found.verdict is not None and found.verdict.warns:
        say_ways(found.verdict)  # the caution has its sentence
    else:
        say_verdict(found.verdict)


def say_new(found: "SavedClustering") -> None:
    """Say how many documents came since a clustering was saved, and which of them fit none."""
    if found.new:
        outside = found.fits_none
        some = f": {', '.join(outside[:_SHOWN_VALUES])}" if outside else ""
        new = output.counted(len(found.new), "new document" if found.material.units is None else "new sentence")
        output.say(f"{new}, {len(outside)} of which fit no cluster{some}.")


def _lines(found: "Clustering", group: "Cluster", words: Sequence[str], *, explain: bool) -> Iterator[str]:
    """Yield the lines of a group."""
    size = size_of(found, group.number, group.size, group.documents)
    size = "not learned" if group.label in found.not_learned else size
    figures = f", cohesion {group.cohesion:.2f}, margin {group.margin:.2f}, name holds of {group.holds:.0%}"
    label = output.style(printable(group.label), "green")
    yield f"{ordinal(group.number):3}  {label}  {size}{figures if explain else ''}"
    if group.alert:
        yield f"       {output.style(printable(group.alert), 'yellow')}"
    if group.description:
        yield f"       {printable(group.description)}"
    if group.phrases and not group.empty:
        yield f"       answered: {printable(', '.join(map(str, group.phrases)))}"
    if words:
        yield f"       typical words: {printable(', '.join(words))}"
    if group.sentence and not group.phrases:
        yield f'       "{printable(group.sentence)}"'
    if group.examples:
        yield f"       nearest: {printable(', '.join(group.examples))}"
    for field, spread in group.spreads.items():
        shown = list(spread.counts.items())[:_SHOWN_VALUES]
        values = ", ".join(f"{value} {count}" for value, count in shown)
        yield f"       {printable(f'{field}: {values}')}" + (f" (entropy {spread.entropy:.2f})" if explain else "")


def write_csv(path: Path, found: "Clustering") -> None:
    """Write a row for every document and cluster of its."""
    names = {group.number: group.label for group in found.clusters}
    rows = [
        [document.id, ordinal(number), names.get(number, "(fits none)"), parent]
        for document, parent in zip(found.material.documents, found.material.parents, strict=True)
        for number in found.places[document.id]
    ]
    columns = 3 if found.material.units is None else 4
    header = ["id", "cluster", "label", "document"]
    output.write_table(path, header[:columns], [row[:columns] for row in rows])


DEFAULT_FILE = Path("report.html")


def report(  # noqa: PLR0913 - one parameter per option
    name: Annotated[str, typer.Argument(help="Name of the saved clustering.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help=f"Write the report: .html, one file that needs no network, or .md. [default: {DEFAULT_FILE}, "
            "none with --json]",
        ),
    ] = None,
    index: IndexOption = DEFAULT_INDEX,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare each value of this field with all other reviews: product, stars, or any; repeatable. "
            "[default: products and categories, where the index has them]"
        ),
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="Show shares per month, quarter or year. [default: the shortest that fits]")
    ] = None,
    stars: Annotated[
        str | None, typer.Option(help="Field with the ratings. [default: recognised]", hidden=True)
    ] = None,
    date: Annotated[str | None, typer.Option(help="Field with the dates. [default: recognised]", hidden=True)] = None,
    where: Annotated[
        str | None, typer.Option(help="Count only these reviews: \"stars <= 2 and category = 'toy'\".")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Report a saved clustering: findings, shares, ratings, quotes.

    It says first how far to trust it. Shares and effects have their 95 % interval; --json has the ids behind them, and
    all segments and periods compared.

    Example: retriever report complaints -o complaints.html --by product --period quarter
    """
    from retriever.clusters.groups import groups_of
    from retriever.clusters.index_numbers import check_fields, numbers_of, usual_segments
    from retriever.clusters.report import make_report, model_names, report_format, write_report
    from retriever.core.periods import period_unit
    from retriever.workspace import Index

    if file is None and not json:
        file = DEFAULT_FILE
    if file is not None:
        report_format(file)  # refuses a wrong name before anything is read
    unit = None if period is None else period_unit(period)
    with Index(index, device=device) as opened, output.ProgressLine() as line:
        check_fields(opened, by or (), stars, date, where=where)
        clustering = opened.clusterings.get(name, progress=line.show)
        segments = tuple(by) if by else usual_segments(opened)
        groups = groups_of(clustering)
        counted = numbers_of(opened, groups, segments, period=unit, stars=stars, date=date, where=where)
        status = opened.status()
    made = make_report(clustering, counted, model_names(status.encoder, status.plain), where=where)
    if file is not None:
        write_report(file, made)
    if json:
        output.document(made.to_json())
        return
    for sentence in made.findings:
        output.result(printable(sentence))
    output.say(f"The report is in {file}.")
