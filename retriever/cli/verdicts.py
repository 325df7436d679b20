"""A verdict as commands print it: its sentence, and the commands that help where a question may not be followed."""

import shlex
from typing import TYPE_CHECKING

from retriever.cli import output

if TYPE_CHECKING:
    from retriever.core.verdicts import Verdict


def say_verdict(verdict: "Verdict | None", *, of: str = "") -> None:
    """Say whether the model follows a question, and how to get answers where it may not; nothing without a verdict.

    ``of`` stands before it, such as the question.
    """
    if verdict is not None:
        output.say(f"{of}{verdict.sentence}", "yellow" if verdict.warns else "green")
        say_ways(verdict)


def say_ways(verdict: "Verdict") -> None:
    """Say with which option and command a question gets answers; nothing where the model follows it."""
    if verdict.warns:
        say_commands(verdict.instruction)


def say_commands(instruction: str) -> None:
    """Say with which option and command a question gets answers that the model does not give."""
    teach = shlex.join(["retriever", "teach", "--instruction", instruction, "EXAMPLES.jsonl"])
    output.say(f"To get answers, add --reader chat:MODEL, or run {teach}")
