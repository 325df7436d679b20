"""An index of twenty texts that a fake reader answers a question about, and runs of it in processes of their own."""

import os
import signal
import time

import pytest
from answer_fakes import FakeReader, loads
from index_fakes import FakeEncoder, documents

from retriever.core.requests import SearchRequest
from retriever.workspace import Index

WHO = "Who wrote it?"
PRODUCTS = ["kettle", "toy", "lamp"]
TEXTS = [f"{product} {mood} {row}" for row in range(5) for product in ("toy", "lamp") for mood in ("sad", "calm")]


@pytest.fixture
def reader(monkeypatch):
    """The language model that answers, in the place of one behind an endpoint."""
    return loads(monkeypatch, FakeReader(PRODUCTS))


def opened(path, **options):
    """Open the index of a folder."""
    return Index(path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), **options)


def made(path, **options):
    """Make an index of the texts; its ids are a, b, c, ..."""
    index = opened(path, **options)
    index.add(documents(*TEXTS))
    return index


def load(described):
    """Give the encoder of a description."""
    return FakeEncoder(described["fingerprint"].rstrip("0"))


def search(index, query="toy", **options):
    """Return the last answer to a query under the question."""
    *_, last = index.search_progressively(SearchRequest(query, instruction=WHO, **options))
    return last


def words(result):
    """Return the answers that hits show, by document id."""
    return {hit.document.id: list(hit.words) for hit in result.hits}


class Logged(FakeReader):
    """Notes the texts that it is sent in a file, slowly, and ends its process at one of them."""

    def __init__(self, log, deadly):
        super().__init__(PRODUCTS)
        self._log, self._deadly = log, deadly

    def said(self, text, question):
        with self._log.open("a") as log:
            log.write(f"{text}\n")
        if text == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
        return super().said(text, question)


def read_in_process(path, log, together, deadly=""):
    """Have the question of an index read, once all who read it together are there."""
    with pytest.MonkeyPatch.context() as patch, opened(path) as index:
        loads(patch, Logged(log, deadly))
        together.wait()
        index.teaching.read(WHO)
        assert len(index.teaching.answers(WHO)) == len(TEXTS)
