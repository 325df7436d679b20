"""An endpoint for embeddings whose vectors a person can compute, with faults on demand."""

import hashlib
import json
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from replay_server import serving

DIM = 512


def vector(text, dim=DIM):
    """Count words, each at the place that its hash gives; the first number is 1."""
    counts = [1.0] + [0.0] * (dim - 1)
    for word in text.lower().replace(".", " ").replace(",", " ").split():
        counts[int(hashlib.md5(word.encode()).hexdigest(), 16) % (dim - 1) + 1] += 2.0
    return counts


@dataclass
class Refusal:
    """A reply with an error status."""

    status: int
    message: str = "refused"
    headers: dict = field(default_factory=dict)


@dataclass
class EmbeddingModel:
    """The model behind the server and its faults.

    Attributes:
        vector: gives the vector of a text.
        then: faults of the next calls, one each: a `Refusal`, seconds to be late, a function that changes the reply,
            or None for none.
        always: a function that changes every reply or gives a `Refusal`, given reply and request.
        most_texts: of a call; more are refused.
        most_characters: of a text; a longer one is refused.
        own: whether it says that it is a server of this package, which takes instructions.
        sent: all requests, and ``answered`` the texts that were answered.
    """

    vector: object = vector
    then: deque = field(default_factory=deque)
    always: object = None
    most_texts: int | None = None
    most_characters: int | None = None
    own: bool = False
    sent: list = field(default_factory=list)
    answered: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    asked_about: list = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def texts(self):
        """Give all texts that came, in their order."""
        return [text for request in self.sent for text in request["input"]]

    def refusal(self, request):
        if self.most_texts is not None and len(request["input"]) > self.most_texts:
            return Refusal(422, f"batch size {len(request['input'])} > maximum allowed batch size {self.most_texts}")
        if self.most_characters is not None and any(len(text) > self.most_characters for text in request["input"]):
            return Refusal(400, "This model's maximum context length is 512 tokens.")
        return None

    def reply(self, request):
        """Give the reply without faults."""
        beside = request.get("instruction", "")
        texts = [f"{beside} {text}" for text in request["input"]]
        dim = request.get("dimensions")
        data = [
            {"object": "embedding", "index": place, "embedding": self.vector(text)[:dim]}
            for place, text in enumerate(texts)
        ]
        tokens = sum(1 + len(text) // 4 for text in texts)
        return {"object": "list", "data": data, "model": request["model"], "usage": {"prompt_tokens": tokens}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self):
        model, lock = self.server.model, self.server.lock
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            model.sent.append(request)
            model.headers.append(dict(self.headers))
            model.in_flight += 1
            model.most_in_flight = max(model.most_in_flight, model.in_flight)
            fault = model.then.popleft() if model.then else None
        try:
            made = self.made(model, request, fault)
            if isinstance(made, Refusal):
                return self.write(made.status, {"error": {"message": made.message}}, made.headers)
            with lock:
                model.answered += request["input"]
            self.write(200, made)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with lock:
                model.in_flight -= 1

    def made(self, model, request, fault):
        if self.path != "/v1/embeddings":
            return Refusal(404, "no such page")
        if isinstance(fault, int | float):
            time.sleep(fault)
        made = fault if isinstance(fault, Refusal) else model.refusal(request) or model.reply(request)
        for change in filter(callable, (fault, model.always)):
            made = made if isinstance(made, Refusal) else change(made, request)
        return made

    def do_GET(self):
        self.server.model.asked_about.append(self.path)
        if self.server.model.own and self.path.startswith("/v1/models/"):
            return self.write(200, {"id": self.path.rpartition("/")[2], "owned_by": "retriever"})
        self.write(404, {})

    def write(self, status, body, headers=()):
        data = json.dumps(body).encode()
        self.send_response(status)
        own = {"content-type": "application/json", "content-length": str(len(data))}
        for name, value in {**own, **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def serving_embeddings(model):
    """Serve a model and give the address of its endpoint."""
    return serving(model, Handler)
