"""The server itself: whether it lives and is ready, metrics for Prometheus, and a page that reaches no other host."""

import re
from base64 import b64encode
from functools import partial
from hashlib import sha256
from typing import Literal

import anyio
from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel

from retriever.api.http.answers import answer
from retriever.api.http.gate import PAGE_PARTS, Served
from retriever.serving.batching import Pass

router = APIRouter(tags=["Server"])
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


class Health(BaseModel):
    """A sign of life."""

    status: Literal["ok"]


@router.get("/health", response_model=Health, summary="Whether the server answers")
async def health() -> Response:
    """Answer; neither model nor index is touched, and no token is needed."""
    return answer({"status": "ok"})


class Ready(BaseModel):
    """The server can answer."""

    status: Literal["ready"]


@router.get("/ready", response_model=Ready, summary="Whether the server can do what it is asked")
async def ready(service: Served) -> Response:
    """Answer 200 where its folder can be read and it is not stopping, else 503 with the reason; no token is needed."""
    await anyio.to_thread.run_sync(service.check_ready)
    return answer({"status": "ready"})


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
    counted.readings.set(len(service.readings.unfinished()))
    jobs = list(service.unfinished_jobs().values())
    counted.waiting_jobs.set(jobs.count("waiting"))
    counted.jobs.set(len(jobs) - jobs.count("waiting"))
    return Response(counted.page(), media_type=CONTENT_TYPE_LATEST)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram, names = partial(Histogram, registry=self.registry), ("method", "route")
        self._requests = counter("retriever_requests", "Answers sent.", (*names, "status"))
        self._seconds = histogram("retriever_request_seconds", "Time to an answer.", names, buckets=_SECONDS)
        self._texts = counter("retriever_model_texts", "Texts that the model read.")
        self._passes = histogram("retriever_model_pass_texts", "Texts of a pass of the model.", buckets=_TEXTS)
        self._pass_requests = counter("retriever_model_pass_requests", "Requests that passes of the model served.")
        self._pass_seconds = counter("retriever_model_seconds", "Time the model has worked.")
        self.waiting = gauge("retriever_waiting_texts", "Texts that wait for the model.")
        self.readings = gauge("retriever_readings", "Searches that texts are read for.")
        self.jobs = gauge("retriever_running_jobs", "Jobs that are running.")
        self.waiting_jobs = gauge("retriever_waiting_jobs", "Jobs that wait to write to an index.")

    def count_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = method if method in ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def count_pass(self, done: Pass) -> None:
        """Count a pass of the model."""
        self._texts.inc(done.texts)
        self._passes.observe(done.texts)
        self._pass_requests.inc(done.requests)
        self._pass_seconds.inc(done.seconds)

    def page(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self.registry)


@router.get("/docs", include_in_schema=False)
async def page() -> Response:
    """Show every endpoint with its examples; they can be tried there."""
    script, style = (f"docs/{part}" for part in PAGE_PARTS)
    html = get_swagger_ui_html(
        openapi_url="openapi.json",
        title="retriever",
        swagger_js_url=script,
        swagger_css_url=style,
        swagger_favicon_url="data:,",
        swagger_ui_parameters={"validatorUrl": None, "tryItOutEnabled": True},
    )
    (start,) = re.findall(rb"<script>(.*?)</script>", html.body, re.DOTALL)
    policy = (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{b64encode(sha256(start).digest()).decode()}'",
        "style-src 'self' 'unsafe-inline'",  # of the parts that Swagger UI draws
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    html.headers["Content-Security-Policy"] = "; ".join(policy)
    return html
