"""Errors as clients are told them: message and hint, a kind for programs, and an HTTP status.

An error about what the client sent keeps its words. The words of one about the server's own state name files, processes
and commands, for whoever runs the server: they go to the log, and clients are told what the kind of error means.
"""

import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from retriever.core.errors import (
    BusyError,
    ConsentError,
    EncoderError,
    EncoderMismatchError,
    EndpointError,
    IndexDamagedError,
    IndexLockedError,
    IndexNotFoundError,
    InputError,
    OverloadedError,
    ReadingLimitError,
    RetrieverError,
    SchemaError,
    UsageError,
)
from retriever.core.results import SearchResult

_LOG = logging.getLogger(__name__)
request_id: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is answered; empty outside of one."""

FAULT = "The language model did not do all that was asked. The server's log says why."


class UnauthorizedError(RetrieverError):
    """A request brings no token, or a wrong one."""


class ForbiddenError(RetrieverError):
    """Who sent a request may read and not write."""


class NotFoundError(RetrieverError):
    """There is no model, document or job of that name."""


class UnknownIndexError(IndexNotFoundError):
    """There is no index of the name that a client gave."""


class BodyError(RetrieverError):
    """A request's body is larger than the limit."""


class SlowBodyError(RetrieverError):
    """A request's body did not come in time."""


class TookTooLongError(RetrieverError):
    """An answer was not there in time."""


class NotReadyError(RetrieverError):
    """The server cannot answer yet, or no longer."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a client is told it: an HTTP status, a word for programs, what happened, and the next step if any."""

    status: int
    code: str
    message: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON object: OpenAI's, with our ``hint`` beside the ``message``."""
        return {
            "error": {
                "message": self.message,
                "type": "server_error" if self.status >= 500 else "invalid_request_error",
                "param": None,
                "code": self.code,
                "hint": self.hint,
            }
        }


_KEEPER = "Whoever keeps the index can mend this."

_KINDS: dict[type[BaseException], Problem] = {
    UnauthorizedError: Problem(401, "unauthorized"),
    ForbiddenError: Problem(403, "forbidden"),
    ConsentError: Problem(
        403,
        "host_not_allowed",
        hint="No client can allow that host; who keeps the index can. Where it is a language model's, name another "
        "`reader`: `default` is the index's own.",
    ),
    ReadingLimitError: Problem(403, "reading_limit"),
    NotFoundError: Problem(404, "not_found"),
    UnknownIndexError: Problem(404, "index_not_found"),
    SlowBodyError: Problem(408, "body_too_slow"),
    BodyError: Problem(413, "body_too_large"),
    BusyError: Problem(429, "busy"),
    OverloadedError: Problem(503, "overloaded"),
    NotReadyError: Problem(503, "not_ready"),
    UsageError: Problem(400, "invalid_request"),
    InputError: Problem(400, "invalid_request"),
    TookTooLongError: Problem(504, "took_too_long"),
    # from here on the errors of the server's own state
    IndexNotFoundError: Problem(404, "index_not_found", "The index is not there any more.", _KEEPER),
    IndexLockedError: Problem(
        409, "index_locked", "Another program is writing to the index.", "Ask again when it has ended."
    ),
    EncoderMismatchError: Problem(
        409,
        "encoder_mismatch",
        "The index, or the saved clustering, was made with another encoder.",
        f"Make the clustering anew where it is that. {_KEEPER}",
    ),
    SchemaError: Problem(500, "index_of_another_version", "Another version of retriever wrote the index.", _KEEPER),
    IndexDamagedError: Problem(500, "index_damaged", "The index is damaged.", _KEEPER),
    EndpointError: Problem(
        503,
        "model_unavailable",
        "The endpoint of the index's encoder cannot be asked.",
        "Ask again later, or search with `mode` lexical. The server's log says why.",
    ),
    EncoderError: Problem(
        503,
        "model_unavailable",
        "The model cannot be loaded, or cannot do this.",
        "Ask again later; where a language model answers, name another `reader`. The server's log says why.",
    ),
    RetrieverError: Problem(500, "failed", "The server could not do this.", "Its log says why; ask again later."),
    BaseException: Problem(500, "unexpected", "An unexpected error occurred", "The server goes on; its log says more."),
}
"""How clients are told each kind of error, with its own message and hint where none stand here.

A kind that is not here is told as the nearest one above it.
"""

_OPTION = re.compile(r"`?--(instruction|where|by|reader|query|like|regex|mode|index|k|read|merge|rename|rerank)\b`?")
_COMMAND = re.compile(r"\bretriever [a-z]+|--[a-z]")
_SENTENCE_END = re.compile(r"(?<=[.;?!]) ")


def problem_of(error: BaseException) -> Problem:
    """Describe an error for a client; words that the client is not told go to the log."""
    problem = next(_KINDS[kind] for kind in type(error).__mro__ if kind in _KINDS)
    if not isinstance(error, RetrieverError):
        _LOG.error("%s failed", _request(), exc_info=error)
        return replace(problem, message=f"{problem.message}: {type(error).__name__}.")
    if not problem.message:
        return replace(problem, message=error.message, hint=problem.hint or for_clients(error.hint))
    _LOG.error("%s failed: %s", _request(), error)
    return problem


def _request() -> str:
    """Return what the log calls the request that is answered."""
    return f"Request {id}" if (id := request_id.get()) else "A request"


def for_clients(hint: str) -> str:
    """Return a hint of the command line with fields in place of options; sentences that name a command are left out."""
    sentences = _SENTENCE_END.split(_OPTION.sub(r"`\1`", hint))
    kept = " ".join(sentence for sentence in sentences if not _COMMAND.search(sentence))
    return re.sub(";$", ".", kept) if kept or not hint else _KEEPER


def result_for_clients(result: SearchResult) -> SearchResult:
    """Return a result whose faults of reader and reranker are worded for clients."""
    if result.reader_fault is not None:
        problem = problem_of(result.reader_fault)
        result = replace(result, reader_fault=RetrieverError(problem.message, hint=problem.hint))
    if result.rerank_fault is not None:
        problem = problem_of(result.rerank_fault)
        result = replace(result, rerank_fault=RetrieverError(problem.message, hint="Hits keep their usual order."))
    return result


def made_for_clients(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of groups with the faults of their language model worded for clients."""
    worded = dict(document)
    if fault := worded.get("fault"):
        _LOG.error("A language model could not be asked: %s", fault)
        worded["fault"] = FAULT
        if "caution" in worded:
            worded["caution"] = worded["caution"].replace(fault, FAULT)
    if worded.get("sampled"):
        worded["sampled"] = made_for_clients(worded["sampled"])
    return worded
