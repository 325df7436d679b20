import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
import streamlit as st
from app_checks import opened
from app_fakes import REVIEWS, KeywordEncoder, documents, load_encoder
from browsing import SLOW

from retriever.workspace import Index
from retriever_app.serving import SCRIPT, VARIABLE


@dataclass(frozen=True)
class Served:
    """A server that runs: its address and the number of its process."""

    address: str
    pid: int


@pytest.fixture
def indexes(tmp_path, monkeypatch):
    """Give an empty folder of indexes that the app shows, with the keyword encoder for every encoder."""
    folder = tmp_path / "indexes"
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load_encoder)
    st.cache_resource.clear()
    st.cache_data.clear()
    return folder


@pytest.fixture
def make(indexes):
    """Make an index of reviews and return its folder."""

    def index(name="reviews", rows=REVIEWS, instructions=()):
        with Index(indexes / name, encoder=load_encoder()) as made:
            made.add(documents(rows), instructions=instructions)
        return indexes / name

    return index


@pytest.fixture
def app(indexes):
    """Open a page of the app, with these query parameters, in a session of its own."""
    return opened


@pytest.fixture
def gated(monkeypatch):
    """Have every encoder wait for its gate before it reads."""
    encoder = KeywordEncoder(gate=threading.Event())
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *args, **options: encoder)
    return encoder


@contextlib.contextmanager
def running(folder, place):
    """Run the real app over the keyword encoder; its log and settings lie in another folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("app_fakes.py")
    command = [sys.executable, str(script), "app", "--indexes", str(folder), "--no-browser", "--port", str(port)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[2]), *sys.path]),
        "RETRIEVER_CONFIG": str(place / "user"),
        "RETRIEVER_READ_ON": "0",
    }
    with (place / "app.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield Served(_address(server, port, place / "app.log"), server.pid)
        finally:
            server.terminate()
            server.wait()


def _address(server, port, log):
    """Wait until a server answers and return where it is."""
    address = f"http://127.0.0.1:{port}"
    for _ in range(240):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=5).close()
            return address
        assert server.poll() is None, log.read_text()
        time.sleep(0.25)
    raise AssertionError(log.read_text())


@pytest.fixture
def serve(tmp_path):
    """Start the real app over the keyword encoder and return where it is."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(running(folder, tmp_path))


@pytest.fixture(scope="module")
def serve_module(tmp_path_factory):
    """As `serve`, for all tests of a module."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(running(folder, tmp_path_factory.mktemp("served")))


@pytest.fixture
def page(browser):
    """Give an empty page as wide as a laptop's screen."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    page.set_default_timeout(SLOW)
    return page
