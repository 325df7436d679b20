"""Requests to an index and their options: plain values, checked when they are made."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import get_args

from retriever.core.arguments import require
from retriever.core.errors import UsageError
from retriever.core.options import option, options_of
from retriever.core.patterns import LONGEST, TextPattern
from retriever.core.results import Mode
from retriever.core.text import composed, is_blank, require_text
from retriever.core.types import JSON

WHERE = (
    "Filter over metadata and known answers: \"stars <= 2 and category = 'toy'\", \"answer = 'refund'\"; "
    "also !=, in, has, contains."
)
"""The help of a filter, wherever one is an option."""

READER = (
    "Reader of the instruction from now on: a language model (chat:MODEL or chat:URL#MODEL), imported answers (given), "
    "or the encoder of the index (default)."
)
"""The help of a reader that is named by who keeps the index."""

RERANK = (
    "Reranker that orders the first hits anew: st:FOLDER (a cross-encoder of sentence-transformers) or http:URL#MODEL "
    "(an endpoint)."
)
"""The help of a reranker."""

_NEEDS_QUERY = ("instruction", "mode", "steps", "reader")
"""Options of a search by vectors or words, which have no meaning where a regular expression stands alone."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search: every option once, with its documentation, default and check. Every door makes its form of these.

    One of ``query`` and ``like`` says what to look for. Without either, ``regex`` alone ranks documents by the number
    of its matches. A blank instruction or filter is none.

    >>> SearchRequest("stopped working", instruction="What broke?", k=3).mode
    'auto'
    >>> SearchRequest(regex="(?i)charg(er|ing)", instruction=" ").instruction is None
    True
    >>> SearchRequest("kettle", like="r-17")
    Traceback (most recent call last):
    retriever.core.errors.UsageError: A query and like exclude each other. Leave out one of them.

    Raises:
        UsageError: an option is of another type, nothing is looked for, two options exclude each other, a text is
            empty, a number is out of its range, or the regular expression is none.
    """

    query: str | None = option(None, "Words or a sentence to search for.")
    _: KW_ONLY
    instruction: str | None = option(None, "Question to search under: 'What broke?'.")
    k: int = option(10, "Number of hits.", least=1)
    where: str | None = option(None, WHERE)
    mode: Mode = option("auto", "By vectors (dense), by words (lexical), both (hybrid), or auto.", advanced=True)
    like: str | None = option(None, "Id of a document to find similar ones, in place of a query.")
    regex: str | None = option(
        None, "Regular expression that texts match: '(?i)charg(er|ing)'; with or without a query.", longest=LONGEST
    )
    reader: str | None = option(None, READER)
    judge: bool = option(
        True,
        "Have the language model that serves the question judge the first answers against the query.",
        advanced=True,
    )
    rerank: str | None = option(None, RERANK, advanced=True)
    steps: int | None = option(None, "K soft tokens for the query (GIRCSE).", least=1, public=False)

    def __post_init__(self) -> None:
        self._check_types()
        for name in ("query", "instruction"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else composed(given))
        for name in ("instruction", "where", "reader", "rerank"):
            given = (getattr(self, name) or "").strip()
            object.__setattr__(self, name, given or None)
        if self.query is not None and is_blank(self.query):
            raise UsageError("A query is empty.", hint="Say what to search for.")
        require_text(*filter(None, (self.query, self.instruction, self.like)))
        self._check_subject()
        if self.k < 1:
            raise UsageError(f"k is {self.k}.", hint="Ask for at least 1 hit.")
        if self.steps is not None and self.steps < 1:
            raise UsageError(f"steps is {self.steps}.", hint="Spend at least 1 step.")
        if self.mode not in get_args(Mode):
            raise UsageError(f"Unknown mode {self.mode!r}.", hint=f"Known: {', '.join(get_args(Mode))}.")
        if self.like is not None and self.mode in ("lexical", "hybrid"):
            raise UsageError(
                f"Similar documents are found by vectors, not in mode {self.mode}.",
                hint="Leave the mode out, or search for the words of the document.",
            )
        if self.reader is not None and self.instruction is None:
            raise UsageError("A reader needs an instruction.", hint='Add one: --instruction "What broke?"')
        self._check_reranker()
        if self.regex is not None:
            TextPattern(self.regex)

    @property
    def by_pattern_alone(self) -> bool:
        """Whether there is neither a query nor a document to resemble, but a regular expression."""
        return self.query is None and self.like is None

    def _check_types(self) -> None:
        """Refuse options of another type, and make numbers of NumPy's plain ones."""
        for each in options_of(type(self)):
            given = getattr(self, each.name)
            require(each.type, **{each.name: given})
            if each.plain_type is int and given is not None:
                object.__setattr__(self, each.name, int(given))

    def _check_reranker(self) -> None:
        if self.rerank is None:
            return
        if not self.rerank.startswith(("st:", "http:")) or self.rerank.startswith("http://"):
            raise UsageError(
                f"{self.rerank!r} is no name of a reranker.",
                hint="Say st:FOLDER, or http:URL#MODEL with the whole URL: http:https://HOST/v1#MODEL.",
            )
        if self.query is None:
            raise UsageError("rerank needs a query.", hint="Give a query, or leave it out.")

    def _check_subject(self) -> None:
        """Refuse a search for nothing or for two things, and options that need a query where there is none."""
        if self.query is not None and self.like is not None:
            raise UsageError("A query and like exclude each other.", hint="Leave out one of them.")
        if not self.by_pattern_alone:
            return
        if self.regex is None:
            raise UsageError("There is nothing to search for.", hint="Give a query, like, or regex.")
        for name in _NEEDS_QUERY:
            if getattr(self, name) not in (None, "auto"):
                raise UsageError(
                    f"{name} needs a query: regex alone counts matches.", hint="Give a query or like, or leave it out."
                )


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Documents in groups: every option once, for all doors.

    The groups are computed, or written by a language model where one answers the instruction, or given by name.

    >>> GroupOptions("What broke?", k=5)
    GroupOptions(instruction='What broke?', k=5, into=None, several=False, where=None, by=None)
    """

    instruction: str | None = option(None, "Question that the groups answer.")
    k: int | None = option(
        None,
        "Number of groups, of those that a language model writes the most; left out or auto, it is chosen.",
        least=1,
    )
    into: list[str] | None = option(
        None, 'Your own categories: "refund, repair, nothing", or a file of names and descriptions.'
    )
    several: bool = option(False, "Allow several of your categories per document.")
    where: str | None = option(None, WHERE)
    by: list[str] | None = option(None, "Count the values of this field in each group; repeatable.")


@dataclass(frozen=True, slots=True)
class IndexType:
    """A choice of vector index; what is None stays as the index remembers it."""

    backend: str | None = option(
        None,
        "Vector backend: faiss (at first), exact or milvus=http://HOST:19530. Remembered for later builds.",
        advanced=True,
    )
    factory: str | None = option(
        None,
        "FAISS factory string, or with milvus FLAT, HNSW, IVF_SQ8 or GPU_CAGRA; auto (at first) chooses by size. "
        "Remembered for later builds.",
        advanced=True,
    )
    min_recall: float | None = option(
        None,
        "Least recall@10 of an approximate index, against exact search; 0.95 at first. Remembered for later builds.",
        advanced=True,
    )

    def to_json(self) -> dict[str, JSON]:
        """List the settings that are chosen, under the names of `BuildOptions`."""
        recall = None if self.min_recall is None else float(self.min_recall)
        chosen: dict[str, JSON] = {"factory": self.factory, "min_recall": recall}
        if self.backend is not None:
            chosen["backend"], _, chosen["location"] = self.backend.partition("=")
        return {key: value for key, value in chosen.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How far a search goes.

    >>> options = SearchOptions(rounds=1)
    >>> options.word_weight, options.among_answers().word_weight
    (0.2, 0.05)

    Attributes:
        candidates: depth of the rankings that are fused, and that a lazy search takes its candidates from.
        token_budget: tokens one lazy search may read anew, prompts included.
        prompt_tokens: what template and instruction add to a text, about.
        word_weight: what a point of BM25 is worth in hybrid mode, in spreads of a view's cosines.
        plain_weight: what a spread of the base encoder's cosines is worth under an instruction, in spreads of the view.
        unfollowed_plain_weight: likewise where the model does not answer the instruction.
        typical_share: the share of the budget that goes first to texts which show what is typical of the view.
        answer_word_weight: ``word_weight`` where answers in words serve the instruction: the text's own say less then.
        answer_plain_weight: likewise ``plain_weight``.
        rounds: how often a search under an instruction reads on, a budget each time, until its hits no longer change.
        costly_texts: texts of a round of a reader of which each text costs money or seconds.
        costly_rounds: rounds of such a reader.
        reranked: hits that a reranker reads, from the first.

    Raises:
        UsageError: a number is out of its range.
    """

    candidates: int = 100
    token_budget: int = 5_200
    prompt_tokens: int = 25
    typical_share: float = 0.25
    word_weight: float = 0.2
    plain_weight: float = 0.8
    unfollowed_plain_weight: float = 2.0
    answer_word_weight: float = 0.05
    answer_plain_weight: float = 0.25
    rounds: int = 3
    costly_texts: int = 20
    costly_rounds: int = 3
    reranked: int = 30

    def __post_init__(self) -> None:
        numbers = self.candidates, self.token_budget, self.rounds, self.costly_texts, self.costly_rounds, self.reranked
        if (
            min(numbers) < 1
            or self.prompt_tokens < 0
            or not 0 <= self.typical_share <= 1
            or min(self.word_weight, self.plain_weight, self.unfollowed_plain_weight) < 0
            or min(self.answer_word_weight, self.answer_plain_weight) < 0
        ):
            raise UsageError(
                f"{self} cannot be used.",
                hint="Depth, budgets and rounds are at least 1, the share lies between 0 and 1, no weight is below 0.",
            )

    def among_answers(self) -> "SearchOptions":
        """Return the options with the weights that hold where answers in words serve the instruction."""
        return replace(self, word_weight=self.answer_word_weight, plain_weight=self.answer_plain_weight)
