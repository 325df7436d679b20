"""Starts the app's server. Knows Streamlit's settings and none of the pages."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from retriever.core.addresses import PortTakenError, listening, url_of
from retriever.core.errors import UsageError
from retriever.serving.budget import MINUTES, READ_ON_VARIABLE

VARIABLE = "RETRIEVER_APP_INDEX"
"""The environment variable that tells the pages which index to show, or which folder of indexes."""
SCRIPT = Path(__file__).parent / "pages" / "streamlit_app.py"
FIRST_PORT = 8501
UPLOAD_MB = 200

_SETTINGS = {
    "browser.gatherUsageStats": "false",
    "logger.hideWelcomeMessage": "true",  # what it says and shows is for those who write apps
    "server.showEmailPrompt": "false",
    "server.fileWatcherType": "none",
    "runner.magicEnabled": "false",
    "runner.postScriptGC": "false",  # a look at every object of the model's libraries, after every redraw
    "client.toolbarMode": "viewer",
    "client.showErrorDetails": "none",
    "global.disableWidgetStateDuplicationWarning": "true",
    "theme.baseRadius": "6px",
    "theme.headingFontSizes": '["1.75rem", "1.35rem", "1.15rem", "1rem", "1rem", "1rem"]',
    "theme.light.primaryColor": "#2563a8",
    "theme.light.backgroundColor": "#ffffff",
    "theme.light.secondaryBackgroundColor": "#f3f5f8",
    "theme.light.textColor": "#1b2430",
    "theme.light.borderColor": "#d9dee6",
    "theme.dark.primaryColor": "#7fb5ec",
    "theme.dark.backgroundColor": "#12161c",
    "theme.dark.secondaryBackgroundColor": "#1b222b",
    "theme.dark.textColor": "#e5e9ef",
    "theme.dark.borderColor": "#323b47",
    "theme.dark.grayBackgroundColor": "#272f3a",
    "theme.light.grayBackgroundColor": "#edf0f4",
}


def free_port(host: str, ports: Sequence[int]) -> int:
    """Return the first of some ports at which nothing listens yet.

    Raises:
        UsageError: there is none, or this machine cannot listen at the address.
    """
    for port in ports:
        with suppress(PortTakenError), listening(host, port):
            return port
    raise UsageError(f"No port from {ports[0]} to {ports[-1]} is free.", hint="Name another with --port.")


def serve(
    index: Path,
    *,
    host: str,
    port: int | None,
    browser: bool,
    tell: Callable[[str], object],
    read_on: int = MINUTES,
) -> None:
    """Serve the app until it is interrupted.

    ``index`` is an index's folder, or a folder of indexes, made when the first one is; without a port the first free
    one from 8501 is taken. ``tell`` is told where the app is. In ``read_on`` minutes of the processor a day and index,
    texts are read under earlier questions while nobody waits.

    Raises:
        UsageError: ``index`` is a file, or nothing can listen there.
    """
    from streamlit.web import cli

    if index.is_file():
        raise UsageError(f"{index} is a file.", hint="Name an index's folder, or a folder of indexes, with --indexes.")
    os.environ |= {VARIABLE: str(index.absolute()), READ_ON_VARIABLE: str(read_on)}
    port = free_port(host, [port] if port else range(FIRST_PORT, FIRST_PORT + 1000))
    tell(f"The app is at {url_of(host, port)}; Ctrl-C stops it.")
    settings = _SETTINGS | {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "false" if browser else "true",
        "server.maxUploadSize": str(UPLOAD_MB),
    }
    flags = [f"--{name}={value}" for name, value in settings.items()]
    cli.main(["run", str(SCRIPT), *flags], standalone_mode=False)
