"""How long the reading of reviews will take, by the last time that this took with an index; nothing is assumed."""

from collections.abc import Iterable

from retriever.core.results import IndexStatus
from retriever.index.completing import judging_cost
from retriever_app.text import about

LEAST_TEXTS = 30  # of a run that tells how long a text takes


def seconds_a_text(statuses: Iterable[IndexStatus], *, instruction: bool) -> float | None:
    """Return the seconds that a text took, under an instruction or as it is, the last time that enough were read.

    None where that was never measured in any of the indexes.
    """
    for status in statuses:
        cheap = {str(view.view) for view in status.views if status.plain is not None and not view.instruction}
        for run in status.runs:
            counts = run["statistics"]
            embedded = {str(view): number for view, number in counts.get("embedded", {}).items()}
            under = sum(number for view, number in embedded.items() if view not in cheap)
            texts = under if instruction else sum(embedded.values()) if not under else 0
            if texts >= LEAST_TEXTS and counts.get("seconds", 0):
                return float(counts["seconds"] / texts)
    return None


def expected_seconds(status: IndexStatus, texts: int, *, judged: bool) -> float | None:
    """Return the seconds that reading some texts of an index under an instruction takes; None where nobody knows.

    ``judged`` is whether it also checks whether the model follows the instruction.
    """
    rate = seconds_a_text([status], instruction=True)
    return None if rate is None else rate * (texts + judging_cost(judged))


def promise(seconds: float | None) -> str:
    """Return how long something takes as the end of a sentence; empty where nobody knows."""
    return "" if seconds is None else f", which takes about {about(seconds)}"
