"""What the endpoints of indexes answer with, as the page of the interface describes it."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class Names(BaseModel):
    """The names of the indexes."""

    indexes: list[str]


class FoundDocument(BaseModel):
    """A document."""

    id: str
    text: str
    metadata: dict[str, Any]


class FoundDocuments(BaseModel):
    """Documents by id, in the order asked for, and the ids that are not there."""

    documents: list[FoundDocument]
    missing: list[str]


class FoundUnit(BaseModel):
    """The sentence of a document that was found, and where it stands in the text, in characters."""

    id: str
    number: int
    start: int
    end: int
    text: str


class FoundHit(BaseModel):
    """A document found; see docs/cli.md for its numbers."""

    rank: int
    id: str
    score: float | None
    fused: float
    dense_rank: int | None
    lexical_rank: int | None
    text: str
    unit: FoundUnit | None
    metadata: dict[str, Any]
    words: list[str]
    percentile: float | None


class AnsweredWord(BaseModel):
    """A word that the model answers, and with how many texts."""

    word: str
    texts: int


class FoundVerdict(BaseModel):
    """Whether the model follows an instruction, by a sample of the texts; docs/cli.md tells its parts."""

    instruction: str
    level: Literal["followed", "unclear", "hardly"]
    chance: float
    texts: int
    answers: list[AnsweredWord]
    measured: bool
    sentence: str


class SearchAnswer(BaseModel):
    """The answer to a search, as `retriever search --json` prints it."""

    schema_version: int
    query: str
    instruction: str
    view: int | None
    path: Literal["base", "complete", "lazy"]
    mode: Literal["dense", "lexical", "hybrid"]
    steps: int | None
    hits: list[FoundHit]
    took_ms: float
    seen: float = Field(default=1, description="Share of the documents searched, where that is below 1.")
    verdict: FoundVerdict | None = Field(
        description="Whether the model follows the instruction; null without one, and as long as nobody has looked."
    )
