"""A server at a free port of this machine over indexes that a person can compute."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.api.http.app import make_app
from retriever.api.http.run import server_of
from retriever.api.service import Service
from retriever.api.settings import Tokens
from retriever.core.addresses import listening, url_of
from retriever.core.protocols import EncoderSpec
from retriever.core.types import Encoded

READER, WRITER = "reader-token-0123456789", "writer-token-0123456789"
TOKENS = Tokens(READER, WRITER)
WAIT = 120  # seconds; a busy machine


class AnyEncoder(FakeEncoder):
    """A `FakeEncoder` under any instruction: one that it does not know asks for the keywords of PRODUCT.

    Reads nothing while ``go`` is not set; ``began`` says that it was asked to.
    """

    spec = EncoderSpec("", 16, name="any")

    def __init__(self, name="any"):
        super().__init__(name)
        self.began, self.go = threading.Event(), threading.Event()
        self.go.set()

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.began.set()
        assert self.go.wait(WAIT)
        known = [one if one.strip() in KEYWORDS else PRODUCT for one in instructions]
        found = super().encode_views(texts, known, words=words)
        if on_tokens is not None:
            on_tokens(len(texts))
        return [Encoded(one.embeddings, one.words) for one in found]


@dataclass
class Running:
    """A server that runs: its address, what it serves, and a client of its own."""

    url: str
    service: Service
    http: httpx.Client
    app: object

    def post(self, path, body=None, *, token=None, **options):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.http.post(path, json=body, headers=headers, **options)

    def get(self, path, *, token=None, **options):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.http.get(path, headers=headers, **options)

    def lives(self):
        return self.http.get("/health").json() == {"status": "ok"}


@contextmanager
def running(settings, load):
    """Serve on another thread until the block ends."""
    app = make_app(settings, load=load)
    server = server_of(app, settings)
    with listening(settings.host, 0) as place:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        url = url_of(*place.getsockname()[:2])
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            with httpx.Client(base_url=url, timeout=WAIT) as client:
                yield Running(url, app.state.service, client, app)
        finally:
            server.should_exit = True
            thread.join(WAIT)
            assert not thread.is_alive()


def refused(response, status, code, *parts):
    """Whether an answer is this error, in our words."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code, error
    assert not error["hint"] or error["hint"] not in error["message"]  # nothing is said twice
    missing = [part for part in parts if part not in f"{error['message']} {error['hint']}"]
    assert not missing, error
    return True
