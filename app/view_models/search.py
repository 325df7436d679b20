"""Describe the contents of the search page: the question, suggestions, and the state of the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from retriever.core.results import SearchResult, ViewStatus
from retriever_app.view_models import text

SUGGESTED = ("What broke?", "How does the customer feel?", "What is it used for?")
MOST_SUGGESTED = 8
MOST_HITS = 100
MOST_STEPS = 20
MODES = {"auto": "By both", "dense": "By meaning", "lexical": "By words"}


@dataclass(frozen=True, slots=True)
class SearchQuestion:
    """A question that the search page asks.

    Attributes:
        instruction: what to look at.
        like: the id of a review whose likes are looked for instead of a query.
        mode: by both, by vectors, or by words.
        steps: K of the query, where the model is GIRCSE; 0 for the index's own.
    """

    q: str = ""
    instruction: str = ""
    like: str = ""
    k: int = 10
    mode: Literal["auto", "dense", "lexical"] = "auto"
    steps: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", min(max(self.k, 1), MOST_HITS))
        object.__setattr__(self, "steps", min(max(self.steps, 0), MOST_STEPS))

    @property
    def asks(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.q.strip() or self.like)


def suggestions(views: Iterable[ViewStatus]) -> list[str]:
    """Return instructions to choose from: those asked of this index, the latest first, then those that fit reviews."""
    own = sorted((view for view in views if view.instruction), key=lambda view: view.last_used, reverse=True)
    return list(dict.fromkeys([*(view.instruction for view in own[: MOST_SUGGESTED - 3]), *SUGGESTED]))


def headline(result: SearchResult, *, settled: bool) -> str:
    """Describe the kind of answer, in a sentence."""
    found = text.count(len(result.hits), "review")
    if not result.hits:
        return "Nothing found."
    if result.mode == "lexical":
        return f"{found} by their words."
    if not settled:
        by = "found without the instruction" if result.path == "base" else "of those read under the instruction"
        return f"First {found}, {by}. The best candidates are being read under it."
    kinds = {
        "base": f"{'by meaning and words' if result.mode == 'hybrid' else 'by meaning'}, read without an instruction",
        "complete": "all reviews in question were read under this instruction, by the model that follows questions",
        "lazy": "the best candidates were read under this instruction, by the model that follows questions",
    }
    return f"{found}: {kinds[result.path]}."


def reading_line(done: int, texts: int) -> str:
    """Describe how far the reading of a search's candidates is; nothing is known of it before the first text."""
    return f"{done:,} of {text.count(texts, 'review')} read" if texts else "Choosing what to read …"


def rows(result: SearchResult) -> list[dict[str, object]]:
    """Return the hits as the rows of a table to take away."""
    return [
        {
            "rank": rank,
            "id": hit.document.id,
            "cosine": None if hit.score is None else round(hit.score, 4),
            "words": ", ".join(hit.words),
            "text": hit.document.text,
            **{name: value for name, value in hit.document.metadata.items() if name not in ("rank", "id", "text")},
        }
        for rank, hit in enumerate(result.hits, start=1)
    ]


def moved(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    """Return by id how hits moved between two answers: ``new``, ``▲ 3``, ``▼ 1``; those that stayed are left out."""
    places = {id: place for place, id in enumerate(before)}
    found = {}
    for place, id in enumerate(after):
        if id not in places:
            found[id] = "new"
        elif places[id] != place:
            found[id] = f"{'▲' if places[id] > place else '▼'} {abs(places[id] - place)}"
    return found
