"""`retriever numbers`: shares and impact of the groups of a saved clustering, compared by segment and over time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened

if TYPE_CHECKING:
    from retriever.clusters.index_numbers import Counted

NOTHING = "nothing"
_SNIPPET, _NAME = 160, 28  # characters
_LEAST_SHOWN = 10  # differences that are printed though they may be chance


SavedArgument = Annotated[str, typer.Argument(help="Of the saved clustering.")]
ByOption = Annotated[
    list[str] | None,
    typer.Option(help="Compare each value of this field with all other reviews: product, stars, or any; repeatable."),
]
PeriodOption = Annotated[
    str | None, typer.Option(help="Follow over time by month, quarter or year; what fits unless told.")
]
StarsOption = Annotated[str | None, typer.Option(help="Field with the ratings; recognised unless told.")]
DateOption = Annotated[str | None, typer.Option(help="Field with the dates; recognised unless told.")]
WhereOption = Annotated[str | None, typer.Option(help="Count only these reviews: \"stars <= 2 and category = 'toy'\".")]


def numbers(  # noqa: PLR0913 - one parameter per option
    name: SavedArgument,
    index: IndexOption = DEFAULT_INDEX,
    by: ByOption = None,
    period: PeriodOption = None,
    stars: StarsOption = None,
    date: DateOption = None,
    where: WhereOption = None,
    reviews: Annotated[
        str | None, typer.Option(help=f"Print the reviews of this cluster's number, or of {NOTHING}, and no numbers.")
    ] = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Count a saved clustering: shares, impact on the stars, segments and periods compared, all with 95 % intervals.

    Example: retriever numbers complaints --by product --period quarter
    """
    from retriever.clusters.groups import saved_groups
    from retriever.clusters.index_numbers import NumbersRequest, numbers_of
    from retriever.clusters.periods import period_unit
    from retriever.workspace import Index

    unit = None if period is None else period_unit(period)
    line = output.ProgressLine()
    with Index(index, device=device) as opened:
        groups = saved_groups(opened.saved_clustering(name, progress=line.show))
        counted = numbers_of(opened, groups, NumbersRequest(tuple(by or ()), unit, stars, date, where))
    line.close()
    if reviews is not None:
        _reviews(counted, reviews, json=json)
        return
    document = {"name": name, "where": where, **counted.numbers.to_json()}
    if json:
        output.document(document)
    else:
        render(document)


def _reviews(counted: "Counted", cluster: str, *, json: bool) -> None:
    """Print the reviews of a cluster."""
    from retriever.core.schema import SCHEMA_VERSION

    groups = counted.groups
    known = {str(number): members for number, members in zip(groups.numbers, groups.members, strict=True)}
    if cluster not in known and cluster != NOTHING:
        raise UsageError(f"There is no cluster {cluster!r}.", hint=f"Give one of: {', '.join([*known, NOTHING])}.")
    rows = (groups.silent if cluster == NOTHING else known[cluster]).nonzero()[0].tolist()
    found = [groups.documents[row] for row in rows]
    if json:
        texts = [{"id": one.id, "text": one.text, "metadata": dict(one.metadata)} for one in found]
        output.document({"schema_version": SCHEMA_VERSION, "cluster": cluster, "reviews": texts})
        return
    for one in found:
        output.result(f"{output.style(printable(one.id), 'green')}  {shortened(one.text, _SNIPPET)}")
    output.say(f"{len(found)} reviews.")


def render(document: Mapping[str, Any]) -> None:
    """Print numbers, as their JSON object has them."""
    names = {one["cluster"]: shortened(one["label"], _NAME) for one in document["clusters"]}
    rows = [
        [
            one["cluster"],
            names[one["cluster"]],
            one["size"],
            _percent(one["share"]),
            "-" if one["stars"] is None else f"{one['stars']:.2f}",
            "-" if one["impact"] is None else _gain(one["impact"]),
        ]
        for one in document["clusters"]
    ]
    output.table(["", "cluster", "reviews", "share", "stars", "impact"], rows)
    mean = "" if document["stars"] is None else f", mean {document['stars']:.2f} stars of {document['rated']}"
    silent = document["silent"]
    output.say(
        f"{document['documents']} reviews{mean}. {len(silent['reviews'])} ({_percent(silent['share'])}) answer with "
        "nothing."
    )
    for field, compared in document["segments"].items():
        _render_compared(f"by {field}", compared, names, "all others")
    if document["trend"] is not None:
        _render_trend(document["trend"], names)


def _render_trend(trend: Mapping[str, Any], names: Mapping[int, str]) -> None:
    output.result()
    rows = [
        [period, total, *("-" if each[place] is None else f"{each[place]['value']:.1%}" for each in _columns(trend))]
        for place, (period, total) in enumerate(zip(trend["periods"], trend["totals"], strict=True))
    ]
    output.table([trend["unit"], "reviews", *map(str, trend["shares"])], rows)
    if trend["latest"]:
        _render_compared(f"{trend['last']} against {trend['before']}", trend["latest"], names, trend["before"])
    if trend["new"]:
        output.say(f"New in {trend['last']}: {printable(', '.join(names[one] for one in trend['new']))}.")


def _columns(trend: Mapping[str, Any]) -> list[Sequence[Any]]:
    return list(trend["shares"].values())


def _render_compared(title: str, compared: Sequence[Mapping[str, Any]], names: Mapping[int, str], other: str) -> None:
    """Print differences, the surest first: those that are more than chance, and some that may not be."""
    ordered = sorted(compared, key=lambda one: (one["chance"], -abs(one["difference"]["value"])))
    certain = sum(one["certain"] for one in compared)
    output.result()
    rows = [
        [
            "*" if one["certain"] else "",
            shortened(one["part"], _NAME),
            names[one["cluster"]],
            f"{one['size']} of {one['total']}",
            _percent(one["share"]),
            f"{one['other']['value']:.1%}",
            _percent(one["difference"], signed=True),
        ]
        for one in ordered[: max(certain, _LEAST_SHOWN)]
    ]
    output.table(["", title, "cluster", "reviews", "share", other, "difference"], rows)
    output.say(f"{certain} of {len(compared)} differences are more than chance (*), corrected for their number (Holm).")


def _percent(value: Mapping[str, float], *, signed: bool = False) -> str:
    """Format a share with its interval."""
    sign = "+" if signed else ""
    return f"{value['value']:{sign}.1%} [{100 * value['low']:{sign}.1f}, {100 * value['high']:{sign}.1f}]"


def _gain(value: Mapping[str, float]) -> str:
    return f"{value['value']:+.2f} [{value['low']:+.2f}, {value['high']:+.2f}]"
