"""What the page Groups shows: what a link asks for, cards, the points and names of the map, rows to download."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.intervals import Interval
from retriever.clusters.budget import BUDGET
from retriever.clusters.clustering import Cluster, Clustering
from retriever.clusters.index_numbers import Counted
from retriever.clusters.map import middle_of
from retriever.clusters.numbers import GroupNumbers
from retriever.clusters.quotes import quotes_of, typical_words, words_of
from retriever.clusters.references import ordinal
from retriever.core.fields import values_by_name
from retriever.core.types import Document
from retriever.index.profiling import Columns, iso_date, star_value
from retriever_app import text
from retriever_app.charts import Colours

MOST_GROUPS = 35
MOST_READ = 10_000_000
DEEPEST = 5  # times that one may look closer at a part
AT_ONCE = 60  # reviews that are read without asking first
QUOTE = 120  # characters
_TIP = 140
_STARS = (5, 10)  # scales of ratings


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a clustering.

    Attributes:
        groups: clusters asked for; 0 for the number that sets them most apart.
        clusters: the numbers of those chosen; empty for all.
    """

    instruction: str = ""
    groups: int = 0
    clusters: tuple[int, ...] = ()

    def spell(self) -> str:
        """Return the part as a text that `read_part` reads."""
        parts = [self.instruction, self.groups, self.clusters]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Ask:
    """One clustering that is wanted.

    Attributes:
        groups: how many; 0 for the number that sets them most apart.
        where: a filter over metadata that all reviews pass.
        read: texts to read, where a language model reads the instruction.
        within: the parts looked closer at, from all reviews down to what is clustered.
    """

    instruction: str = ""
    groups: int = 0
    where: str | None = None
    read: int = BUDGET
    within: tuple[Part, ...] = ()

    @property
    def parent(self) -> "Ask":
        """The clustering that the last part is of."""
        part = self.within[-1]
        return replace(self, instruction=part.instruction, groups=part.groups, within=self.within[:-1])

    @property
    def nested(self) -> "list[Ask]":
        """The clustering with those that it is within, itself first."""
        return [self, *(self.parent.nested if self.within else [])]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The state of the page.

    Attributes:
        groups: how many; 0 for the number that sets them most apart.
        show: one clustering on a map, or saved ones.
        read: texts to read, where a language model reads the instruction.
        within: the parts looked closer at, spelled.
        saved: the name of the saved clustering that is shown.
        before: the earlier of two periods that saved clusters are compared in, as 2024-05, 2024-Q2 or 2024.
        after: the later one.
    """

    instruction: str = ""
    groups: int = 0
    show: Literal["map", "saved"] = "map"
    read: int = BUDGET
    saved: str = ""
    within: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()
    before: str = ""
    after: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", min(max(self.groups, 0), MOST_GROUPS))
        object.__setattr__(self, "read", min(max(self.read, 1), MOST_READ))
        object.__setattr__(self, "within", tuple(spelled for spelled in self.within if read_part(spelled))[:DEEPEST])

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts looked closer at."""
        return tuple(part for part in map(read_part, self.within) if part)

    @property
    def chosen(self) -> Part:
        """The part that is chosen of the clustering on the page."""
        return Part(self.instruction.strip(), self.groups, self.clusters)

    def ask(self, where: str | None) -> Ask:
        """Return the clustering the page is about, under a filter."""
        return Ask(self.instruction.strip(), self.groups, where, self.read, self.parts)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of some reviews by their metadata.

    Attributes:
        ratings: reviews by whole stars, all of the scale, the most stars first; empty without ratings.
        mean: mean stars; None without ratings.
        months: reviews by month as 2024-05, oldest first, none left out; empty without dates.
    """

    ratings: Mapping[int, int]
    mean: float | None
    months: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sides:
    """Of every review of a clustering its stars, its day as 2024-05-31 and its product; None where it has none."""

    stars: Sequence[float | None]
    days: Sequence[str | None]
    products: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """A cluster as a card.

    Attributes:
        name: its number for people, and its label.
        size: how many reviews, which share of all, their stars.
        figures: the share and the impact on the stars, each with its interval.
        quotes: what they typically say.
        words: what sets their texts apart.
        more: a query whose hits are more of it, read as they are needed; empty where all reviews were read.
    """

    number: int
    name: str
    size: str
    figures: str
    tally: Tally
    quotes: Sequence[str]
    words: str
    more: str


def read_part(spelled: str) -> Part | None:
    """Return the part a text spells, or None where it spells none."""
    try:
        instruction, groups, clusters = json.loads(spelled)
        part = Part(str(instruction), int(groups), tuple(map(int, clusters)))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return part if part.clusters else None


def name_of(cluster: Cluster) -> str:
    """Return a cluster's name: its number, from 1, and its label."""
    return f"{ordinal(cluster.number)} {cluster.label}"


