"""`retriever cluster` and `retriever report`: what the documents say about a question, in groups with names."""

import shlex
from collections.abc import Sequence
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
    SavedOption,
    SaveOption,
    WhereOption,
    refuse,
)
from retriever.cli.reading import Reading, say_known
from retriever.cli.verdicts import say_verdict, say_ways
from retriever.clusters.references import ordinal
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened
from retriever.core.types import Document
from retriever.forms import command_options, made

if TYPE_CHECKING:
    from retriever.clusters.arithmetic.choice import Choice, Tried
    from retriever.clusters.clustering import Cluster, Clustering
    from retriever.clusters.having import Having
    from retriever.clusters.saved import SavedClustering

AUTO = "auto"
_SHOWN_VALUES = 5
_SHOWN_DOCUMENTS = 20
_SNIPPET = 160


@command_options(Reading)
def cluster(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[str, typer.Option(help="Question that the clusters answer.")] = "",
    k: Annotated[
        str, typer.Option("-k", help="Number of clusters; auto chooses it, or takes the answers that were taught.")
    ] = AUTO,
    where: WhereOption = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Count the values of this field in each cluster; repeatable.")
    ] = None,
    over: Annotated[str | None, typer.Option(help="Count documents per month of this date field.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write an interactive map as one HTML file.")] = None,
    csv_file: CsvOption = None,
    save: SaveOption = None,
    saved: SavedOption = None,
    having: Annotated[
        str | None,
        typer.Option(
            help='Documents with parts in these clusters, by number or name: "3 and 5", "price or 5", "3 and not 5".'
        ),
    ] = None,
    name_by: Annotated[
        str | None,
        typer.Option(
            help="With --save or --saved, let this language model title each cluster: chat:MODEL or chat:URL#MODEL."
        ),
    ] = None,
    explain: ExplainOption = False,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Group documents by their answers to an instruction.

    Texts that are not embedded under the instruction yet are embedded first. --name-by sends up to twelve texts per
    cluster to a language model, and stores its titles and descriptions as one change, which
    `retriever topics NAME --undo` reverts.

    Example: retriever cluster --instruction "What do people complain about?" --where "stars <= 2" --by category
    """
    from retriever.clusters.edit_requests import ClusterEdits
    from retriever.clusters.having import parse_having
    from retriever.clusters.map import map_places, write_map

    chosen = any([instruction, where, by, over, html]) or (k, save) != (AUTO, None)
    refuse(saved is not None and chosen, "--saved shows a clustering as it was saved.", "Leave the other options out.")
    refuse(
        name_by is not None and saved is None and save is None,
        "--name-by stores titles with a saved clustering.",
        "Add --save NAME or --saved NAME.",
    )
    reading = made(Reading, options)
    count, budget = cluster_count(k), reading.texts
    with reading.opened(index, device) as opened, output.ProgressLine() as line:
        clustering: Clustering
        if saved is not None:
            clustering = opened.clusterings.get(saved, progress=line.show)
        else:
            make = partial(opened.cluster, instruction, k=count, where=where, by=by or [], over=over, read=budget)
            clustering = reading.make(opened, instruction, partial(make, progress=line.show), save)
        if name_by is not None:
            edit = partial(opened.clusterings.edit, save or saved or "", ClusterEdits(name_by=name_by))
            reading.permit(opened, name_by)
            clustering = titled = edit(progress=line.show)
            output.say(f"{printable(str(titled.edits[-1].change))}.")
        if html is not None:
            write_map(html, clustering, map_places(clustering))
    parts = None if having is None else parse_having(clustering, having)
    if csv_file is not None:
        write_csv(csv_file, clustering)
    if json:
        output.document({**clustering.to_json(), **({} if parts is None else {"having": parts.to_json(clustering)})})
    elif parts is None:
        render(clustering, explain=explain)
    else:
        _render_having(clustering, parts)


def _render_having(clustering: "Clustering", having: "Having") -> None:
    """Print the documents that were asked for, each with what stands in the clusters."""
    show_caution(clustering)
    labels = {group.number: group.label for group in clustering.clusters}
    parts: dict[str, list[Document]] = {}
    for part, parent in zip(clustering.material.documents, clustering.material.parents, strict=True):
        if clustering.assignments[part.id] in having.wanted:
            parts.setdefault(parent, []).append(part)
    ids = having.documents(clustering)
    output.say(f"{len(ids)} of {len(clustering.topics)} documents: {printable(having.expression)}.")
    for id in ids[:_SHOWN_DOCUMENTS]:
        output.result(output.style(printable(id), "green"))
        for part in parts[id]:
            label = printable(labels[clustering.assignments[part.id]])
            output.result(f"     {label}: {shortened(part.text, _SNIPPET)}")
    if len(ids) > _SHOWN_DOCUMENTS:
        output.say(f"... and {len(ids) - _SHOWN_DOCUMENTS} more; --json names them all.")


def cluster_count(k: str) -> int | None:
    """Return the number of clusters an option names, None for auto."""
    if k == AUTO:
        return None
    try:
        return int(k)
    except ValueError:
        raise UsageError(f"-k is {k!r}.", hint="Give a number of clusters, or auto.") from None


def render(found: "Clustering", *, explain: bool = False) -> None:
    """Print clusters for a person, those left out that somebody hid; or also by which figures they were made."""
    from retriever.clusters.groups import groups_of
    from retriever.clusters.quotes import distinct_words, typical_words
    from retriever.clusters.saved import SavedClustering

    show_caution(found)
    distinct = distinct_words(groups_of(found))
    for group in found.clusters:
        if group.number not in found.hidden:
            size = size_of(found, group.number, group.size, group.documents)
            _render_cluster(group, size, typical_words(distinct[group.number]), explain=explain)
    if found.months:
        numbers = [ordinal(group.number) for group in found.clusters]
        for month, counts in {"cluster": numbers, **found.months}.items():
            output.result(f"{month:7}  {'  '.join(f'{count:4}' for count in counts)}")
    say_basis(found)
    sure = explain or not found.division  # what a caution doubts is not praised
    if found.choice is not None and sure:
        output.say(_chosen(found.choice, explain=explain))
    if found.stability is not None and sure and (explain or found.stability.holds):
        made, half = found.stability.repeated, found.stability.halves
        said = "These clusters are stable: another run, also on half of the texts, gives much the same."
        figures = f"Made again these clusters agree by {made:.2f}, from half of the texts by {half:.2f}; 1 is full."
        output.say(figures if explain else said)
    if isinstance(found, SavedClustering):
        say_new(found)
    if found.hidden:
        hidden = ", ".join(str(ordinal(number)) for number in sorted(found.hidden))
        are = "is" if len(found.hidden) == 1 else "are"
        output.say(f"{output.counted(len(found.hidden), 'cluster')} {are} hidden: {hidden}.")


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
    said = f"{output.counted(documents, 'document')} ({share(documents, len(found.topics))})"
    return said if found.material.units is None else f"{output.counted(size, 'sentence')} of {said}"


def share_of(found: "Clustering", number: int) -> str:
    """Return a cluster's estimated share of all texts, where a sample was read; empty elsewhere."""
    if found.sampled is None or found.sampled.whole:
        return ""
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
        what = "documents" if found.material.units is None else "sentences"
        output.say(f"{len(found.new)} {what} are new; {len(outside)} of them fit none{some}.")


def _render_cluster(group: "Cluster", size: str, words: Sequence[str], *, explain: bool) -> None:
    label = output.style(printable(group.label), "green")
    figures = f", cohesion {group.cohesion:.2f}, margin {group.margin:.2f}" if explain else ""
    output.result(f"{ordinal(group.number):3}  {label}  {size}{figures}")
    if group.description:
        output.result(f"       {printable(group.description)}")
    if group.phrases:
        output.result(f"       answered: {printable(', '.join(map(str, group.phrases)))}")
    if words:
        output.result(f"       typical words: {printable(', '.join(words))}")
    if group.sentence:
        output.result(f'       "{printable(group.sentence)}"')
    output.result(f"       nearest: {printable(', '.join(group.examples))}")
    for field, spread in group.spreads.items():
        shown = list(spread.counts.items())[:_SHOWN_VALUES]
        values = ", ".join(f"{value} {count}" for value, count in shown)
        figures = f" (entropy {spread.entropy:.2f})" if explain else ""
        output.result(f"       {printable(f'{field}: {values}')}{figures}")


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
    from retriever.clusters.periods import period_unit
    from retriever.clusters.report import make_report, model_names, report_format, write_report
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
