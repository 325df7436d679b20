"""Commands that a language model may read for: consent before texts leave the machine, and what was asked."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from retriever.cli import output
from retriever.core.errors import ConsentError
from retriever.core.text import printable

if TYPE_CHECKING:
    from retriever.core.results import KnownAnswers
    from retriever.workspace import Index

T = TypeVar("T")


def with_consent(opened: "Index", work: Callable[[], T], *, yes: bool) -> T:
    """Do some work; where texts would be sent to another machine, ask once whether they may.

    Args:
        opened: the index.
        work: is done again after consent; what it read before stays.
        yes: whether consent was given beforehand.

    Raises:
        ConsentError: nobody can be asked, or the answer is no.
    """
    try:
        return work()
    except ConsentError as refused:
        if not (yes or _agreed(refused)):
            raise
        opened.teaching.allow(refused.host)
    return work()


def _agreed(refused: ConsentError) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return typer.confirm(f"{printable(refused.message)} May texts of this index be sent there?", err=True)


def say_known(known: "KnownAnswers | None") -> None:
    """Say how many answers a filter looks at; nothing where it asks for none."""
    if known is not None:
        output.say(known.sentence)


def say_spent(opened: "Index") -> None:
    """Say what language models were asked, and which texts have no answer; nothing where none was asked."""
    spent = opened.teaching.spent
    if not spent.texts and not spent.unread:
        return
    failed = sum(spent.failures.values())
    parts = [f"{spent.texts} texts were read by a language model, about {spent.tokens} tokens"]
    if failed:
        reasons = ", ".join(f"{reason} {count}" for reason, count in spent.failures.items())
        parts.append(f"{failed} answers are missing ({printable(reasons)})")
    if spent.unread:
        parts.append(f"{spent.unread} texts were not sent: the limit is reached")
    output.say("; ".join(parts) + ".")
