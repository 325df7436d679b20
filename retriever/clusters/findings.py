"""The numbers of a report in sentences: which group lowers and which raises the mean rating, and what has changed."""

from collections.abc import Collection, Sequence

from retriever.clusters.arithmetic.intervals import FEW, Interval, percentage
from retriever.clusters.numbers import Comparison, GroupNumbers, Numbers
from retriever.core.unanswered import EMPTY
from retriever.encoders.answers.categories import OTHER
from retriever.index.teaching.labels import NONE_OF_THESE

_LEAST_OF_GROUP = 10  # reviews of a group that a sentence is about
_SENTENCES = 3
_MIRRORED = 2  # groups whose effects on the mean are one fact
_NO_ANSWERS = frozenset({*EMPTY, OTHER, NONE_OF_THESE})  # groups that no sentence is about


def percent(share: Interval | None, total: int) -> str:
    """Format a share of some reviews with its interval, or as a count of fewer than `FEW`; None as a dash."""
    if share is None:
        return "\N{EN DASH}"
    if total < FEW:
        return amount(share.value * total, total)
    return f"{percentage(share.value)} ({percentage(share.low)} to {percentage(share.high)})"


def amount(count: float, total: int) -> str:
    """Format a share of some reviews, or a count where these are fewer than `FEW`."""
    return f"{round(count)} of {total}" if total < FEW else percentage(count / total)


def without(numbers: Numbers, impact: Interval) -> str:
    """Format the mean stars of all reviews but a group's, with its interval, given the group's impact."""
    low, mean, high = ((numbers.stars or 0.0) + change for change in (impact.low, impact.value, impact.high))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def findings(numbers: Numbers, *, similar: bool) -> list[str]:
    """Return three sentences at most: about ratings first, then the largest change over time or between segments.

    Each is about a group of ten reviews or more, and about a difference that is more than chance. Groups that may be of
    similar texts have no say of ratings: the sentences tell with which segments they go.

    Args:
        numbers: of the groups.
        similar: whether groups may be of similar texts, and need not answer the question.
    """
    groups = _groups(numbers)
    if similar:
        return _segments(numbers, groups)
    said = _about_ratings(numbers, groups)
    if numbers.stars is None and groups:
        largest = max(groups, key=lambda group: group.share.value if group.share else 0.0)
        said.append(f"“{largest.name}” is the largest group: {_of_all(numbers, largest)}.")
    found = difference_found(numbers)
    if found is not None:
        said.append(_difference(numbers, found))
    return said


def _segments(numbers: Numbers, groups: Sequence[GroupNumbers]) -> list[str]:
    """Return for the groups that go with a segment most how much they do."""
    known = {group.group for group in groups}
    more = {each.group: each for each in sorted(_more(numbers), key=lambda each: each.difference.value)}
    clearest = sorted(more.values(), key=lambda each: -each.difference.value)
    return [_difference(numbers, each) for each in clearest if each.group in known and each.certain][:_SENTENCES]


def _difference(numbers: Numbers, found: Comparison) -> str:
    """Say how a group's share differs."""
    name = next(group.name for group in numbers.groups if group.group == found.group)
    share, other = percentage(found.share.value), percentage(found.other.value)
    if any(found is change for change in _latest(numbers)):
        grown = "grew" if found.difference.value > 0 else "shrank"
        return f"“{name}” {grown} from {other} of the reviews in {found.against} to {share} in {found.part}."
    return f"“{name}” is most frequent in {found.part}: {share} of its reviews, {other} of {found.against}."


def _more(numbers: Numbers) -> list[Comparison]:
    """Return the comparisons of segments in which a group is more frequent than in the others."""
    segments = [each for by_field in numbers.segments.values() for each in by_field]
    return [each for each in segments if each.difference.value > 0 and each.total >= FEW]


def difference_found(numbers: Numbers) -> Comparison | None:
    """Return the difference that is a finding: the largest over time, else between segments; None for none."""
    groups = {group.group for group in _groups(numbers)}
    return _largest(_latest(numbers), groups) or _largest(_more(numbers), groups)


def changes(numbers: Numbers) -> str:
    """Say whether a share has changed from the last period but one to the last; nothing where these are too small."""
    latest, trend = _latest(numbers), numbers.trend
    if trend is None or not latest or any(change.certain for change in latest):
        return ""
    return f"Between {trend.before} and {latest[0].part} no share changed by more than chance."


def _groups(numbers: Numbers) -> list[GroupNumbers]:
    """Return the groups that findings are about: answers that ten reviews or more give, with a share."""
    return [
        group
        for group in numbers.groups
        if group.share and len(group.reviews) >= _LEAST_OF_GROUP and group.name.casefold() not in _NO_ANSWERS
    ]


def _about_ratings(numbers: Numbers, groups: Sequence[GroupNumbers]) -> list[str]:
    """Return without which groups the mean rating would be highest and lowest; of two groups, only of the first."""
    effects = [(group, group.impact) for group in groups if group.impact is not None]
    said: list[str] = []
    for sign in (1, -1):
        sure = [(group, effect.value) for group, effect in effects if effect.certain and effect.value * sign > 0]
        if sure and numbers.stars is not None and not (said and len(effects) == _MIRRORED):
            group, effect = max(sure, key=lambda pair: abs(pair[1]))
            said.append(
                f"“{group.name}” has {_of_all(numbers, group)}, and their mean is {group.stars:.1f} stars. The mean of "
                f"the others is {numbers.stars + effect:.2f}, that of all {numbers.stars:.2f}."
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
