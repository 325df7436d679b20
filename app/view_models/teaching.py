"""Describe the contents of the page on which a question is taught."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retriever.core.results import IndexingReport, Lessons
from retriever.index.teaching.examples import LEAST
from retriever_app.view_models import text

AT_ONCE = 12
"""Reviews that are asked for at a time."""
MOST_ANSWERS = 12
LONGEST = 60
"""Most characters of an answer."""

TUNE_HELP = (
    "Learns from these answers, and fine-tunes the plain reader on them too, where that helps with reviews left out; "
    "the reviews are then read again. It takes minutes, and is for questions that the model does not follow."
)
LEARN_HELP = "Learns without fine-tuning, and drops the reader that was fine-tuned for this question."
STOPPED = "The fine-tuning was stopped, and nothing was changed."

_TUNED = {
    None: "",
    True: " The plain reader was fine-tuned for this question.",
    False: " Fine-tuning did not help with reviews left out, so it was not kept.",
}


@dataclass(frozen=True, slots=True)
class TaughtQuestion:
    """A question that the page teaches.

    Attributes:
        instruction: the question.
        answers: to choose from, with commas between.
    """

    instruction: str = ""
    answers: str = ""


@dataclass(frozen=True, slots=True)
class TuningProgress:
    """How far a fine-tuning is.

    Attributes:
        sentence: what it does now, and how much of that is done.
        share: the part of that which is done, 0 to 1.
    """

    sentence: str
    share: float


TUNING_BEGINS = TuningProgress("Fine-tuning begins", 0.0)


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
    """Say how well the question is answered before and after, and what came of fine-tuning."""
    total = text.count(sum(lessons.answers.values()), "review")
    return (
        f"Learned from {total}. Of reviews left out, {lessons.after.value:.0%} get the right answer "
        f"(between {lessons.after.low:.0%} and {lessons.after.high:.0%}); before it was {lessons.before.value:.0%} "
        f"(between {lessons.before.low:.0%} and {lessons.before.high:.0%}).{_TUNED[lessons.tuned]}"
    )


def advice(lessons: Lessons) -> str:
    """Say what to do next."""
    if lessons.after.value < lessons.before.value:
        return "These answers made it no better. Answer more reviews, or forget what was taught."
    if lessons.after.low < lessons.before.value:
        return "It may be no better than before: answer more reviews to be sure."
    return "Searches and clusters under this question use it from now on."


def learn_help(lessons: Lessons | None) -> str | None:
    """Warn whoever learns from answers without fine-tuning where that takes a fine-tuning back."""
    return LEARN_HELP if lessons is not None and lessons.tuned else None


def tuning_progress(report: IndexingReport, *, tuned: bool) -> TuningProgress:
    """Say how far a fine-tuning is.

    Args:
        report: as `Index.teach` gives it.
        tuned: whether a step has been taken; what is read before that was never read under the question.
    """
    total = report.expected or 1
    doing = "Fine-tuning: step" if report.tuning else "Reading reviews again:" if tuned else "Reading reviews:"
    return TuningProgress(f"{doing} {report.in_hand:,} of {total:,}", min(1.0, report.in_hand / total))
