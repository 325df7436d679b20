"""What tools share: an index by its name or the only one, errors in our words, answers of bounded size."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from mcp.server.mcpserver.exceptions import ToolError

from retriever.api.problems import problem_of
from retriever.api.service import Service
from retriever.core.errors import IndexNotFoundError, RetrieverError, UsageError
from retriever.core.types import Document
from retriever.shards.index import ShardedIndex
from retriever.workspace import Index

T = TypeVar("T")

ANSWER_CHARACTERS = 24_000
"""Of an answer, about: some six thousand tokens, where clients refuse 25,000."""
SNIPPET_CHARACTERS = 600
MOST_HITS = 50
_SCHEME = "retriever://"


class Desk:
    """Where tools get what they need.

    Args:
        service: what is served.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.limits = service.limits

    async def work(self, do: Callable[[], T]) -> T:
        """Do work on a thread, and tell errors as the command line words them.

        Raises:
            ToolError: it failed.
        """
        try:
            return await self.service.workers.run(do)
        except RetrieverError as error:
            raise self.told(error) from error

    def index_name(self, given: str) -> str:
        """Return the name of the index that is meant: the one given, or the only one there is.

        Raises:
            UsageError: none is given and there are several.
            IndexNotFoundError: there is none of that name.
        """
        names = self.service.names()
        if given in names:
            return given
        known = f"There are: {', '.join(names[:20])}." if names else "There is none yet: make one with retriever index."
        if given:
            raise IndexNotFoundError(f"There is no index {given!r} here.", hint=known)
        if len(names) != 1:
            raise UsageError("Which index is meant?", hint=known)
        return names[0]

    def index(self, given: str) -> Index | ShardedIndex:
        """Return an index; errors as `index_name`."""
        return self.service.index(self.index_name(given))

    def told(self, error: BaseException) -> ToolError:
        """Return an error as agents are told it: what happened, and the next step."""
        problem = problem_of(error, self.service.folder)
        return ToolError(f"{problem.message} {problem.hint}".strip())


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
    """An answer that grows until it is as large as it may be, and says what it leaves out.

    Args:
        most: characters of it, about.
    """

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
        **({} if hit["unit"] is None else {"sentence": bounded.text(hit["unit"]["text"])}),
        "text": bounded.text(document.text),
        "metadata": metadata_of(bounded, document),
    }


def metadata_of(bounded: Bounded, document: Document) -> Any:  # noqa: ANN401 - JSON
    """Return a document's metadata, or their beginning as text where they are long."""
    metadata = dict(document.metadata)
    written = str(metadata)
    return metadata if len(written) <= SNIPPET_CHARACTERS else bounded.text(written)
