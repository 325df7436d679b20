"""The server itself: `/health`, `/metrics` as Prometheus reads it, and `/docs`, a page that reaches no other host."""

from base64 import b64encode
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel

from retriever.api.http.answers import answer
from retriever.api.http.gate import PAGE_PARTS, Served
from retriever.api.problems import NotFoundError
from retriever.core.errors import RetrieverError
from retriever.serving.batching import Pass

router = APIRouter(tags=["Server"])
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)
_SCRIPT, _STYLE = PAGE_PARTS
_START = """
SwaggerUIBundle({
  url: "openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null, tryItOutEnabled: true,
  presets: [SwaggerUIBundle.presets.apis],
});
"""
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>retriever</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/{_STYLE}">
</head>
<body>
<div id="page"></div>
<script src="docs/{_SCRIPT}"></script>
<script>{_START}</script>
</body>
</html>
"""
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{b64encode(sha256(_START.encode()).digest()).decode()}'",
        "style-src 'self' 'unsafe-inline'",  # of the parts that Swagger UI draws
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


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


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ("method", "route")
        self._requests = Counter("retriever_requests", "Answers sent.", (*names, "status"), registry=self.registry)
        self._seconds = Histogram(
            "retriever_request_seconds", "Time to an answer.", names, buckets=_SECONDS, registry=self.registry
        )
        self._texts = Counter("retriever_model_texts", "Texts that the model read.", registry=self.registry)
        self._passes = Histogram(
            "retriever_model_pass_texts", "Texts of a pass of the model.", buckets=_TEXTS, registry=self.registry
        )
        self._pass_requests = Counter(
            "retriever_model_pass_requests", "Requests that passes of the model served.", registry=self.registry
        )
        self._pass_seconds = Counter("retriever_model_seconds", "Time the model has worked.", registry=self.registry)
        self.waiting = Gauge("retriever_waiting_texts", "Texts that wait for the model.", registry=self.registry)
        self.jobs = Gauge("retriever_running_jobs", "Jobs that are running.", registry=self.registry)

    def count_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = method if method in ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    def count_pass(self, one: Pass) -> None:
        """Count a pass of the model."""
        self._texts.inc(one.texts)
        self._passes.observe(one.texts)
        self._pass_requests.inc(one.requests)
        self._pass_seconds.inc(one.seconds)

    def page(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self.registry)


@router.get("/docs", include_in_schema=False)
async def page() -> Response:
    """Show every endpoint with its examples; they can be tried there."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/{name}", include_in_schema=False)
async def part(name: str) -> Response:
    """Return the script or the style of the page.

    Raises:
        NotFoundError: it is neither.
    """
    if name not in PAGE_PARTS:
        raise NotFoundError("There is no such address.", hint="The page is /docs.")
    return FileResponse(_folder() / name, headers={"Cache-Control": "max-age=86400"})


def _folder() -> Path:
    """Return where Swagger UI lies, the files of its own release, which the package fastapi-swagger brings.

    Raises:
        RetrieverError: the package is not there.
    """
    spec = find_spec("fastapi_swagger")
    if spec is None or spec.origin is None:
        raise RetrieverError("The package 'fastapi_swagger' is missing.", hint="pip install 'retriever[serve]'")
    return Path(spec.origin).parent / "resources"
