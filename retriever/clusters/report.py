"""A report to hand over: what reviews answer to a question, in numbers and quotes, as one HTML file or as Markdown.

What reviews say is hostile input. The HTML is filled by a template that escapes every value and runs no script; in the
Markdown every value is escaped so that it shows as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retriever.clusters.arithmetic.intervals import Interval, Share
from retriever.clusters.arithmetic.naming import typical_sentence
from retriever.clusters.clustering import Clustering
from retriever.clusters.index_numbers import Counted
from retriever.clusters.numbers import Comparison, GroupNumbers, Numbers, Trend
from retriever.clusters.pages import page
from retriever.clusters.references import ordinal
from retriever.clusters.saved import SavedClustering
from retriever.core.errors import UsageError
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION
from retriever.core.text import shortened
from retriever.core.types import JSON

QUOTES = 3
FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_LONGEST = 280  # characters of a quote
_WIDTH, _HEIGHT, _EDGE = 320.0, 72.0, 4.0  # of a chart


@dataclass(frozen=True, slots=True)
class Quote:
    """What a review says, in one sentence, and the review's id."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A group's share over time, as points of a drawing.

    Attributes:
        lines: the share, ``x,y x,y`` for each run of periods with reviews.
        bands: the interval around each, as a closed shape.
        top: the share at the upper edge.
        said: what it shows, for those who do not see it.
    """

    lines: Sequence[str]
    bands: Sequence[str]
    top: float
    said: str


@dataclass(frozen=True, slots=True)
class Section:
    """One group of the report.

    Attributes:
        words: what sets it apart.
        description: the sentence that came with its title or category; empty for none.
        chart: None without dates, or with those of one period.
        differences: those of the group that are more than chance, the surest first, by segment or period.
    """

    numbers: GroupNumbers
    words: Sequence[str]
    description: str
    quotes: Sequence[Quote]
    chart: Chart | None
    differences: Sequence[Comparison]


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says.

    Attributes:
        name: of the saved clustering; empty where it is not saved.
        question: the instruction; empty for none.
        where: the filter of the reviews; empty for all.
        diagnosis: what is known of whether the model follows the question.
        caution: what the groups are where they are no answers to it; empty elsewhere.
        models: by role, name and fingerprint.
        made: when, in UTC.
    """

    name: str
    question: str
    where: str
    numbers: Numbers
    sections: Sequence[Section]
    diagnosis: str
    caution: str
    models: Mapping[str, str]
    made: datetime

    @property
    def findings(self) -> list[str]:
        """The report in a few sentences."""
        return [*filter(None, [self.caution]), *_findings(self.numbers)]

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "instruction": self.question,
            "where": self.where,
            "made": self.made.isoformat(timespec="seconds"),
            "models": dict(self.models),
            "diagnosis": self.diagnosis,
            "findings": self.findings,
            "numbers": self.numbers.to_json(),
            "quotes": {
                str(ordinal(section.numbers.group)): [{"id": quote.id, "text": quote.text} for quote in section.quotes]
                for section in self.sections
            },
            "descriptions": {
                str(ordinal(section.numbers.group)): section.description
                for section in self.sections
                if section.description
            },
        }


def make_report(
    found: Clustering,
    counted: Counted,
    models: Mapping[str, str],
    *,
    where: str | None = None,
) -> Report:
    """Make the report of a clustering.

    Args:
        found: the clustering.
        counted: its numbers.
        models: by role, name and fingerprint.
        where: the filter of what was counted, beside that of the clustering.
    """
    words = {
        cluster.number: list(dict.fromkeys([*cluster.keywords, *cluster.text_keywords])) for cluster in found.clusters
    }
    central = {cluster.number: cluster.examples for cluster in found.clusters}
    descriptions = {cluster.number: cluster.description for cluster in found.clusters if cluster.description}
    named_by = ", ".join(dict.fromkeys(cluster.named_by for cluster in found.clusters if cluster.named_by))
    texts = {document.id: document.text for document in counted.groups.documents}
    texts |= {row.id: row.text for row in found.material.documents if row.parent_id in texts}  # parts say it shorter
    numbers, own = counted.numbers, found.request.where
    compared = [comparison for each in numbers.segments.values() for comparison in each]
    compared += numbers.trend.latest if numbers.trend else []
    sections = [
        Section(
            numbers=group,
            words=words[group.group],
            description=descriptions.get(group.group, ""),
            quotes=_quotes([*central[group.group], *group.reviews], texts, words[group.group]),
            chart=_chart(numbers.trend, place),
            differences=sorted(
                (each for each in compared if each.group == group.group and each.certain), key=lambda each: each.chance
            ),
        )
        for place, group in enumerate(numbers.groups)
    ]
    return Report(
        name=found.name if isinstance(found, SavedClustering) else "",
        question=found.request.instruction or "",
        where=" and ".join(f"({condition})" for condition in (own and own.expression, where) if condition),
        numbers=numbers,
        sections=sections,
        diagnosis="" if found.verdict is None else found.verdict.sentence,
        caution=" ".join(filter(None, [found.division, _basis(found)])),
        models={**models, **({"Language model that named clusters": named_by} if named_by else {})},
        made=datetime.now(UTC),
    )


def _basis(clustering: Clustering) -> str:
    """Say of which texts the numbers are, where a sample was read; nothing where all texts were."""
    sampled = clustering.sampled
    if sampled is None or sampled.whole:
        return ""
    return (
        f"The numbers are of {len(sampled.evenly)} texts that were drawn at random of {sampled.texts} and read by "
        f"{sampled.reader}."
    )


