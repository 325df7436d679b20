"""What the page Teach shows: the answers to choose from, what is still needed, and what was learned."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retriever.core.results import IndexingReport, Lessons
from retriever.index.teaching.examples import LEAST
from retriever_app import text
from retriever_app.background import Progress

AT_ONCE = 12
"""Reviews that are shown at a time."""
MOST_ANSWERS = 12
LONGEST = 60
"""Most characters of an answer."""

TUNE_HELP = (
    "Learns from these answers and also fine-tunes the base encoder on them, where that helps on held-out reviews; "
    "the reviews are then read again. It takes minutes, and is for questions that the model does not follow."
)
LEARN_HELP = "Learns without fine-tuning, and drops the encoder that was fine-tuned for this question."

_TUNED = {
    None: "",
    True: " The base encoder was fine-tuned for this question.",
    False: " Fine-tuning did not help on held-out reviews, so it was not kept.",
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


def choices(written: str, given: Iterable[str] = ()) -> list[str]:
    """Return the answers to choose from: those written, then those already given, each once."""
    named = (" ".join(answer.split())[:LONGEST] for answer in written.split(","))
    options: dict[str, str] = {}
    for answer in [*filter(None, named), *given]:
        options.setdefault(answer.casefold(), answer)
    return list(options.values())[:MOST_ANSWERS]


def lacking(answers: Mapping[str, str], options: Iterable[str]) -> str:
    """Say what is still needed before there is something to learn from; empty where nothing is."""
    counts = Counter(answers.values())
    wanted = [answer for answer in options if counts[answer]] or list(options)
    if len(wanted) < 2:
        return f"Two answers are needed, with {LEAST} reviews or more each."
    few = [f"{LEAST - counts[answer]} more for “{answer}”" for answer in wanted if counts[answer] < LEAST]
    return f"{text.listed(few)}." if few else ""


def counted(answers: Mapping[str, str], options: Iterable[str]) -> str:
    """Say how many reviews have which answer, and which answers have none and so are not learned."""
    counts = Counter(answers.values())
    if not counts:
        return "No answers yet"
    unused = [f"“{answer}”" for answer in options if not counts[answer]]
    given = ", ".join(f"{answer}: {count}" for answer, count in counts.most_common())
    return f"{given}. No review has {text.listed(unused)}, so the model does not learn it." if unused else given


def learned(lessons: Lessons) -> str:
    """Say how well the question is answered before and after, and what came of fine-tuning."""
    total = text.count(sum(lessons.answers.values()), "review")
    return (
        f"Learned from {total}. Of held-out reviews, {lessons.after.value:.0%} get the right answer "
        f"(between {lessons.after.low:.0%} and {lessons.after.high:.0%}); before it was {lessons.before.value:.0%} "
        f"(between {lessons.before.low:.0%} and {lessons.before.high:.0%}).{_TUNED[lessons.tuned]}"
    )


def advice(lessons: Lessons) -> str:
    """Say what to do next."""
    if lessons.after.value < lessons.before.value:
        return "These answers did not improve it. Answer more reviews, or undo the teaching."
    if lessons.after.low < lessons.before.value:
        return "It may be no better than before: answer more reviews to be sure."
    return "Searches and clusters under this question now use it."


def tuning_progress(report: IndexingReport, *, tuned: bool) -> Progress:
    """Return how far a fine-tuning is.

    Args:
        report: as `index.teaching.teach` gives it.
        tuned: whether a step has been taken; what is read before that was never read under the question.
    """
    total = report.expected or 1
    doing = "Fine-tuning: step" if report.tuning else "Reading reviews again:" if tuned else "Reading reviews:"
    return Progress(f"{doing} {report.in_hand:,} of {total:,}", min(1.0, report.in_hand / total))
