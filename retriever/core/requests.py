"""Requests to an index and their options: plain values, checked when they are made."""

from collections.abc import Sequence
from dataclasses import dataclass

from retriever.core.errors import UsageError
from retriever.core.results import Mode
from retriever.core.text import require_text


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search.

    Attributes:
        queries: one or more texts.
        instruction: what to look at; empty for the encoder's default.
        k: hits per query.
        where: a filter over metadata, such as ``stars <= 2``; None or blank for no filter.
        mode: dense, lexical, hybrid, or auto.
        steps: K for the queries, where the encoder generates; None for its own.
        like: the id of a document the hits should resemble, whose text is the query; it is left out of them.
        more: ids of documents that the hits should resemble as well.
        less: ids of documents that they should not.
        regex: a regular expression that the text of every hit holds; None for no condition.

    Raises:
        UsageError: k is below 1, a query is empty, the mode is unknown, what resembles documents is asked for by
            words, or a document is to be resembled and not.
    """

    queries: Sequence[str]
    instruction: str = ""
    k: int = 10
    where: str | None = None
    mode: Mode = "auto"
    steps: int | None = None
    like: str | None = None
    more: Sequence[str] = ()
    less: Sequence[str] = ()
    regex: str | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"k is {self.k}.", hint="Ask for at least 1 hit.")
        object.__setattr__(self, "instruction", self.instruction.strip())
        if not self.queries or any(not query.strip() for query in self.queries):
            raise UsageError("A query is empty.", hint="Say what to look for.")
        require_text(*self.queries, self.instruction)
        if self.mode not in ("auto", "dense", "lexical", "hybrid"):
            raise UsageError(f"Unknown mode {self.mode!r}.", hint="Known: auto, dense, lexical, hybrid.")
        if both := sorted(set(self.more) & set(self.less)):
            raise UsageError(f"More and less is asked for of {both[0]!r}.", hint="Say one of them.")
        if (self.more or self.less) and self.mode == "lexical":
            raise UsageError(
                "More like and less like go by vectors, not in mode lexical.", hint="Leave the mode out, or the marks."
            )
        if self.like is not None and self.mode in ("lexical", "hybrid"):
            raise UsageError(
                f"What resembles a document is found by vectors, not in mode {self.mode}.",
                hint="Leave the mode out, or search for the words of the document.",
            )


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How far a search goes.

    Attributes:
        candidates: depth of the rankings that are fused, and that a lazy search takes its candidates from.
        token_budget: tokens one lazy search may read anew, prompts included.
        prompt_tokens: what template and instruction add to a text, about.
        word_weight: what a point of BM25 is worth in hybrid mode, in spreads of a view's cosines.
        plain_weight: what a spread of the plain reader's cosines is worth under an instruction, in spreads of the view.
        typical_share: the share of the budget that goes first to texts which show what is typical of the view.

    Raises:
        UsageError: a number is out of its range.
    """

    candidates: int = 100
    token_budget: int = 5_200
    prompt_tokens: int = 25
    typical_share: float = 0.25
    word_weight: float = 0.2
    plain_weight: float = 0.5

    def __post_init__(self) -> None:
        if (
            self.candidates < 1
            or self.token_budget < 1
            or self.prompt_tokens < 0
            or not 0 <= self.typical_share <= 1
            or min(self.word_weight, self.plain_weight) < 0
        ):
            raise UsageError(
                f"{self} cannot be used.",
                hint="Depth and budget are at least 1, the share lies between 0 and 1, no weight is below 0.",
            )
