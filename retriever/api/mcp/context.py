"""Parts of tools: an index by its name or the only one, errors in our words, jobs, and answers of bounded size."""

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, unquote

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from retriever.api.problems import UnknownIndexError, problem_of
from retriever.api.service import Service
from retriever.core.errors import BusyError, RetrieverError, UsageError
from retriever.core.requests import WHERE
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.serving.jobs import Job

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_CHARACTERS = 24_000
"""Of an answer, about: some six thousand tokens, where clients refuse 25,000."""
SNIPPET_CHARACTERS = 600
MOST_HITS = 50
_EQUAL_IDS = 10
_SCHEME = "retriever://"
_WAIT = 45.0  # seconds that a call waits for a job; clients give up after about a minute
_KEPT = 600.0  # seconds; what ended before that may be of documents that have changed since

_HELP = "`search` and `cluster` take a `reader`; an agent that may write hands in answers with `give_answers`."

IndexName = Annotated[
    str, Field(description="Name of the index, as list_indexes gives it; may be left out where there is one alone.")
]
Where = Annotated[str, Field(description=WHERE)]
Reader = Annotated[
    str,
    Field(
        description="Who reads texts under the instruction from now on: a language model that the index knows, "
        "`given`, or `default`; left out, who read them last."
    ),
]


class ToolContext:
    """Access of tools to what is served; their work runs on threads, and errors are worded for agents."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.limits = service.limits

    async def work(self, do: Callable[[], T]) -> T:
        """Do work on a thread; what fails raises a `ToolError`."""
        return await self.answered(self.service.workers.run(do))

    async def answered(self, answer: Awaitable[T]) -> T:
        """Wait for an answer; what fails raises a `ToolError`."""
        try:
            return await answer
        except RetrieverError as error:
            raise self.tool_error(error) from error

    async def job(self, tool: str, request: object, work: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
        """Return what work gives, or how far it is where it takes longer than a client waits; errors are `ToolError`.

        Then it goes on as a job, and the same call, known by its request, asks for it again.
        """
        jobs = self.service.jobs
        name = f"mcp {tool} {hashlib.sha256(repr(request).encode()).hexdigest()[:24]}"
        job = jobs.find(name)
        if job is None or job.snapshot().idle > _KEPT:
            try:
                self.service.make_room()
            except BusyError as error:
                raise self.tool_error(error) from error
            job = jobs.join(name, f"{tool} for an agent", work)
        await self.service.wait_for(job, _WAIT)
        now = job.snapshot()
        if not now.over:
            said = f"This takes longer. It goes on; call {tool} again with the same arguments for the result."
            waits = {} if now.waiting is None else {"waiting": asdict(now.waiting)}
            seconds = round(now.seconds)
            return {"status": now.status, "seconds": seconds, "progress": now.progress, **waits, "next": said}
        jobs.forget(name)
        if now.error is not None:
            raise self.tool_error(now.error) from now.error
        return {"status": now.status, **(now.result or {})}

    def index_name(self, given: str) -> str:
        """Return the name of the index that is meant: the one given, or the only one there is.

        Raises:
            UsageError: none is given and there are several.
            UnknownIndexError: there is none of that name.
        """
        names = self.service.names()
        if given in names:
            return given
        known = f"There are: {', '.join(names[:20])}." if names else "There is none yet."
        if given:
            raise UnknownIndexError(f"There is no index {given!r} here.", hint=known)
        if len(names) != 1:
            raise UsageError("Which index is meant?", hint=known)
        return names[0]

    def tool_error(self, error: BaseException) -> ToolError:
        """Return an error as agents are told it: what happened, and the next step that they can take."""
        problem = problem_of(error)
        return ToolError(f"{problem.message} {problem.hint}".strip())


def blocking(
    tool: Callable[Concatenate[ToolContext, P], T],
) -> Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, T]]:
    """Have a tool do its work on a thread, and word errors for agents."""

    @wraps(tool)
    async def on_thread(context: ToolContext, /, *args: P.args, **arguments: P.kwargs) -> T:
        return await context.work(partial(tool, context, *args, **arguments))

    return on_thread


def verdict_of(verdict: Verdict) -> str:
    """Return a verdict as agents are told it: where it warns, with the tools and arguments that help."""
    return f"{verdict.sentence} {_HELP}" if verdict.warns else verdict.sentence


def uri_of(index: str, document: str) -> str:
    """Return the address of a document as a resource."""
    return f"{_SCHEME}{quote(index, safe='')}/documents/{quote(document, safe='')}"


def parse_uri(given: str, index: str) -> tuple[str, str]:
    """Return the index and the id that a document's address, or its id alone, names."""
    if not given.startswith(_SCHEME):
        return index, given
    name, _, document = given.removeprefix(_SCHEME).partition("/documents/")
    return unquote(name), unquote(document)


class Bounded:
    """An answer that grows until it has about as many characters as it may, and says what it leaves out."""

    def __init__(self, most: int = ANSWER_CHARACTERS) -> None:
        self._left = most
        self._cut = 0
        self.left_out: list[str] = []

    def text(self, text: str, most: int = SNIPPET_CHARACTERS) -> str:
        """Return a text, cut where it is longer than that."""
        if len(text) <= most:
            return text
        self._cut += 1
        return f"{text[: most - 1]}…"

    def take(self, items: Sequence[T], render: Callable[[T], Any], *, of: str) -> list[Any]:
        """Return items rendered as far as there is room; ``of`` says what they are, for what is told of the rest."""
        shown: list[Any] = []
        for item in items:
            rendered = render(item)
            size = len(str(rendered))
            if size > self._left and shown:
                break
            self._left -= size
            shown.append(rendered)
        if len(shown) < len(items):
            self.left_out.append(f"{len(items) - len(shown)} of {len(items)} {of}")
        return shown

    def closed(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer with what was left out said."""
        if self._cut:
            self.left_out.append(f"the ends of {self._cut} longer texts, which `fetch` gives whole")
        return {**answer, "left_out": self.left_out}


def hit_of(bounded: Bounded, index: str, hit: dict[str, Any]) -> dict[str, Any]:
    """Return a hit of a search's JSON object as agents get it."""
    document = Document(hit["id"], hit["text"], hit["metadata"])
    return {
        "id": document.id,
        "uri": uri_of(index, document.id),
        "score": hit["score"],
        "percentile": hit["percentile"],
        "words": hit["words"],
        **({"equal": {**hit["equal"], "ids": hit["equal"]["ids"][:_EQUAL_IDS]}} if hit["equal"]["count"] else {}),
        **({} if hit["part"] is None else {"part": bounded.text(hit["part"]["text"])}),
        "text": bounded.text(document.text),
        "metadata": metadata_of(bounded, document),
    }


def metadata_of(bounded: Bounded, document: Document) -> Any:  # noqa: ANN401 - JSON
    """Return a document's metadata, or their beginning as text where they are long."""
    metadata = dict(document.metadata)
    written = str(metadata)
    return metadata if len(written) <= SNIPPET_CHARACTERS else bounded.text(written)
