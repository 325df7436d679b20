"""Errors as clients are told them: message and hint, a kind for programs, an HTTP status, and no place of a file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retriever.core.errors import (
    BusyError,
    ConsentError,
    EncoderError,
    EncoderMismatchError,
    FilterError,
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

_OURS = (
    r"corpus\.sqlite3(?:-wal|-shm)?|writer\.lock(?:\.json)?|changes\.lock"
    r"|(?:views|model|spool)(?:/[\w.-]*\w)+"
)
_INSIDE = re.compile(rf"(?:/(?:{_OURS}))+(?![\w/-])")
"""The rest of a path from an index's folder on: files of ours, whose names hold no spaces."""

_ABSOLUTE = re.compile(r"(?<![\w.~/:<-])(?!/(?:v1|indexes|jobs)/)/(?:[^\s/'\",;:()]+/)+([^\s/'\",;:()]+)")
"""A path of two names or more, but no address of this server."""


class UnauthorizedError(RetrieverError):
    """A request brings no token, or a wrong one."""


class ForbiddenError(RetrieverError):
    """Who sent a request may read and not write."""


class NotFoundError(RetrieverError):
    """There is no model, document or job of that name."""


class BodyError(RetrieverError):
    """A request's body is larger than the limit."""


class SlowBodyError(RetrieverError):
    """A request's body did not come in time."""


class TookTooLongError(RetrieverError):
    """An answer was not there in time."""


_STATUSES: Sequence[tuple[type[RetrieverError], int, str]] = (
    (UnauthorizedError, 401, "unauthorized"),
    (ForbiddenError, 403, "forbidden"),
    (ConsentError, 403, "host_not_allowed"),
    (ReadingLimitError, 403, "reading_limit"),
    (NotFoundError, 404, "not_found"),
    (IndexNotFoundError, 404, "index_not_found"),
    (SlowBodyError, 408, "body_too_slow"),
    (IndexLockedError, 409, "index_locked"),
    (EncoderMismatchError, 409, "encoder_mismatch"),
    (BodyError, 413, "body_too_large"),
    (OverloadedError, 503, "overloaded"),
    (BusyError, 429, "busy"),
    (UsageError, 400, "invalid_request"),
    (InputError, 400, "invalid_request"),
    (SchemaError, 500, "index_of_another_version"),
    (IndexDamagedError, 500, "index_damaged"),
    (EncoderError, 503, "model_unavailable"),
    (TookTooLongError, 504, "took_too_long"),
    (RetrieverError, 400, "invalid_request"),
)


_CONSENT = (
    "Name another `reader`: `default` is the index's own. No client can allow that host; who keeps the index can, with "
    "`retriever search QUERY --instruction QUESTION --yes`."
)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a client is told it.

    Attributes:
        status: the HTTP status.
        code: what kind it is, one word for programs.
        message: what happened.
        hint: the next step; may be empty.
    """

    status: int
    code: str
    message: str
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


def problem_of(error: BaseException, folder: Path | None = None) -> Problem:
    """Describe an error: of one that is none of ours no more than its kind, of files no more than whose they are.

    Args:
        error: what was raised.
        folder: that indexes lie in, where the error may name their files.
    """
    if not isinstance(error, RetrieverError):
        return Problem(
            500,
            "unexpected",
            f"An unexpected error occurred: {type(error).__name__}.",
            "The server goes on; its log has the details.",
        )
    if isinstance(error, ConsentError):  # the command line's hint is for who may allow it
        error = ConsentError(error.message, hint=_CONSENT, host=error.host)
    status, code = next((status, code) for kind, status, code in _STATUSES if isinstance(error, kind))
    if isinstance(error, NotFoundError | InputError | FilterError):  # of what the client said, and of no file here
        return Problem(status, code, error.message, error.hint)
    return Problem(status, code, without_places(error.message, folder), without_places(error.hint, folder))


def without_places(text: str, folder: Path | None) -> str:
    """Return a message in which indexes and models are named, and not where they lie.

    Args:
        text: the message, as the command line has it.
        folder: that indexes lie in; None where that is not known.
    """
    if folder is not None:
        text = text.replace(f"{folder.absolute()}/", "")
    return _ABSOLUTE.sub(r"\1", _INSIDE.sub("", text))
