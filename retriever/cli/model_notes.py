"""Notes of commands on a model that did not come with the package: the prompts it is sent, and what seems wrong."""

from typing import TYPE_CHECKING

from retriever.cli import output
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.index.model_notes import ModelNotes


def say_notes(notes: "ModelNotes | None") -> None:
    """Say what was recognised of a model and what is probably wrong with it; nothing of one that came with us."""
    if notes is not None:
        output.say(printable(notes.recognised))
        for sentence in notes.weaknesses:
            output.say(printable(sentence), "yellow")


def say_encoders(*encoders: object) -> None:
    """Say that of encoders which somebody named for an index; what is none is passed over."""
    from retriever.core.protocols import Encoder
    from retriever.index.model_notes import notes_on

    for encoder in encoders:
        if isinstance(encoder, Encoder):
            say_notes(notes_on(encoder))
