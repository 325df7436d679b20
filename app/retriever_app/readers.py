"""A language model that reads a question: which can, what it is sent and where, and its answers as rows to correct."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from retriever.core.errors import EncoderError
from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.index.asking.asker import ReaderPlace
from retriever.index.teaching.answering import GIVEN
from retriever.index.teaching.unanswered import AnswersStatus
from retriever_app import text

VARIABLE = "RETRIEVER_READER"
"""The environment variable that names the language model which the pages offer, as ``chat:qwen3:8b``."""

SETUP = (
    "A language model answers open questions best, and none is set up. Whoever starts the app names one: "
    "RETRIEVER_READER=chat:MODEL, with OPENAI_BASE_URL for its server (docs/app.md, “A language model”)."
)
MOST_ROWS = 200
"""Answers in a table at most."""

BEGINNING = 90  # characters of a text in a table
_OPTIONS = SearchOptions()
MOST_A_SEARCH = _OPTIONS.costly_texts * _OPTIONS.costly_rounds
"""Texts that a search sends at most."""


@dataclass(frozen=True, slots=True)
class Sending:
    """The texts that work under a question sends to a language model.

    Attributes:
        what: the work, as a sentence begins with it.
        most: reviews that are sent at most.
        in_all: whether those that are answered already count among them.
    """

    what: str
    most: int
    in_all: bool = False

    def covers(self, other: "Sending") -> bool:
        """Return whether who agreed to this has agreed to another: the same work, with no more reviews."""
        return self.what == other.what and self.most >= other.most

    def number(self, status: AnswersStatus) -> int:
        """Return how many reviews are sent at most, given how far the question is answered."""
        if self.in_all:
            return max(0, min(self.most, status.texts) - status.answers)
        return min(self.most, status.texts - status.answers)

    def said(self, status: AnswersStatus) -> str:
        """Say how many are sent: A search sends at most 12 more reviews. To write groups takes the answers too."""
        number = self.number(status)
        reviews = text.count(number, "more review" if status.answers else "review")
        if not self.in_all:
            return f"{self.what} sends at most {reviews}"
        return f"{self.what} sends {f'{reviews} and ' if number else ''}the answers"


SEARCHING = Sending("A search", MOST_A_SEARCH)


def grouping(read: int) -> Sending:
    """Return what the groups of so many reviews send."""
    return Sending("Grouping", read, in_all=True)


Answered = Sequence[tuple[Document, Sequence[str]]]
"""Texts with the words of their answers, none where one has no answer."""


def offers(place: Callable[[str], ReaderPlace], configured: str, known: Sequence[str]) -> tuple[list[ReaderPlace], str]:
    """Return the language models that can be asked, and the reason where there is none.

    The one that the environment configures comes first, if any, then those that have read for the index before.
    ``place`` gives where a reader gets texts, and raises `EncoderError` for one that cannot be asked.
    """
    places, reason = [], ""
    for name in dict.fromkeys(filter(None, [configured.strip(), *known])):
        try:
            places.append(place(name))
        except EncoderError as error:
            reason = reason or f"{error.message} {error.hint}".strip()
    return places, "" if places else reason or SETUP


def reads(reader: str) -> bool:
    """Whether a reader is a language model, which is sent texts: no encoder, and no answers that were handed in."""
    return reader not in ("", GIVEN)


def embedding(place: ReaderPlace) -> str:
    """Say what an index sends to the endpoint of its encoder on another machine."""
    return (
        f"The encoder of this index, {place.name}, is at {place.host}, another machine. It gets queries, and reviews "
        "that it has not embedded yet. Until you allow that, pages show what they can without it."
    )


def sending(place: ReaderPlace, sends: str) -> str:
    """Say what goes where; ``sends`` says what, as in "A search sends at most 60 reviews"."""
    if not place.host:
        return f"{sends} to {place.name}, which runs in this app: they stay on this machine."
    if place.local:
        return f"{sends}, with the question, to {place.name} at {place.host}, a server on this machine."
    return f"{sends}, with the question, to {place.name} at {place.host}, another machine."


def unanswered(status: AnswersStatus, reasons: str) -> str:
    """Say how many texts have no answer to a question, and the reasons, counted; empty where all have one."""
    lacking = status.texts - status.answers
    if lacking <= 0:
        return ""
    said = f"{lacking:,} of {text.count(status.texts, 'different text')} {'has' if lacking == 1 else 'have'} no answer."
    return f"{said} {reasons}".strip()


def answer_rows(texts: Answered) -> list[dict[str, str]]:
    """Return texts with their answers as the rows of a table."""
    return [
        {"answer": words[0] if words else "", "review": text.beginning(document.text, BEGINNING)}
        for document, words in texts
    ]


def corrections(texts: Answered, edited: Mapping[int, Mapping[str, str | None]]) -> dict[str, str | None]:
    """Return what was written in the table of some texts, by their ids; None takes a correction back.

    ``edited`` has by row what was written in its ``answer``.
    """
    written = {texts[number][0].id: (cells.get("answer") or "").strip() for number, cells in edited.items()}
    return {id: answer or None for id, answer in written.items()}