def headline(found: Clustering) -> str:
    """Describe how many clusters there are of how many reviews, and who chose their number."""
    reviews = text.count(len(set(found.material.parents)), "review")
    if found.material.units is not None:
        reviews = f"{text.count(found.material.units, 'sentence')} of {reviews}"
    if found.sampled is not None:
        return f"{found.sampled.sentence} They are in {text.count(len(found.clusters), 'cluster')}."
    said = f"{reviews} in {text.count(len(found.clusters), 'cluster')}"
    if found.choice is None:
        return f"{said}, by the answers that were taught." if found.named else f"{said}."
    if not found.choice.curve:
        return f"{said}: they are too few, or too similar, for more."
    sure = found.choice.holds and not found.division
    return f"{said}. This number separates them best and is stable." if sure else f"{said}."


def drawn_evenly(found: Clustering) -> NDArray[np.bool_]:
    """Return the rows (n,) that stand for all reviews: all of them, or those drawn; all that were read without any."""
    if found.sampled is None or found.sampled.whole or found.sampled.withheld:
        return np.ones(len(found.material.documents), dtype=bool)
    return np.array([parent in found.sampled.evenly for parent in found.material.parents], dtype=bool)


def cards(
    found: Clustering,
    sides: Sides,
    counted: Counted,
    passing: NDArray[np.bool_],
    nearness: NDArray[np.float32],
) -> list[ClusterCard]:
    """Return all clusters as cards, the largest first.

    Args:
        found: the clusters.
        sides: of every row.
        counted: those of the rows that pass, as whole reviews.
        passing: (n,) the rows that are shown.
        nearness: (n,) of every row to its cluster's centre.
    """
    scale, months = scale_of(sides.stars), months_of(sides.days)
    material, labels = found.material, found.labels
    once = np.zeros(len(labels), dtype=bool)
    once[material.once(labels.tolist())] = True  # a review counts once in a cluster
    counting = passing & drawn_evenly(found)
    sampled = None if found.sampled is None or found.sampled.whole else found.sampled
    result = []
    shown = counted.numbers if sampled is None or not sampled.withheld else counted.numbers.withheld()
    words, near = words_of(counted), dict(zip(found.assignments, nearness.tolist(), strict=True))
    for cluster, numbers in zip(found.clusters, shown.groups, strict=True):
        inside = (labels == cluster.number) & counting
        rows = np.flatnonzero(inside & once).tolist()
        tally = tally_of([sides.stars[row] for row in rows], [sides.days[row] for row in rows], scale, months)
        interval: Interval | None = numbers.share
        if sampled is not None and passing.all():
            interval = sampled.shares[cluster.number].interval
        share = str(numbers.share)
        if sampled is not None:
            share = "too few reviews for a share" if interval is None else f"about {interval.value:.0%} of all"
        mean = "" if tally.mean is None else f"{tally.mean:.1f} {text.STAR}"
        said = text.count(len(numbers.reviews), "review")
        if material.units is not None:
            said = f"{text.count(int(inside.sum()), 'sentence')} of {said}"
        if sampled is not None:
            said = f"{said} {'that were read' if sampled.withheld else 'of the random sample'}"
        size = " · ".join(filter(None, [said, share, mean]))
        said = figures(numbers, interval)
        more = "" if sampled is None else cluster.label
        quotes = [quote.text for quote in quotes_of(found, cluster, counted, words, near)]
        typical = ", ".join(typical_words(words.distinct[cluster.number]))
        result.append(ClusterCard(cluster.number, name_of(cluster), size, said, tally, quotes, typical, more))
    return result


