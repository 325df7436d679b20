"""Say whether the model follows an instruction, for whoever asks under it."""

from dataclasses import dataclass

from retriever.core.results import Lessons
from retriever.core.verdicts import Verdict
from retriever_app.view_models import text

ICONS = {"followed": ":material/check_circle:", "unclear": ":material/help:", "hardly": ":material/warning:"}


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The line beside a question.

    Attributes:
        icon: before it.
        sentence: whether the question is followed, and what to do.
        answers: what that rests on.
        link: what the link to where the question is taught says; empty where there is nothing to teach.
    """

    icon: str
    sentence: str
    answers: str
    link: str = ""


def line(found: Verdict) -> VerdictLine:
    """Describe a verdict in one line."""
    looked = f"Looked at {text.count(found.texts, 'review')}"
    answers = found.words()
    return VerdictLine(
        ICONS[found.level],
        found.saying,
        f"{looked}; the model answers most often: {answers}."
        if answers
        else f"{looked}; the model answers in no words.",
        "Teach it" if found.warns else "",
    )


def taught_line(lessons: Lessons) -> VerdictLine:
    """Describe in one line how well a question is answered that was taught."""
    after, tuned = lessons.after, ", with a reader fine-tuned for it" if lessons.tuned else ""
    return VerdictLine(
        ":material/school:",
        f"This question was taught by {text.count(sum(lessons.answers.values()), 'review')}{tuned}: "
        f"of reviews left out, {after.value:.0%} get the right answer.",
        f"Between {after.low:.0%} and {after.high:.0%}. Answers: {text.listed(list(lessons.answers))}.",
        "Teach it more",
    )
