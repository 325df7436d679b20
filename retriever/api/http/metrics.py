"""What is counted, as Prometheus reads it. Neither texts nor names of indexes are in it."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from retriever.serving.batching import Pass

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = (1, 2, 4, 8, 16, 32, 64)


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