def figures(numbers: GroupNumbers, interval: Interval | None) -> str:
    """Describe a group's share and what the mean stars of all would be without it, each with its 95 % interval.

    Args:
        numbers: of the group.
        interval: its share of all; None where too few reviews were read to tell.
    """
    share = "" if interval is None else f"Share {round(100 * interval.low)} to {round(100 * interval.high)} %"
    if numbers.impact is None:
        return share
    effect = numbers.impact
    sure = "" if effect.certain else "; this may be chance"
    change = (
        f"Without these reviews the mean rating would change by {effect.value:+.2f} {text.STAR} "
        f"({effect.low:+.2f} to {effect.high:+.2f}){sure}"
    )
    return ". ".join(filter(None, [share, change]))


def read_sides(documents: Iterable[Document], columns: Columns) -> Sides:
    """Read of every document what the charts count."""
    stars: list[float | None] = []
    days: list[str | None] = []
    products: list[str | None] = []
    for document in documents:
        values = values_by_name(document.metadata)
        stars.append(star_value(values.get(columns.stars)))
        days.append(iso_date(values.get(columns.date)))
        product = values.get(columns.product)
        products.append(None if product is None else str(product))
    return Sides(stars, days, products)


def scale_of(stars: Iterable[float | None]) -> list[int]:
    """Return the whole ratings of the scale that some stars are of, the most first; none without stars."""
    known = [rating for rating in stars if rating is not None]
    if not known:
        return []
    most = next(top for top in (*_STARS, round(max(known))) if max(known) <= top)
    return list(range(most, 0 if min(known) >= 1 else -1, -1))


def months_of(days: Iterable[str | None]) -> list[str]:
    """Return every month from the first to the last day, as 2024-05."""
    known = [day[:7] for day in days if day]
    if not known:
        return []
    months = np.arange(np.datetime64(min(known)), np.datetime64(max(known)) + 1)
    return [str(month) for month in months]


def tally_of(
    stars: Sequence[float | None], days: Sequence[str | None], scale: Sequence[int], months: Sequence[str]
) -> Tally:
    """Count the stars and days of some reviews, on a scale and over months."""
    known = [rating for rating in stars if rating is not None]
    ratings = Counter(int(rating + 0.5) for rating in known)
    written = Counter(day[:7] for day in days if day)
    return Tally(
        ratings={rating: ratings[rating] for rating in scale},
        mean=sum(known) / len(known) if known else None,
        months={month: written[month] for month in months},
    )


def points(found: Clustering, places: NDArray[np.float32]) -> dict[str, Any]:
    """Return the columns of the map's points."""
    return {
        "x": places[:, 0],
        "y": places[:, 1],
        "cluster": found.labels.astype(np.int32),
        "review": [short(document.text, _TIP) for document in found.material.documents],
    }


def marks(found: Clustering, places: NDArray[np.float32], colours: Colours) -> list[dict[str, Any]]:
    """Build the map's mark of every cluster: its name, in the middle of its points, their colour and shape."""
    labels = found.labels
    result = []
    for cluster in found.clusters:
        looks = {"colour": colours.of(cluster.number), "shape": colours.shape(cluster.number)}
        result.append({"label": name_of(cluster), **looks, **middle_of(places[labels == cluster.number])})
    return result


def rows(found: Clustering, chosen: Sequence[int]) -> list[dict[str, object]]:
    """Return the reviews of some rows as those of a table to take away."""
    labels, material = found.labels, found.material
    result: list[dict[str, object]] = []
    for row in chosen:
        document, number = material.documents[row], int(labels[row])
        own: dict[str, object] = {
            "id": document.id,
            "cluster": ordinal(number),
            "cluster name": found.clusters[number].label,
            "words": ", ".join(material.answers[row]),
            "text": document.text,
        }
        fields = {f"field {name}" if name in own else name: value for name, value in document.metadata.items()}
        result.append(own | fields)
    return result


def part_name(found: Clustering, part: Part) -> str:
    """Name a part of a clustering."""
    return text.listed([name_of(cluster) for cluster in found.clusters if cluster.number in part.clusters])


def short(value: str, most: int) -> str:
    """Return the beginning of a text on one line, cut between words."""
    line = " ".join(value.split())
    return line if len(line) <= most else f"{line[:most].rsplit(' ', 1)[0]} …"
