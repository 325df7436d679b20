"""`retriever cluster`: what the documents say about a question, in groups with names."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError

if TYPE_CHECKING:
    from retriever.services.clustering import Cluster, Clustering
    from retriever.services.results import IndexingReport

AUTO = "auto"
_SHOWN_VALUES = 5
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cluster(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    instruction: Annotated[str, typer.Option(help="What the clusters are to answer, in plain words.")] = "",
    k: Annotated[str, typer.Option("-k", help="How many clusters, or auto to choose by silhouette.")] = AUTO,
    where: Annotated[
        str | None, typer.Option(help="Filter over metadata: \"stars <= 2 and category = 'toy'\".")
    ] = None,
    min_size: Annotated[int, typer.Option(help="Give up clusters with fewer documents.")] = 1,
    by: Annotated[
        list[str] | None, typer.Option(help="Count this field's values in every cluster; repeatable.")
    ] = None,
    over: Annotated[str | None, typer.Option(help="Count documents by month of this date field.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of k-means.")] = 0,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write id, cluster and label of every document.")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Cluster the documents under an instruction; what its view lacks is embedded first.

    Example: retriever cluster --instruction "What do people complain about?" --where "stars <= 2" --by category
    """
    from retriever.services.workspace import Index

    line = output.ProgressLine()

    def progress(report: "IndexingReport") -> None:
        line.tell(f"{sum(report.embedded.values())} vectors, {report.tokens} tokens")

    with Index(index, device=device) as opened:
        found = opened.cluster(
            instruction,
            k=_number(k),
            where=where,
            min_size=min_size,
            by=by or [],
            over=over,
            seed=seed,
            progress=progress,
        )
    line.close()
    if csv_file is not None:
        _write_csv(csv_file, found)
    if json:
        output.document(found.to_json())
    else:
        _render(found)


def _number(k: str) -> int | None:
    if k == AUTO:
        return None
    try:
        return int(k)
    except ValueError:
        raise UsageError(f"-k is {k!r}.", hint="Give a number of clusters, or auto.") from None


def _render(found: "Clustering") -> None:
    for one in found.clusters:
        _render_cluster(one)
    if found.choice is not None:
        curve = ", ".join(f"{k}: {value:.3f}" for k, value in found.choice.curve)
        output.say(
            f"k = {found.choice.k} has the highest mean silhouette ({curve or 'the texts are too few or alike'})."
        )
    for month, counts in found.months.items():
        output.result(f"{month}  {'  '.join(f'{count:4}' for count in counts)}")


def _render_cluster(one: "Cluster") -> None:
    lies = one.measures
    output.result(
        f"{one.number:3}  {output.style(output.printable(one.label), 'green')}  {lies.size} documents, "
        f"cohesion {lies.cohesion:.2f}, margin {lies.margin:.2f}"
    )
    output.result(f"       in the texts: {output.printable(', '.join(one.text_keywords))}")
    if one.sentence:
        output.result(f'       "{output.printable(one.sentence)}"')
    output.result(f"       nearest: {output.printable(', '.join(document.id for document in one.examples))}")
    for field, spread in one.spreads.items():
        shown = list(spread.counts.items())[:_SHOWN_VALUES]
        values = ", ".join(f"{value} {count}" for value, count in shown)
        output.result(f"       {output.printable(f'{field}: {values}')} (entropy {spread.entropy:.2f})")


def _write_csv(path: Path, found: "Clustering") -> None:
    """Write the assignments; what a spreadsheet would take for a formula is quoted."""
    names = {one.number: one.label for one in found.clusters}
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "cluster", "label"])
            for id, number in found.assignments.items():
                writer.writerow([_harmless(id), number, _harmless(names[number])])
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint="Choose another --csv.") from error


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
