"""The contents of the page Groups: what a link asks for, cards, the points and names of the map, rows to download."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.clusters.arithmetic.intervals import Interval
from retriever.clusters.clustering import Cluster, Clustering
from retriever.clusters.index_numbers import Counted
from retriever.clusters.map import middle_of
from retriever.clusters.numbers import GroupNumbers
from retriever.clusters.quotes import quotes_of, typical_words, words_of
from retriever.clusters.references import NONE
from retriever.clusters.saved import SavedClustering
from retriever.core.fields import values_by_name
from retriever.core.periods import all_periods, period_of
from retriever.core.types import Document
from retriever.index.profiling import Columns, iso_date, star_value
from retriever_app import text
from retriever_app.charts import Colours

_TIP = 140
_STARS = (5, 10)  # scales of ratings


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
class GroupCard:
    """A group as a card.

    Attributes:
        size: how many reviews, which share of all, their stars, and how many are new.
        figures: the share and the impact on the stars, each with its interval; no share where the name does not hold.
        quotes: what they typically say.
        words: what sets their texts apart.
        more: a query whose hits are more of it, read as they are needed; empty where all reviews were read.
    """

    group: Cluster
    size: str
    figures: str
    tally: Tally
    quotes: Sequence[str]
    words: str
    more: str


def headline(found: Clustering) -> str:
    """Describe how many groups there are of how many reviews, and how they came about."""
    reviews = text.count(len(set(found.material.parents)), "review")
    if found.material.units is not None:
        reviews = f"{text.count(found.material.units, 'sentence')} of {reviews}"
    groups = text.count(len(found.clusters), "group")
    outside = sum(all(number == NONE for number in numbers) for numbers in found.topics.values())
    groups += f", {outside:,} in none" if outside else ""
    if found.sampled is not None:
        written = f" that {found.by} wrote" if found.by else ""
        said = re.sub(r": use `--read \w+`", "", found.sampled.sentence)  # a button of the page reads more
        return f"{said} They are in {groups}{written}."
    said = f"{reviews} in {groups}"
    if found.made == "lessons":
        return f"{said}, by the answers that were taught."
    if found.choice is None:
        return f"{said}."
    if not found.choice.curve:
        return f"{said}: they are too few, or too similar, for more."
    sure = found.choice.holds and not found.division
    return f"{said}. This number is stable." if sure else f"{said}."


def other_numbers(found: Clustering) -> list[int]:
    """Return the other numbers of groups to choose from, where the number was chosen."""
    ladder = () if found.choice is None else found.choice.ladder
    return [number for number in ladder if number != len(found.clusters)]


def in_order(found: Clustering) -> list[Cluster]:
    """Return the groups, the largest first, and last those of reviews that do not answer."""
    return sorted(found.clusters, key=lambda group: (group.empty, -group.documents, group.number))


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
) -> list[GroupCard]:
    """Return all groups as cards, in the order of the page.

    Args:
        found: the groups.
        sides: (n,) of every row.
        counted: those of the rows that pass, as whole reviews.
        passing: (n,) the rows that are shown.
        nearness: (n,) of every row to its group's centre.
    """
    withheld = found.sampled is not None and found.sampled.withheld
    numbers = counted.numbers.withheld() if withheld else counted.numbers
    numbers = numbers.without_shares([group.number for group in found.clusters if group.mixed])
    by_number = {each.group: each for each in numbers.groups}
    words, near = words_of(counted), dict(zip(found.assignments, nearness.tolist(), strict=True))
    result = []
    for group in in_order(found):
        inside = _members(found, group.number) & passing & drawn_evenly(found)
        interval = _share_of_all(found, group, by_number[group.number], everything=bool(passing.all()))
        tally = _tally(found, sides, inside)
        result.append(
            GroupCard(
                group=group,
                size=_size(found, group, by_number[group.number], interval, int(inside.sum()), tally.mean),
                figures=figures(by_number[group.number], interval),
                tally=tally,
                quotes=[quote.text for quote in quotes_of(found, group, counted, words, near)],
                words=", ".join(typical_words(words.distinct[group.number], words.language)),
                more="" if found.sampled is None or found.sampled.whole or group.empty else group.label,
            )
        )
    return result


def _members(found: Clustering, number: int) -> NDArray[np.bool_]:
    """Return (n,) which rows are in a group."""
    return np.array([number in found.places[document.id] for document in found.material.documents], dtype=bool)


def _share_of_all(found: Clustering, group: Cluster, numbers: GroupNumbers, *, everything: bool) -> Interval | None:
    """Return a group's share of all reviews; None where nothing can be said, or its name does not hold."""
    if group.mixed or found.sampled is None or found.sampled.whole or not everything:
        return numbers.share
    estimate = found.sampled.shares.get(group.number)
    return None if estimate is None else estimate.interval


