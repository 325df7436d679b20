"""A model's reply: its thinking taken off, and the JSON in it found. Pure: nothing here opens a connection."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from retriever.core.text import is_blank
from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.wire import Reply

M = TypeVar("M", bound=BaseModel)

_MOST_BEGINNINGS = 100
"""Brackets in a reply at which JSON is looked for."""

_THOUGHTS = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection)"
_THINKING_ENDS = re.compile(rf"</{_THOUGHTS}>|\[/THINK\]|◁/think▷", re.IGNORECASE)
_THINKING_BEGINS = re.compile(rf"\s*(?:<{_THOUGHTS}>|\[THINK\]|◁think▷)", re.IGNORECASE)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w*).*?<\|message\|>", re.DOTALL)
_CHANNEL_ENDS = re.compile(r"<\|(?:end|return|call|start)\|>")


class UnusableError(Exception):
    """Nothing of a reply can be used, for a reason."""

    def __init__(self, reason: Unread) -> None:
        super().__init__(reason)
        self.reason = reason


def content_of(reply: Reply) -> str:
    """Return what a reply says behind the model's thinking.

    Raises:
        UnusableError: it was refused, or says nothing.
    """
    if reply.refusal or reply.finish == "content_filter":
        raise UnusableError(Unread.REFUSED)
    said = reply.content or ""
    reasons = bool(reply.reasoning.strip())
    if channels := list(_CHANNEL.finditer(said)):
        if channels[-1][1] == "analysis":
            raise UnusableError(Unread.THINKING)
        said = _CHANNEL_ENDS.split(said[channels[-1].end() :])[0]
    if ends := list(_THINKING_ENDS.finditer(said)):  # a chat template can have written the opening tag
        said, reasons = said[ends[-1].end() :], True
    if _THINKING_BEGINS.match(said):
        raise UnusableError(Unread.THINKING)
    if is_blank(said):
        raise UnusableError(Unread.REASONING if reasons else Unread.EMPTY)
    return said


def parsed(content: str, model: type[M]) -> M:
    """Return the last object or list of JSON in a reply that has the form of a model, whatever stands around it.

    Raises:
        UnusableError: there is none.
    """
    for said in reversed(list(_objects(content))):
        try:
            return model.model_validate(said)
        except (ValidationError, RecursionError):
            continue
    raise UnusableError(Unread.BROKEN)


def _objects(content: str) -> Iterator[Any]:
    """Yield the objects and lists of JSON in a text, none from within another."""
    decoder, at = json.JSONDecoder(), 0
    bracket = re.compile(r"[{\[]")
    for _ in range(_MOST_BEGINNINGS):
        if (begins := bracket.search(content, at)) is None:
            return
        try:
            said, at = decoder.raw_decode(content, begins.start())
            yield said
        except (ValueError, RecursionError):
            at = begins.end()


def positions(ids: Sequence[str], count: int) -> list[int]:
    """Return the positions, in the order of their ids, of what has the ids 1, 2, ... up to a count.

    Raises:
        UnusableError: an id is none of these, or is there twice.
    """
    known = {str(number): number - 1 for number in range(1, count + 1)}
    if len(set(ids)) < len(ids) or not known.keys() >= set(ids):
        raise UnusableError(Unread.MIXED)
    return [known[id] for id in ids]
