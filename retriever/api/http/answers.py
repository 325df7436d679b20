"""Answers: JSON written by pydantic's own writer, and errors, those of FastAPI's checks included, in our words."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, model_validator
from pydantic.json_schema import JsonSchemaValue
from starlette.exceptions import HTTPException

from retriever.api.problems import Problem, UnauthorizedError, problem_of, request_id
from retriever.core.errors import BusyError, OverloadedError, RetrieverError, UsageError

_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_ABOUT_FIELD = ("title", "description", "default")  # what a field's schema says of it besides its type
_NULL = {"type": "null"}
RETRY_SECONDS = 1
OVERLOADED_SECONDS = 10
"""About what the reading of a search takes."""


class Body(BaseModel):
    """A request's body; a field that it does not know is refused, and so is text for a number.

    Null stands for the default of every field that has one, as clients send it for what their user left out.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}

    @classmethod
    def __get_pydantic_json_schema__(
        cls,
        core_schema: Any,  # noqa: ANN401 - of pydantic_core, which comes with pydantic
        handler: GetJsonSchemaHandler,
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        for name in schema["properties"].keys() - set(schema.get("required", ())):
            field = schema["properties"][name]
            about = {key: field[key] for key in _ABOUT_FIELD if key in field}
            kinds = field.get("anyOf") or [{key: field[key] for key in field.keys() - about.keys()}]
            schema["properties"][name] = {**about, "anyOf": kinds if _NULL in kinds else [*kinds, _NULL]}
        return schema


class ErrorDetail(BaseModel):
    """The description of an error in an answer."""

    message: str = Field(description="What happened.")
    type: str = Field(description="invalid_request_error or server_error.")
    param: str | None = Field(description="Always null.")
    code: str = Field(description="What kind it is, one word for programs.")
    hint: str = Field(description="The next step; may be empty.")
    request_id: str = Field(description="What the server's log calls the request: the header `X-Request-ID`.")


class ErrorAnswer(BaseModel):
    """An answer that is an error."""

    error: ErrorDetail

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "error": {
                    "message": "There is no index 'reviews' here.",
                    "type": "invalid_request_error",
                    "param": None,
                    "code": "index_not_found",
                    "hint": "GET /indexes lists them.",
                    "request_id": "5f2c9a7e01b3d4c6",
                }
            }
        }
    )


_MEANINGS = {
    400: "The request makes no sense, or a limit is passed",
    401: "The token is missing or wrong",
    403: "The token is a reader's, and this takes a writer's; or a language model is at a host that nobody "
    "allowed, or what is asked of it is beyond a limit",
    404: "There is nothing of that name",
    405: "Another method is meant",
    408: "The body did not come in time",
    409: "Another process writes to the index, or it was made by another encoder",
    413: "The body is too large",
    429: "Too much is going on: ask again in a moment",
    500: "The index is damaged, or the server could not do this",
    503: "The model cannot be loaded or cannot do this, too many searches wait for texts to be read, or the server is "
    "not ready",
    504: "The answer was not there in time",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": meaning} for status, meaning in _MEANINGS.items()
}
"""The errors that every endpoint can answer with, for the OpenAPI page."""


def as_json(content: object) -> bytes:
    """Write JSON; numbers that it does not have become null."""
    return _JSON.dump_json(content)


def answer(content: Mapping[str, Any] | Sequence[Any], status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(as_json(content), status, media_type="application/json")


def _answered(problem: Problem) -> Response:
    """Return the answer that a problem is, with the id of its request."""
    error = {**problem.to_json()["error"], "request_id": request_id.get()}
    return answer({"error": error}, problem.status)


def refusal(error: BaseException) -> Response:
    """Return the answer that an error is."""
    response = _answered(problem_of(error))
    if isinstance(error, BusyError):
        response.headers["Retry-After"] = str(
            OVERLOADED_SECONDS if isinstance(error, OverloadedError) else RETRY_SECONDS
        )
    if isinstance(error, UnauthorizedError):
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def handle_errors(app: FastAPI) -> None:
    """Have an app answer every error in our words."""

    @app.exception_handler(RetrieverError)
    async def ours(_: Request, error: RetrieverError) -> Response:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return refusal(_explained(error.errors()))

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> Response:
        status = error.status_code
        if status == 400:
            return refusal(_no_json())
        said = {404: "There is no such address.", 405: "This address takes another method."}
        problem = Problem(status, "not_found" if status == 404 else "http", said.get(status, "The request failed."))
        response = _answered(problem)
        response.headers.update(error.headers or {})
        return response


def _no_json() -> UsageError:
    return UsageError("The body is not JSON in UTF-8.", hint="Send one JSON object in UTF-8.")


def _explained(errors: Sequence[Any]) -> UsageError:
    """Put the first thing that pydantic found wrong in our words; unknown fields before all others."""
    unknown = [error for error in errors if error["type"] == "extra_forbidden"]
    if unknown:
        names = ", ".join(repr(str(error["loc"][-1])) for error in unknown[:5])
        return UsageError(
            f"Unknown {'fields' if len(unknown) > 1 else 'field'} {names}.",
            hint=f"Leave {'them' if len(unknown) > 1 else 'it'} out; /docs lists the fields.",
        )
    first = errors[0]
    if first["type"] == "json_invalid":
        return _no_json()
    place = ".".join(str(part) for part in first["loc"][1:])  # the first says where: body, query, path
    if first["type"] == "missing":
        what = f"The field {place!r} is missing." if place else "The body is missing."
        return UsageError(what, hint="/docs shows what the fields hold.")
    said = str(first["msg"])
    return UsageError(f"{place or 'The body'}: {said[:1].lower()}{said[1:]}.", hint="/docs shows what the fields hold.")