def _tally(found: Clustering, sides: Sides, inside: NDArray[np.bool_]) -> Tally:
    """Count the stars and months of the reviews of some rows (n,), each review once."""
    first = {found.material.parents[row]: row for row in reversed(np.flatnonzero(inside).tolist())}
    rated = [rating for row in first.values() if (rating := sides.stars[row]) is not None]
    ratings = Counter(int(rating + 0.5) for rating in rated)
    months = Counter(period_of(day, "month") for row in first.values() if (day := sides.days[row]))
    return Tally(
        ratings={rating: ratings[rating] for rating in scale_of(sides.stars)},
        mean=sum(rated) / len(rated) if rated else None,
        months={month: months[month] for month in all_periods(filter(None, sides.days), "month")},
    )


def _size(
    found: Clustering,
    group: Cluster,
    numbers: GroupNumbers,
    interval: Interval | None,
    rows: int,
    stars: float | None,
) -> str:
    said = text.count(len(numbers.reviews), "review")
    if found.material.units is not None:
        said = f"{text.count(rows, 'sentence')} of {said}"
    sampled, share = found.sampled, "" if numbers.share is None else str(numbers.share)
    if sampled is not None and not sampled.whole:
        said = f"{said} {'that were read' if sampled.withheld else 'of the random sample'}"
        share = "too few reviews for a share" if interval is None else f"about {interval.value:.0%} of all"
    new = len(set(found.new).intersection(found.members(group.number))) if isinstance(found, SavedClustering) else 0
    parts = [said, "" if group.mixed else share, "" if stars is None else f"{stars:.1f} {text.STAR}"]
    return " · ".join(filter(None, [*parts, f"{new:,} new" if new else ""]))


def figures(numbers: GroupNumbers, interval: Interval | None) -> str:
    """Describe a group's share and what the mean stars of all would be without it, each with its 95 % interval.

    The interval is that of the share; None where too few reviews were read to tell.
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
    fields = [values_by_name(document.metadata) for document in documents]
    products = [values.get(columns.product) for values in fields]
    return Sides(
        [star_value(values.get(columns.stars)) for values in fields],
        [iso_date(values.get(columns.date)) for values in fields],
        [None if product is None else str(product) for product in products],
    )


def scale_of(stars: Iterable[float | None]) -> list[int]:
    """Return the whole ratings of the scale that some stars are of, the most first; none without stars."""
    known = [rating for rating in stars if rating is not None]
    if not known:
        return []
    most = next(top for top in (*_STARS, round(max(known))) if max(known) <= top)
    return list(range(most, 0 if min(known) >= 1 else -1, -1))


def points(found: Clustering, places: NDArray[np.float32]) -> dict[str, Any]:
    """Return the columns of the map's points; a point's group is its place among the map's marks."""
    place = {group.number: row for row, group in enumerate(found.clusters)}
    return {
        "x": places[:, 0],
        "y": places[:, 1],
        "cluster": np.array([place.get(number, len(place)) for number in found.labels.tolist()], dtype=np.int32),
        "review": [text.beginning(document.text, _TIP) for document in found.material.documents],
    }


def marks(found: Clustering, places: NDArray[np.float32], colours: Colours) -> list[dict[str, Any]]:
    """Build the map's mark of every group, its name in the middle of its points, and one of those in no group."""
    labels, known = found.labels, [group.number for group in found.clusters]
    result = []
    for group in found.clusters:
        looks = {"colour": colours.of(group.number), "shape": colours.shape(group.number), "number": group.number}
        result.append({"label": group.label, **looks, **middle_of(places[labels == group.number])})
    outside = places[~np.isin(labels, known)]
    if len(outside):
        looks = {"colour": colours.quiet, "shape": "circle", "number": NONE}
        result.append({"label": "no group", **looks, **middle_of(outside)})
    return result


def rows(found: Clustering, chosen: Sequence[int]) -> list[dict[str, object]]:
    """Return the reviews of some rows as those of a table to take away."""
    names, material = {group.number: group.label for group in found.clusters}, found.material
    result: list[dict[str, object]] = []
    for row in chosen:
        document = material.documents[row]
        inside = [names[number] for number in found.places[document.id] if number in names]
        own: dict[str, object] = {
            "id": document.id,
            "group": ", ".join(inside),
            "words": ", ".join(material.answers[row]),
            "text": document.text,
        }
        fields = {f"field {name}" if name in own else name: value for name, value in document.metadata.items()}
        result.append(own | fields)
    return result


def names_of(found: Clustering, chosen: Sequence[int]) -> str:
    """Name some groups."""
    return text.listed([group.label for group in in_order(found) if group.number in chosen])