def model_names(encoder: Mapping[str, JSON], plain: Mapping[str, JSON] | None) -> dict[str, str]:
    """Return the models of an index by role, as its status describes them."""
    roles = {"Model that answers the question": encoder, "Model that reads the texts as they are": plain}
    return {
        role: f"{model.get('name') or 'without a name'}, {str(model.get('fingerprint', ''))[:12]}"
        for role, model in roles.items()
        if model is not None
    }


def write_report(path: Path, report: Report) -> None:
    """Write a report, in the format of the file's name.

    Raises:
        UsageError: the name ends like no format of reports.
        OutputError: the file cannot be written.
    """
    write_output(path, render(report, report_format(path)), "--output")


def report_format(path: Path) -> str:
    """Return the format, html or md, that a file's name ends with.

    Raises:
        UsageError: it ends like none.
    """
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        endings = ", ".join(FORMATS)
        raise UsageError(
            f"A report cannot be written as {path.name}.", hint=f"End it with one of: {endings}."
        ) from None


def render(report: Report, kind: str) -> str:
    """Return a report as a text: ``html``, a page that needs no network and runs nothing, or ``md``, Markdown."""
    formats = {"percent": percent, "points": points, "gain": gain}
    return page(f"report.{kind}", report=report, width=_WIDTH, height=_HEIGHT, **formats)


def percent(value: Share) -> str:
    """Format a share with its interval; of a few reviews, what was counted."""
    return str(value) if value.few else f"{value.value:.1%} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def points(value: Interval) -> str:
    """Format a difference of shares in percentage points, with its interval."""
    return f"{100 * value.value:+.1f} [{100 * value.low:+.1f}, {100 * value.high:+.1f}]"


def gain(value: Interval) -> str:
    """Format an impact in stars, with its interval."""
    return f"{value.value:+.2f} [{value.low:+.2f}, {value.high:+.2f}]"


def _findings(numbers: Numbers) -> list[str]:
    """Return what to know first: the largest group, what costs and what brings most stars, and what has changed."""
    said = []
    if numbers.groups:
        largest = max(numbers.groups, key=lambda group: group.share.value)
        said.append(f"The largest group is {largest.name}: {percent(largest.share)} of {numbers.documents:,} reviews.")
    sure = [(group, group.impact) for group in numbers.groups if group.impact is not None and group.impact.certain]
    for costs, verb in ((True, "costs"), (False, "brings")):
        some = [(group, effect) for group, effect in sure if (effect.value > 0) == costs]
        if some and numbers.stars is not None:
            group, effect = max(some, key=lambda each: abs(each[1].value))
            said.append(
                f"What {verb} most stars is: {group.name}. Without its reviews the mean would be "
                f"{numbers.stars + effect.value:.2f} instead of {numbers.stars:.2f} stars, {gain(effect)}."
            )
    if numbers.trend is not None and numbers.trend.latest:
        said += _changes(numbers, numbers.trend)
    if numbers.silent_reviews:
        said.append(f"{percent(numbers.silent)} of the reviews answer the question with nothing.")
    return said


def _changes(numbers: Numbers, trend: Trend) -> list[str]:
    """Return what has changed from the last period but one to the last."""
    names = {group.group: group.name for group in numbers.groups}
    between = f"from {trend.before} to {trend.periods[-1]}"
    said = [
        f"The share of {names[change.group]} has {'grown' if change.difference.value > 0 else 'shrunk'} {between}: "
        f"{change.other.value:.1%} to {change.share.value:.1%}, {points(change.difference)} points."
        for change in sorted(trend.latest, key=lambda change: change.chance)
        if change.certain
    ]
    said += [f"New in {trend.periods[-1]}: {names[group]}." for group in trend.new]
    return said or [f"No share has changed more than chance would {between}."]


def _quotes(ids: Sequence[str], texts: Mapping[str, str], words: Sequence[str]) -> list[Quote]:
    """Return a sentence of each of the first reviews that are there and say something else than those before."""
    quotes: dict[str, Quote] = {}
    for id in dict.fromkeys(ids):
        if id in texts:
            whole = shortened(texts[id], _LONGEST)
            said = shortened(typical_sentence([texts[id]], words), _LONGEST) or whole
            said = whole if said in quotes else said
            quotes.setdefault(said, Quote(id, said))
        if len(quotes) == QUOTES:
            break
    return list(quotes.values())


def _chart(trend: Trend | None, place: int) -> Chart | None:
    """Draw the shares of the group at a place of the trend's."""
    if trend is None or len(trend.periods) < 2:
        return None
    shares = trend.shares[place]
    known = [share for share in shares if share is not None]
    top = max(share.high for share in known) or 1.0
    step = (_WIDTH - 2 * _EDGE) / (len(shares) - 1)

    def at(row: int, value: float) -> str:
        return f"{_EDGE + row * step:.1f},{_HEIGHT - _EDGE - value / top * (_HEIGHT - 2 * _EDGE):.1f}"

    lines, bands = [], []
    for run in _runs(shares):
        lines.append(" ".join(at(row, share.value) for row, share in run))
        upper, lower = [at(row, share.high) for row, share in run], [at(row, share.low) for row, share in run]
        bands.append(" ".join([*upper, *reversed(lower)]))
    named = [f"{period} {share}" for period, share in zip(trend.periods, shares, strict=True) if share is not None]
    return Chart(lines, bands, top, f"Share by {trend.unit}: {', '.join(named)}")


def _runs(shares: Sequence[Interval | None]) -> list[list[tuple[int, Interval]]]:
    """Return the runs of periods that have a share, each share with its place."""
    runs: list[list[tuple[int, Interval]]] = [[]]
    for row, share in enumerate(shares):
        if share is None:
            runs.append([])
        else:
            runs[-1].append((row, share))
    return [run for run in runs if run]
