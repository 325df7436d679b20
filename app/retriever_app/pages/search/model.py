"""The contents of the page Search: the question, and the state of the answer."""

from collections.abc import Sequence
from typing import Any

from retriever.core.options import Option
from retriever.core.requests import SearchRequest
from retriever.core.results import SearchResult
from retriever.forms import made, public, state_of
from retriever_app import text

MOST_HITS = 100
LONGEST = 1000  # characters of an option
_NAMES = {"query": "q"}  # what a link calls an option
MODES = {"auto": "By meaning and words", "dense": "By meaning", "lexical": "By words"}


def _bound(question: Any) -> None:  # noqa: ANN401 - a SearchQuestion
    """Bring what a link says into the bounds of the page."""
    object.__setattr__(question, "k", min(max(question.k, 1), MOST_HITS))
    if question.mode not in MODES:
        object.__setattr__(question, "mode", "auto")


SearchQuestion: type[Any] = state_of(
    "SearchQuestion", SearchRequest, leave_out=("where", "reader", "rerank"), renamed=_NAMES, check=_bound
)
"""Inputs of the search page: the options of a search, but for the filter, which all pages share, and the reader.

A reader is agreed to on the page: a link names none, which would be asked when it is opened. Nothing is reranked."""


def further_options() -> list[Option]:
    """Return the options that the page has no place of its own for: a box for each stands among its options."""
    own = {"query", "instruction", "k", "where", "mode", "like", "reader", "rerank"}
    return [option for option in public(SearchRequest) if option.name not in own]


def search_request(question: Any, where: str | None) -> SearchRequest | None:  # noqa: ANN401 - a SearchQuestion
    """Return the request behind a `SearchQuestion`; None where nothing is looked for.

    A document to resemble goes before a query, which a link may have besides; it is found by vectors.

    Raises:
        UsageError: the question makes no sense.
    """
    names = [option.name for option in public(SearchRequest, leave_out=("reader", "rerank"))]
    given = {name: getattr(question, _NAMES.get(name, name), "") for name in names}
    if not given["query"].strip():
        given["query"] = ""
    if given["like"]:
        given |= {"query": "", "mode": "auto"}
    if not any(given[name] for name in ("query", "like", "regex")):
        return None
    return made(SearchRequest, given, where=where)


def headline(
    result: SearchResult, *, settled: bool, stopped: bool = False, read: str = "", goes_on: bool = False
) -> str:
    """Describe the kind of answer, in a sentence.

    ``read`` is how many reviews the model has read under the question, "142 of 600 reviews", where that is known;
    ``goes_on`` is whether it reads on while nobody waits.
    """
    hits = text.count(len(result.hits), "review")
    if not result.hits:
        return "Nothing found."
    if result.mode == "lexical":
        return f"{hits} that contain words of the query."
    if not settled:
        by = "without your question" if result.path == "base" else "with what is read so far"
        return f"First {hits}, {by}.{'' if stopped else ' The list may change while the model reads more.'}"
    kinds = {
        "base": f"Found {'by meaning and words' if result.mode == 'hybrid' else 'by meaning'}, without a question.",
        "complete": "The model has read all reviews under this question.",
        "lazy": f"The model has read {read or 'some reviews'} under this question{'; reading on' if goes_on else ''}.",
    }
    return f"{hits}. {kinds[result.path]}"


def read_of(read: int, texts: int, units: str) -> str:
    """Return how many texts of an index were read: "142 of 600 reviews", or "all 600 reviews"."""
    noun = "sentence" if units == "sentences" else "review"
    return f"all {text.count(texts, noun)}" if read == texts else f"{read:,} of {text.count(texts, noun)}"


def rows(result: SearchResult) -> list[dict[str, object]]:
    """Return the hits as the rows of a table to take away."""
    return [
        {
            "rank": rank,
            "id": hit.document.id,
            "cosine": None if hit.score is None else round(hit.score, 4),
            "words": ", ".join(hit.words),
            "equal": len(hit.equal),
            "text": hit.document.text,
            **{name: value for name, value in hit.document.metadata.items() if name not in ("rank", "id", "text")},
        }
        for rank, hit in enumerate(result.hits, start=1)
    ]


def moved(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    """Return by id how hits moved between two answers: ``new``, ``▲ 3``, ``▼ 1``; those that stayed are left out."""
    places = {id: place for place, id in enumerate(before)}
    marks = {}
    for place, id in enumerate(after):
        if id not in places:
            marks[id] = "new"
        elif places[id] != place:
            marks[id] = f"{'▲' if places[id] > place else '▼'} {abs(places[id] - place)}"
    return marks
