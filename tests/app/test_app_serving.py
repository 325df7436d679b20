import inspect
import re
import socket

import pytest

from retriever.cli.app import app
from retriever.core.errors import UsageError
from retriever_app import serving


def test_the_app_listens_on_this_machine_alone_unless_told_otherwise(tmp_path, monkeypatch):
    from streamlit.web import cli

    asked = []
    monkeypatch.setattr(cli, "main", lambda flags, **_: asked.append(flags))
    monkeypatch.setenv(serving.VARIABLE, "")
    options = inspect.signature(app).parameters
    for host in (options["host"].default, "0.0.0.0"):
        serving.serve(tmp_path, host=host, port=None, browser=False, tell=print)
    assert ["--server.address=127.0.0.1" in flags for flags in asked] == [True, False]
    off = {"--server.enableXsrfProtection=false", "--server.enableCORS=false", "--server.enableStaticServing=true"}
    assert not off & set(asked[0])
    assert "--browser.gatherUsageStats=false" in asked[0]


def test_where_the_app_is_is_said_at_the_first_free_port(tmp_path, monkeypatch):
    from streamlit.web import cli

    asked, said = [], []
    monkeypatch.setattr(cli, "main", lambda flags, **_: asked.append(flags))
    monkeypatch.setenv(serving.VARIABLE, "")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        monkeypatch.setattr(serving, "FIRST_PORT", first)
        serving.serve(tmp_path, host="127.0.0.1", port=None, browser=False, tell=said.append)
        serving.serve(tmp_path, host="0.0.0.0", port=None, browser=False, tell=said.append)
        with pytest.raises(UsageError, match=f"No port from {first} to {first} is free"):
            serving.serve(tmp_path, host="127.0.0.1", port=first, browser=False, tell=said.append)
    port = said[0].partition("127.0.0.1:")[2].partition(";")[0]
    assert int(port) > first
    assert f"--server.port={port}" in asked[0]
    assert said[1].startswith("The app is at http://localhost:")
    assert len(said) == 2
    assert "--logger.hideWelcomeMessage=true" in asked[0]  # nor what it advertises to those who write apps


@pytest.mark.parametrize("host", ["192.0.2.1", "no..host"])
def test_an_address_of_another_machine_is_an_error(host):
    with pytest.raises(UsageError, match=f"cannot listen at {re.escape(host)}"):
        serving.free_port(host, [8501])
