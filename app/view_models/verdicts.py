"""Say whether the model follows an instruction, for whoever asks under it."""

from dataclasses import dataclass

from retriever.core.verdicts import Verdict
from retriever_app.view_models import text

ICONS = {"followed": ":material/check_circle:", "unclear": ":material/help:", "hardly": ":material/warning:"}


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """The line beside a question: an icon, one sentence with what to do, and the answers it rests on."""

    icon: str
    sentence: str
    answers: str


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
    )
