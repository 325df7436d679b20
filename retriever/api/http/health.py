"""`/health` and `/metrics`: whether the server answers, and what it counts."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from retriever.api.http.answers import answer
from retriever.api.http.gate import Served
from retriever.api.http.metrics import Metrics

router = APIRouter(tags=["Server"])


class Health(BaseModel):
    """A sign of life."""

    status: Literal["ok"]


@router.get("/health", response_model=Health, summary="Whether the server answers")
async def health() -> Response:
    """Answer; neither model nor index is touched, and no token is needed."""
    return answer({"status": "ok"})


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="Counters for Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: Served, request: Request) -> Response:
    """Tell what was counted since the server began."""
    counted: Metrics = request.app.state.metrics
    counted.waiting.set(service.queue.waiting)
    counted.jobs.set(sum(not job.snapshot().over for job in service.jobs.named("").values()))
    return Response(counted.page(), media_type=CONTENT_TYPE_LATEST)
