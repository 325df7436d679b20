"""`/v1/embeddings` and `/v1/models`, as OpenAI's clients speak them, with an instruction besides."""

import base64
import time
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Body
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BaseModel, Field, field_validator, model_validator

from retriever.api.http.answers import Body as RequestBody
from retriever.api.http.answers import answer
from retriever.api.http.gate import Served
from retriever.api.problems import NotFoundError
from retriever.core.errors import UsageError
from retriever.core.types import Embeddings

router = APIRouter(prefix="/v1", tags=["OpenAI"])
_STARTED = int(time.time())

_EXAMPLES: dict[str, Any] = {
    "instruction": {
        "summary": "Under an instruction",
        "value": {
            "model": "default",
            "input": ["it stopped working after a few days", "my son loves it"],
            "instruction": "What kind of product is this review about?",
        },
    },
    "plain": {"summary": "Without one", "value": {"model": "minilm", "input": "it stopped working"}},
}


class EmbeddingsRequest(RequestBody):
    """A request for embeddings."""

    input: str | list[str] = Field(description="One text or several; no token ids.")
    model: str | None = Field(
        default=None,
        description="A name of /v1/models: a model, or MODEL@NAME for a saved instruction. Left out, it is the first.",
    )
    instruction: str | None = Field(default=None, description="What to look at in every text, in plain words.")
    prompt: str | None = Field(default=None, description="Another name for `instruction`.")
    input_type: Literal["document", "query"] = Field(
        default="document", description="query: what is searched for, which some models read in another way."
    )
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="base64: of float32 values, little-endian."
    )
    dimensions: int | None = Field(
        default=None, description="The model's own length of a vector, or left out: vectors cannot be shortened."
    )
    user: str | None = Field(default=None, description="Taken and not used, as OpenAI's clients may send it.")

    @field_validator("input", mode="before")
    @classmethod
    def _no_token_ids(cls, given: object) -> object:
        first = given[0] if isinstance(given, list) and given else None
        if isinstance(first, int) or (isinstance(first, list) and all(isinstance(token, int) for token in first)):
            raise UsageError(
                "input holds token ids, of another model's tokenizer; this server takes texts.",
                hint="LangChain's OpenAIEmbeddings sends texts with check_embedding_ctx_length=False.",
            )
        return given

    @model_validator(mode="after")
    def _one_instruction(self) -> "EmbeddingsRequest":
        if self.instruction is not None and self.prompt is not None:
            raise UsageError("instruction and prompt are the same field.", hint="Send one of them.")
        return self


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens of the texts; those of the instruction are not counted."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(BaseModel):
    """Vectors of length 1, in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """A model, or one with a saved instruction."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    instruction: str | None = Field(description="The saved instruction; null without one.")


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[Model]


@router.post("/embeddings", response_model=EmbeddingsAnswer, summary="Embed texts under an instruction")
async def embeddings(service: Served, body: Annotated[EmbeddingsRequest, Body(openapi_examples=_EXAMPLES)]) -> Response:
    """Embed texts; requests that wait at the same time are read together.

    A field that is not known is refused by name.
    """
    texts = [body.input] if isinstance(body.input, str) else body.input
    prompt = (body.instruction or body.prompt or "").strip()
    service.limits.check_texts(texts, "input")
    service.limits.check_instruction(prompt)
    model = service.settings.encoder if body.model is None else body.model
    instruction = service.instruction_of(model, prompt)
    if body.dimensions is not None:
        dim = (await service.loaded(model)).dim
        if body.dimensions != dim:
            raise UsageError(
                f"dimensions is {body.dimensions}; the vectors of {model} have {dim}.",
                hint="Leave it out: the model is not trained for shortened vectors, so they would mean less.",
            )
    embedded = await service.embed(model, texts, instruction, queries=body.input_type == "query")
    return answer(
        {
            "object": "list",
            "data": [
                {"object": "embedding", "index": place, "embedding": vector}
                for place, vector in enumerate(_written(embedded.views[0].embeddings, body.encoding_format))
            ],
            "model": model,
            "usage": {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens},
        }
    )


@router.get("/models", response_model=ModelList, summary="List the models")
async def models(service: Served) -> Response:
    """List the models, and each with every saved instruction."""
    return answer({"object": "list", "data": [_described(service, name) for name in service.model_names()]})


@router.get("/models/{model:path}", response_model=Model, summary="Describe a model")
async def model(service: Served, model: Annotated[str, InPath(examples=["default"])]) -> Response:
    """Describe one model."""
    if model not in service.model_names():
        raise NotFoundError(f"There is no model {model!r} here.", hint="GET /v1/models lists them.")
    return answer(_described(service, model))


def _described(service: Served, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": _STARTED,
        "owned_by": "retriever",
        "instruction": service.instruction_of(name, "") or None,
    }


def _written(vectors: Embeddings, form: str) -> list[Any]:
    if form == "base64":
        return [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
    rows: list[Any] = vectors.astype(np.float64).tolist()
    return rows
