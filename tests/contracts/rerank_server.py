"""A reranker's endpoint in both dialects. The score of a text is the number of its characters, or what a test says."""

import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Scorer:
    """The model behind the server.

    Attributes:
        dialect: ``documents`` (Jina, Cohere, vLLM, infinity) or ``texts`` (TEI).
        score: what it gives for a query and a text.
        reply: takes the place of the reply, given the usual one: an object, or bytes to send as they are.
        status: of the reply.
        seconds: to be late.
        dies: whether it ends the connection without a reply.
    """

    dialect: str = "documents"
    score: object = lambda query, text: len(text)
    reply: object = None
    status: int = 200
    seconds: float = 0.0
    dies: bool = False
    requests: list = field(default_factory=list)
    paths: list = field(default_factory=list)

    @property
    def read(self):
        """Give the texts of every request that it understood."""
        return [request[self.dialect] for request in self.requests if self.dialect in request]

    def made(self, request):
        if self.dialect not in request:
            return 422, {"error": f"missing field `{self.dialect}`", "error_type": "Validation"}
        name = "relevance_score" if self.dialect == "documents" else "score"
        scores = [self.score(request["query"], text) for text in request[self.dialect]]
        rows = [{"index": place, name: score} for place, score in enumerate(scores)]
        rows.sort(key=lambda row: -row[name])  # servers give the best first
        usual = {"id": "1", "results": rows} if self.dialect == "documents" else rows
        return self.status, usual if self.reply is None else self.reply(usual)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        scorer = self.server.scorer
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        scorer.requests.append(request)
        scorer.paths.append(self.path)
        if scorer.dies:
            self.close_connection = True
            return
        time.sleep(scorer.seconds)
        status, made = scorer.made(request)
        body = made if isinstance(made, bytes) else json.dumps(made).encode()
        with suppress(ConnectionError):  # who asked has gone
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def reranking(scorer):
    """Serve a reranker and give the name by which a search asks for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.scorer = True, scorer
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http:http://127.0.0.1:{server.server_port}/v1#tiny"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
