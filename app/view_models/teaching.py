"""Describe the contents of the page on which a question is taught."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retriever.core.results import Lessons
from retriever.index.teaching.examples import LEAST
from retriever_app.view_models import text

AT_ONCE = 12
"""Reviews that are asked for at a time."""
MOST_ANSWERS = 12
LONGEST = 60
"""Most characters of an answer."""


@dataclass(frozen=True, slots=True)
class TaughtQuestion:
    """A question that the page teaches.

    Attributes:
        instruction: the question.
        answers: to choose from, with commas between.
    """

    instruction: str = ""
    answers: str = ""


def choices(written: str, given: Iterable[str] = ()) -> list[str]:
    """Return the answers to choose from: those written, then those already given, each once."""
    named = (" ".join(one.split())[:LONGEST] for one in written.split(","))
    found: dict[str, str] = {}
    for one in [*filter(None, named), *given]:
        found.setdefault(one.casefold(), one)
    return list(found.values())[:MOST_ANSWERS]


def lacking(answers: Mapping[str, str], options: Iterable[str]) -> str:
    """Say what is still needed before there is something to learn from; empty where nothing is."""
    counts = Counter(answers.values())
    wanted = [one for one in options if counts[one]] or list(options)
    if len(wanted) < 2:
        return f"Two answers are needed, with {LEAST} reviews or more each."
    few = [f"{LEAST - counts[one]} more for “{one}”" for one in wanted if counts[one] < LEAST]
    return f"{text.listed(few)}." if few else ""


def counted(answers: Mapping[str, str]) -> str:
    """Say how many reviews have which answer."""
    counts = Counter(answers.values())
    return ", ".join(f"{answer}: {count}" for answer, count in counts.most_common()) or "None yet"


def learned(lessons: Lessons) -> str:
    """Say how well the question is answered before and after."""
    total = text.count(sum(lessons.answers.values()), "review")
    return (
        f"Learned from {total}. Of reviews left out, {lessons.after.value:.0%} get the right answer "
        f"(between {lessons.after.low:.0%} and {lessons.after.high:.0%}); before it was {lessons.before.value:.0%} "
        f"(between {lessons.before.low:.0%} and {lessons.before.high:.0%})."
    )


def advice(lessons: Lessons) -> str:
    """Say what to do next."""
    if lessons.after.value < lessons.before.value:
        return "These answers made it no better. Answer more reviews, or forget what was taught."
    if lessons.after.low < lessons.before.value:
        return "It may be no better than before: answer more reviews to be sure."
    return "Searches and clusters under this question use it from now on."
