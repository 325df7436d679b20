"""A report to hand over: what reviews answer to a question, in findings, numbers and quotes, as HTML or Markdown.

What reviews say is hostile input. The HTML is filled by a template that escapes every value and runs no script; in the
Markdown every value is escaped so that it shows as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from retriever.clusters.arithmetic.intervals import FEW, Share, percentage
from retriever.clusters.clustering import Cluster, Clustering
from retriever.clusters.findings import amount, changes, difference_found, findings, percent, without
from retriever.clusters.index_numbers import Counted
from retriever.clusters.numbers import Comparison, GroupNumbers, Numbers
from retriever.clusters.pages import page
from retriever.clusters.quotes import Quote, quotes_of, typical_words, words_of
from retriever.clusters.references import ordinal
from retriever.clusters.report_drawings import HEIGHT, HIGH, LOW, WIDTH, Bar, Line, bar, line
from retriever.clusters.saved import SavedClustering
from retriever.core.errors import UsageError
from retriever.core.paths import write_output
from retriever.core.results import SCHEMA_VERSION
from retriever.core.types import JSON

FORMATS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_DIFFERENCES = 3  # of a group at most
_QUESTION, _BASE = "Model that answers the question", "Model that reads the texts as they are"
_FAR, _EXAMPLES = 0.2, 3  # of the scale, by which a group's mean may differ from that of as many examples or more


@dataclass(frozen=True, slots=True)
class Section:
    """One group of the report.

    Attributes:
        words: of its texts, that set it apart.
        description: what speaks against it, and its definition; empty for neither.
        right: how many of its held-out examples get the right answer; empty where it is no learned answer, or none were
            held out.
        learned: False for a category that no example has, where others have some.
        line: None where fewer than two periods have enough reviews.
        differences: those of the group that are more than chance, the surest first, by segment or period, without the
            difference that is a finding.
    """

    numbers: GroupNumbers
    words: Sequence[str]
    description: str
    right: str
    learned: bool
    quotes: Sequence[Quote]
    bar: Bar
    line: Line | None
    differences: Sequence[Comparison]


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says.

    Attributes:
        name: of the saved clustering; empty where it is not saved.
        question: the instruction; empty for none.
        where: the filter of the reviews; empty for all.
        read: what was read, and by whom.
        diagnosis: what is known of how well the question is answered.
        caution: what to know first, where there are no shares, groups may be no answers, or some were not learned;
            empty elsewhere.
        similar: whether groups may be of similar texts, and need not answer the question.
        scale: the highest rating.
        sections: the largest group first, those that were not learned last.
        models: by role, name and fingerprint.
        made: when, in UTC.
    """

    name: str
    question: str
    where: str
    numbers: Numbers
    sections: Sequence[Section]
    read: str
    diagnosis: str
    caution: str
    similar: bool
    scale: float
    models: Mapping[str, str]
    made: datetime

    @property
    def findings(self) -> list[str]:
        """The report in a few sentences, the caution first."""
        return [*filter(None, [self.caution]), *findings(self.numbers, similar=self.similar)]

    @property
    def rating_levels(self) -> tuple[str, str, str]:
        """The low ratings, those in the middle and the high ones, as the chart names them."""
        low, high = round(self.scale * LOW), round(self.scale * HIGH)
        middle = f"{low + 1}" if low + 2 == high else f"{low + 1} to {high - 1}"
        return f"up to {low}", middle, f"{high} or more"

    @property
    def checked(self) -> bool:
        """Whether held-out examples of some group were answered."""
        return any(section.right for section in self.sections)

    @property
    def limits(self) -> list[str]:
        """How the numbers are made, and what they do not say, a sentence each."""
        compared = [f"by {name}" for name in self.numbers.segments]
        compared += ["over time"] * (self.numbers.trend is not None)
        return [
            "Groups were made by a model: read some reviews of a group before you decide by it.",
            "In brackets is the 95% interval. It allows for chance in who wrote a review, not for wrong grouping.",
            *(
                ["“Right on held-out” is of examples that were not learned from; they may be clearer than others."]
                * self.checked
            ),
            "“Mean without it” is of all other reviews; it does not show a cause.",
            *(
                [
                    f"Differences {' and '.join(compared)} are listed where they are more than chance, the clearest of "
                    "each group: Fisher's exact test, corrected by Holm's method."
                ]
                * bool(compared)
            ),
            f"Shares have Wilson's interval; of fewer than {FEW} reviews in all, counts are given.",
        ]

    @property
    def changes(self) -> str:
        """The changes from the last period but one to the last; empty without both."""
        return changes(self.numbers)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return {
            "schema_version": SCHEMA_VERSION,
            "caution": self.caution,
            "name": self.name,
            "instruction": self.question,
            "where": self.where,
            "made": self.made.isoformat(timespec="seconds"),
            "models": dict(self.models),
            "read": self.read,
            "diagnosis": self.diagnosis,
            "findings": self.findings,
            "numbers": self.numbers.to_json(),
            "quotes": {
                str(ordinal(section.numbers.group)): [asdict(quote) for quote in section.quotes]
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
    nearness: Mapping[str, float] | None = None,
) -> Report:
    """Make the report of a clustering; no model is loaded for it.

    Args:
        found: the clustering.
        counted: its numbers.
        models: by role, name and fingerprint.
        where: the filter of what was counted, beside that of the clustering.
        nearness: cosine of every row with its cluster, by id, where the clustering has lost its vectors.
    """
    numbers, own = counted.numbers, found.request.where
    withheld = found.sampled is not None and found.sampled.withheld
    if withheld:
        numbers = numbers.withheld()
    elif where is None:
        numbers = _of_all_texts(found, numbers)
    numbers = numbers.without_shares([cluster.number for cluster in found.clusters if cluster.mixed])
    clusters = {cluster.number: cluster for cluster in found.clusters}
    compared = [comparison for each in numbers.segments.values() for comparison in each]
    compared += numbers.trend.latest if numbers.trend else []
    scale = counted.scale
    top = max((group.share.high for group in numbers.groups if group.share), default=1.0)
    words, said, sections = words_of(counted), difference_found(numbers), []
    doubted = mistaken(found, counted)
    similar = bool(found.division or doubted)
    for place, group in enumerate(numbers.groups):
        cluster = clusters[group.group]
        certain = [each for each in compared if each.group == group.group and each.certain and not cluster.mixed]
        more = [each for each in certain if each.difference.value > 0]
        differences = [] if similar else [each for each in more or certain if each is not said]
        sections.append(
            Section(
                numbers=group,
                words=typical_words(words.distinct[group.group], words.language),
                description=" ".join(filter(None, [cluster.alert, cluster.description])),
                right=_right(found, cluster),
                learned=cluster.label not in found.not_learned,
                quotes=quotes_of(found, cluster, counted, words, nearness),
                bar=bar(group, place, counted, scale, top),
                line=line(numbers.trend, place),
                differences=sorted(differences, key=lambda each: each.chance)[:_DIFFERENCES],
            )
        )
    sections.sort(key=lambda section: (not section.learned, -_size(section.numbers)))
    said_read = _read(found, models)
    return Report(
        name=found.name if isinstance(found, SavedClustering) else "",
        question=found.request.instruction or "",
        where=" and ".join(f"({condition})" for condition in (own and own.expression, where) if condition),
        numbers=numbers,
        sections=sections,
        read=said_read,
        diagnosis=_diagnosis(found),
        caution=" ".join(filter(None, [said_read * withheld, found.warning, doubted, found.doubts])),
        similar=similar,
        scale=scale,
        models=_models(found, models),
        made=datetime.now(UTC),
    )


def model_names(encoder: Mapping[str, JSON], plain: Mapping[str, JSON] | None) -> dict[str, str]:
    """Return the models of an index by role, as its status describes them."""
    return {
        role: f"{model.get('name') or 'without a name'}, {str(model.get('fingerprint', ''))[:12]}"
        for role, model in {_QUESTION: encoder, _BASE: plain}.items()
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
    formats = {"percent": percent, "amount": amount, "without": without, "percentage": percentage}
    return page(f"report.{kind}", report=report, width=WIDTH, height=HEIGHT, **formats)


def _models(found: Clustering, models: Mapping[str, str]) -> dict[str, str]:
    """Return the models of an index by role, as they served the question of a clustering."""
    named = dict(models)
    if found.sampled is not None:
        named[_QUESTION] = found.sampled.reader
    elif not found.request.instruction:
        named.pop(_QUESTION, None)
    return named | ({"Language model that wrote the groups": found.by} if found.by else {})


def _of_all_texts(found: Clustering, numbers: Numbers) -> Numbers:
    """Return numbers whose shares are those of all texts, as they are estimated where a sample was read."""
    sampled = found.sampled
    if sampled is None or sampled.whole or found.material.units is not None:
        return numbers
    texts = numbers.documents
    estimates = {
        number: Share(share.value, share.low, share.high, round(share.value * texts), texts)
        for number, estimate in sampled.shares.items()
        if (share := estimate.interval) is not None
    }
    groups = [replace(group, share=estimates.get(group.group, group.share)) for group in numbers.groups]
    return replace(numbers, groups=groups)


def _size(group: GroupNumbers) -> float:
    return len(group.reviews) if group.share is None else group.share.value


def _read(found: Clustering, models: Mapping[str, str]) -> str:
    """Say what was read, and by whom."""
    if found.sampled is not None:
        part = not (found.sampled.whole or found.sampled.withheld)
        basis = f" Ratings are of the {len(found.sampled.evenly)} drawn." if part else ""
        return f"{found.sampled.sentence}{basis}"
    reader = models.get(_QUESTION if found.request.instruction else _BASE) or models.get(_QUESTION, "")
    kind = "texts" if found.material.units is None else "sentences"
    by = f" by the encoder {reader.rpartition(', ')[0]}" if reader else ""
    return f"All {len(found.material.documents):,} {kind} were read{by}."


def _diagnosis(found: Clustering) -> str:
    """Say what is known of how well the question is answered; nothing where a language model or nobody was asked."""
    if found.lessons is not None:
        return found.lessons.sentence
    if found.verdict is not None:
        return found.verdict.sentence
    if found.sampled is not None or not found.request.instruction:
        return ""
    return "Nobody has checked yet whether the model follows this question; `retriever diagnose` does."


def mistaken(found: Clustering, counted: Counted) -> str:
    """Name the groups whose ratings are far from those of the examples that taught them; nothing without any."""
    documents, said = counted.groups.documents, []
    rated = {
        document.id: rating for document, rating in zip(documents, counted.ratings, strict=False) if rating is not None
    }
    for group in counted.numbers.groups:
        own = [
            rated[id]
            for id, answer in found.examples.items()
            if answer.casefold() == group.name.casefold() and id in rated
        ]
        if len(own) >= _EXAMPLES and group.stars is not None and abs(np.mean(own) - group.stars) > _FAR * counted.scale:
            said.append(f"{np.mean(own):.1f} stars in the examples of “{group.name}”, {group.stars:.1f} in the group")
    return f"The labels may be wrong, because ratings differ: {'; '.join(said)}." if said else ""


def _right(found: Clustering, cluster: Cluster) -> str:
    """Say how many held-out examples of a cluster get the right answer; nothing where it is no learned answer."""
    lessons = found.lessons
    if lessons is None or not found.named:
        return ""
    right = {answer.casefold(): amount(count, lessons.answers[answer]) for answer, count in lessons.right.items()}
    return right.get(cluster.label.casefold(), "")
