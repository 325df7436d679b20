"""`retriever cluster`: what the documents say about a question, in groups with names."""

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    DeviceOption,
    IndexOption,
    JsonOption,
    LedgerOption,
    RayOption,
    WorkersOption,
    embedding,
)
from retriever.core.errors import UsageError
from retriever.core.extras import require_extra
from retriever.core.paths import write_output
from retriever.core.spreadsheets import escape_formula
from retriever.core.text import printable, shortened
from retriever.core.types import parent_of

if TYPE_CHECKING:
    from retriever.clusters.clustering import Clustering
    from retriever.workspace import Index

AUTO = "auto"
_SHOWN_VALUES = 5
_SHOWN_DOCUMENTS = 20
_SNIPPET = 160


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
    levels: Annotated[int, typer.Option(help="Most levels of clusters of clusters; 1 is the clusters themselves.")] = 1,
    html: Annotated[Path | None, typer.Option(help="Write a map to explore, one file that needs no network.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write the map as a picture.")] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write id, cluster and label of every document.")
    ] = None,
    save: Annotated[str | None, typer.Option(help="Save the clustering under this name.")] = None,
    saved: Annotated[
        str | None, typer.Option(help="Show the clustering of this name, with what is new put to the nearest cluster.")
    ] = None,
    workers: WorkersOption = None,
    ray: RayOption = None,
    ledger: LedgerOption = None,
    having: Annotated[
        str | None,
        typer.Option(
            help='Documents with parts in these clusters, by number or name: "3 and 5", "3 or 5", "3 and not 5".'
        ),
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Cluster the documents under an instruction; what its view lacks is embedded first.

    Example: retriever cluster --instruction "What do people complain about?" --where "stars <= 2" --by category
    """
    from retriever.workspace import Index

    options = embedding(workers, ray, ledger, device)
    if png is not None:
        require_extra("eval")  # not after minutes of clustering
    line = output.ProgressLine()
    with Index(index, device=device) as opened:
        if saved is not None:
            asked = [instruction, where, by, over, seed, html, png]
            if any(asked) or (k, min_size, levels, save) != (AUTO, 1, 1, None):
                raise UsageError("--saved shows a clustering as it was saved.", hint="Leave the other options out.")
            document = opened.saved_clustering(saved, progress=line.show).to_json()
        else:
            if save is not None:
                opened.store.clusterings.check_name(save)
            found = opened.cluster(
                instruction,
                k=cluster_count(k),
                where=where,
                min_size=min_size,
                by=by or [],
                over=over,
                seed=seed,
                levels=levels,
                options=options,
                progress=line.show,
            )
            document = found.to_json()
            _keep(opened, found, save, html, png)
        line.close()
        if having is not None:
            document = {**document, "having": _having(document, having)}
        if csv_file is not None:
            write_csv(csv_file, document)
        if json:
            output.document(document)
        elif having is None:
            render(document)
        else:
            _render_having(opened, document)


def _keep(opened: "Index", found: "Clustering", save: str | None, html: Path | None, png: Path | None) -> None:
    from retriever.clusters.map import draw_map, map_places, write_map

    if html is not None or png is not None:
        places = map_places(found)  # takes seconds: once for both
        if html is not None:
            write_map(html, found, places)
        if png is not None:
            draw_map(png, found, places)
    if save is not None:
        opened.save_clustering(save, found)


def _having(document: Mapping[str, Any], expression: str) -> dict[str, Any]:
    """Return the JSON of the documents that fulfil a condition on clusters."""
    from retriever.clusters.having import documents_having, parse_having

    having = parse_having(document, expression)
    ids = documents_having(document, having)
    return {"expression": expression, "clusters": having.wanted, "documents": ids}


def _render_having(opened: "Index", document: Mapping[str, Any]) -> None:
    """Print the documents that were asked for, each with what stands in the clusters."""
    having, labels = document["having"], {one["cluster"]: one["label"] for one in document["clusters"]}
    parts: dict[str, list[str]] = {}
    for id, number in document["assignments"].items():
        if number in having["clusters"]:
            parts.setdefault(id if document["units"] is None else parent_of(id), []).append(id)
    shown = having["documents"][:_SHOWN_DOCUMENTS]
    texts = opened.documents(part for id in shown for part in parts[id])
    output.say(f"{len(having['documents'])} of {document['documents']} documents: {printable(having['expression'])}.")
    for id in shown:
        output.result(output.style(printable(id), "green"))
        for part in parts[id]:
            label = printable(labels[document["assignments"][part]])
            output.result(f"     {label}: {shortened(texts[part].text, _SNIPPET)}")
    if len(having["documents"]) > len(shown):
        output.say(f"... and {len(having['documents']) - len(shown)} more; --json names them all.")


def cluster_count(k: str) -> int | None:
    """Return the number of clusters an option names, None for auto."""
    if k == AUTO:
        return None
    try:
        return int(k)
    except ValueError:
        raise UsageError(f"-k is {k!r}.", hint="Give a number of clusters, or auto.") from None


def render(document: Mapping[str, Any]) -> None:
    """Print clusters for a person, those left out that somebody hid."""
    hidden = document.get("hidden", [])
    for one in document["clusters"]:
        if one["cluster"] not in hidden:
            _render_cluster(one)
    for number, level in enumerate(document.get("levels", []), start=2):
        _render_level(number, level)
    if document["months"]:
        numbers = [one["cluster"] for one in document["clusters"]]
        for month, counts in {"cluster": numbers, **document["months"]}.items():
            output.result(f"{month:7}  {'  '.join(f'{count:4}' for count in counts)}")
    say_basis(document)
    if chosen := document["chosen"]:
        curve = ", ".join(f"{one['k']}: {one['silhouette']:.3f}" for one in chosen["curve"])
        output.say(f"k = {document['k']} by {chosen['by']} ({curve or 'the texts are too few or too alike'}).")
    if document.get("new"):
        outside = document["fits_none"]
        some = f": {', '.join(outside[:_SHOWN_VALUES])}" if outside else ""
        what = "documents" if document["units"] is None else "sentences"
        output.say(f"{len(document['new'])} {what} are new; {len(outside)} of them fit none{some}.")
    if hidden:
        output.say(f"{len(hidden)} clusters are hidden: {', '.join(map(str, hidden))}.")


def say_basis(document: Mapping[str, Any]) -> None:
    """Say what clusters or categories go by: what was taught, or a model that may not follow the question."""
    if taught := document.get("taught"):
        output.say(f"They go by what {sum(taught['answers'].values())} examples taught of this question.")
    verdict = document.get("verdict")
    sentence = verdict["sentence"] if verdict and verdict["level"] != "followed" else ""
    if warning := document.get("caution", sentence):
        output.say(output.style(warning, "yellow", sys.stderr))


def _render_cluster(one: Mapping[str, Any]) -> None:
    output.result(
        f"{one['cluster']:3}  {output.style(printable(one['label']), 'green')}  {_size(one)}, "
        f"cohesion {one['cohesion']:.2f}, margin {one['margin']:.2f}"
    )
    output.result(f"       in the texts: {printable(', '.join(one['text_keywords']))}")
    if one["sentence"]:
        output.result(f'       "{printable(one["sentence"])}"')
    output.result(f"       nearest: {printable(', '.join(one['examples']))}")
    for field, spread in one["by"].items():
        shown = list(spread["counts"].items())[:_SHOWN_VALUES]
        values = ", ".join(f"{value} {count}" for value, count in shown)
        output.result(f"       {printable(f'{field}: {values}')} (entropy {spread['entropy']:.2f})")


def _size(one: Mapping[str, Any]) -> str:
    documents = one.get("documents", one["size"])
    return f"{documents} documents" if documents == one["size"] else f"{one['size']} sentences of {documents} documents"


def _render_level(number: int, level: Sequence[Mapping[str, Any]]) -> None:
    for group in level:
        clusters = ", ".join(map(str, group["clusters"]))
        label = output.style(printable(group["label"]), "green")
        output.result(f"level {number}  {label}  clusters {clusters}")


def write_csv(path: Path, document: Mapping[str, Any]) -> None:
    """Write a row for every document and cluster of its; what a spreadsheet would take for a formula is quoted."""
    names = {one["cluster"]: one["label"] for one in document["clusters"]}
    table = io.StringIO()
    writer = csv.writer(table)
    divided = document["units"] is not None
    writer.writerow(["id", "cluster", "label", *(["document"] if divided else [])])
    several = document.get("places", {})
    for id, number in document["assignments"].items():
        for one in several.get(id, [number]):
            row = [escape_formula(id), one, escape_formula(names.get(one, "(fits none)"))]
            writer.writerow([*row, escape_formula(parent_of(id))] if divided else row)
    write_output(path, table.getvalue(), "--csv")
