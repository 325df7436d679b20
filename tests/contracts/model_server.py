"""The parts that servers of models have in common: JSON in, JSON out, and a thread for every call."""

import json
import threading
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Refusal:
    """A reply with an error status."""

    status: int
    message: str = "refused"
    headers: dict = field(default_factory=dict)
    param: str | None = None
    code: str | None = None


@dataclass
class ServedModel:
    """The model behind a server, and what it notes of calls.

    Attributes:
        then: faults of the next calls, one each, None for none.
        requests: all that came, and ``headers`` likewise.
        in_flight: calls that are being answered, and ``most_in_flight`` at any time.
    """

    then: deque = field(default_factory=deque)
    requests: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    def fault(self):
        """Give the fault of the call that came last."""
        return self.then.popleft() if self.then else None


class ModelHandler(BaseHTTPRequestHandler):
    """Reads requests and writes replies; callers that have died are no error. A subclass responds and looks up."""

    protocol_version = "HTTP/1.1"

    def handle(self):
        with suppress(ConnectionError):
            super().handle()

    def do_POST(self):
        model, lock = self.server.model, self.server.lock
        length = int(self.headers["content-length"])
        body = self.rfile.read(length)
        if len(body) < length:
            return  # the caller has died
        request = json.loads(body)
        with lock:
            model.requests.append(request)
            model.headers.append(dict(self.headers))
            model.in_flight += 1
            model.most_in_flight = max(model.most_in_flight, model.in_flight)
            fault = model.fault()
        try:
            self.respond(model, request, fault)
        finally:
            with lock:
                model.in_flight -= 1

    def do_GET(self):
        self.write(*self.look_up(self.server.model))

    def look_up(self, model):
        """Give status and body of the page at ``path``."""
        return 404, {}

    def refuse(self, refusal):
        error = {"message": refusal.message, "param": refusal.param, "code": refusal.code}
        self.write(refusal.status, {"error": error}, refusal.headers)

    def write(self, status, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        own = {"content-type": "application/json", "content-length": str(len(data))}
        for name, value in {**own, **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.send(data)

    def send(self, data):
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def serving_by(handler, model):
    """Serve a model and give the address of its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.model, server.lock = model, threading.Lock()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
