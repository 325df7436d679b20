"""`/indexes/NAME/answers`: answers to a question in words, shown to who may read, handed in by who may write."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer
from retriever.api.http.gate import WRITERS, Served
from retriever.api.http.indexes import IndexName

router = APIRouter(prefix="/indexes", tags=["Indexes"])
_QUESTION = "What broke?"


class AnswersBody(RequestBody):
    """Answers to a question; all are taken, or none."""

    instruction: str = Field(min_length=1, description="The question.")
    answers: dict[str, str | None] = Field(
        description="A phrase of at most twelve words by the id of its document (in an index of sentences, of its "
        "sentence); null takes back what was handed in."
    )


class AnswersState(BaseModel):
    """The state of a question that is answered in words."""

    instruction: str
    reader: str = Field(description="Who answers it: `given` where answers are handed in alone; empty for nobody.")
    answers: int = Field(description="Distinct texts that have an answer.")
    texts: int = Field(description="Distinct texts of the index.")
    vectors: int = Field(description="Of the view that serves it; its next search adds those of new answers.")


class QuestionAnswers(BaseModel):
    """The answers that serve a question."""

    instruction: str
    reader: str = Field(description="Who answers it: `given` where answers are handed in alone; empty for nobody.")
    answers: dict[str, str] = Field(description="By the ids of documents; none where an encoder serves it.")


@router.get("/{name}/answers", response_model=QuestionAnswers, summary="Show the answers to a question")
async def answers(
    service: Served,
    name: IndexName,
    instruction: Annotated[str, Query(min_length=1, description="The question.", examples=[_QUESTION])],
) -> Response:
    """Return the answers in words that serve a question, of a language model or handed in."""
    service.limits.check_instruction(instruction)

    def work() -> dict[str, Any]:
        teaching = service.index(name).teaching
        reader = teaching.answers_status(instruction).reader
        return {"instruction": instruction, "reader": reader, "answers": teaching.answers(instruction)}

    return answer(await service.workers.run(work))


@router.put(
    "/{name}/answers", dependencies=WRITERS, response_model=AnswersState, summary="Hand in answers to a question"
)
async def give(
    service: Served,
    name: IndexName,
    body: Annotated[
        AnswersBody, Body(examples=[{"instruction": _QUESTION, "answers": {"r-001": "the lid", "r-002": "not said"}}])
    ],
) -> Response:
    """Take answers, which searches and clusters under the question go by; they go before those of a language model."""
    return answer(await service.give_answers(name, body.instruction, body.answers))
