"""The numbers of a report in sentences: which group lowers and which raises the mean rating, and what has changed."""

from collections.abc import Collection, Sequence

from retriever.clusters.arithmetic.intervals import FEW, Interval, percentage
from retriever.clusters.categories import OTHER
from retriever.clusters.numbers import Comparison, GroupNumbers, Numbers
from retriever.clusters.phrases import EMPTY
from retriever.index.teaching.labels import NONE_OF_THESE

_LEAST_OF_GROUP = 10  # reviews of a group that a sentence is about
_NO_ANSWERS = frozenset({*EMPTY, OTHER, NONE_OF_THESE})  # groups that no sentence is about


def percent(share: Interval, total: int) -> str:
    """Format a share of some reviews with its interval, or as a count where these are fewer than `FEW`."""
    if total < FEW:
        return amount(share.value * total, total)
    return f"{percentage(share.value)} ({percentage(share.low)} to {percentage(share.high)})"


def amount(count: float, total: int) -> str:
    """Format a share of some reviews, or a count where these are fewer than `FEW`."""
    return f"{round(count)} of {total}" if total < FEW else percentage(count / total)


def gain(value: Interval) -> str:
    """Format a change of the mean stars, with its interval."""
    return f"{value.value:+.2f} ({value.low:+.2f} to {value.high:+.2f})"


def findings(numbers: Numbers, *, similar: bool) -> list[str]:
    """Return three sentences at most: about ratings first, then the largest change over time or between segments.

    Each is about a group of ten reviews or more, and about a difference that is more than chance.

    Args:
        numbers: of the groups.
        similar: whether groups may be of similar texts, and need not answer the question.
    """
    kind = "the group " if similar else ""
    groups = _groups(numbers)
    names = {group.group: f"{kind}“{group.name}”" for group in groups}
    said = _about_ratings(numbers, groups, names)
    if numbers.stars is None and groups and not similar:
        largest = max(groups, key=lambda group: group.share.value)
        said.append(f"{names[largest.group]} is the largest group: {_of_all(numbers, largest)}.")
    found = difference_found(numbers)
    if found is not None:
        share, other = percentage(found.share.value), percentage(found.other.value)
        if any(found is change for change in _latest(numbers)):
            grown = "grew" if found.difference.value > 0 else "shrank"
            change = f"{grown} from {other} of the reviews in {found.against} to {share} in {found.part}"
        else:
            change = f"is most frequent in {found.part}: {share} of its reviews, {other} of {found.against}"
        said.append(f"{names[found.group]} {change}.")
    return [f"{sentence[0].upper()}{sentence[1:]}" for sentence in said]


def difference_found(numbers: Numbers) -> Comparison | None:
    """Return the difference that is a finding: the largest over time, else between segments; None for none."""
    groups = {group.group for group in _groups(numbers)}
    segments = [each for by_field in numbers.segments.values() for each in by_field]
    more = [each for each in segments if each.difference.value > 0 and each.total >= FEW]
    return _largest(_latest(numbers), groups) or _largest(more, groups)


def changes(numbers: Numbers) -> str:
    """Say whether a share has changed from the last period but one to the last; nothing where these are too small."""
    latest, trend = _latest(numbers), numbers.trend
    if trend is None or not latest or any(change.certain for change in latest):
        return ""
    return f"Between {trend.before} and {latest[0].part} no share changed by more than chance."


def _groups(numbers: Numbers) -> list[GroupNumbers]:
    """Return the groups that findings are about: answers that ten reviews or more give."""
    return [
        group
        for group in numbers.groups
        if len(group.reviews) >= _LEAST_OF_GROUP and group.name.casefold() not in _NO_ANSWERS
    ]


def _about_ratings(numbers: Numbers, groups: Sequence[GroupNumbers], names: dict[int, str]) -> list[str]:
    """Return what lowers and what raises the mean rating most."""
    effects = [(group, group.impact) for group in groups if group.impact is not None]
    said = []
    for sign, verb in ((1, "lowers"), (-1, "raises")):
        sure = [(group, effect.value) for group, effect in effects if effect.certain and effect.value * sign > 0]
        if sure and numbers.stars is not None:
            group, effect = max(sure, key=lambda pair: abs(pair[1]))
            said.append(
                f"{names[group.group]} {verb} the mean rating most: {_of_all(numbers, group)}, mean {group.stars:.1f} "
                f"stars. Without them the mean would be {numbers.stars + effect:.2f} instead of {numbers.stars:.2f}."
            )
    return said or (["No group changes the mean rating by more than chance."] if len(effects) > 1 else [])


def _of_all(numbers: Numbers, group: GroupNumbers) -> str:
    return f"{percent(group.share, numbers.documents)} of the reviews"


def _latest(numbers: Numbers) -> Sequence[Comparison]:
    """Return the comparisons of the last period with the one before it, where both have `FEW` reviews."""
    trend = numbers.trend
    if trend is None or not trend.latest:
        return []
    totals = dict(zip(trend.periods, trend.totals, strict=True))
    return trend.latest if min(totals[trend.before], totals[trend.latest[0].part]) >= FEW else []


def _largest(comparisons: Sequence[Comparison], groups: Collection[int]) -> Comparison | None:
    """Return the largest difference that is more than chance, of one of the groups; None for none."""
    sure = [each for each in comparisons if each.certain and each.group in groups]
    return max(sure, key=lambda each: abs(each.difference.value), default=None)
