"""Starts the app's server. Knows Streamlit's settings and none of the pages."""

import os
from pathlib import Path

from retriever.core.errors import UsageError
from retriever_app.place import VARIABLE

SCRIPT = Path(__file__).with_name("streamlit_app.py")
HOST = "127.0.0.1"
UPLOAD_MB = 200

_SETTINGS = {
    "browser.gatherUsageStats": "false",
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


def serve(index: Path, *, host: str = HOST, port: int | None = None, browser: bool = True) -> None:
    """Serve the app until it is interrupted.

    Args:
        index: an index's folder, or a folder of indexes; made when the first one is.
        host: the address to listen at.
        port: the port; None for the first free one from 8501.
        browser: open the app in a browser.

    Raises:
        UsageError: ``index`` is a file.
    """
    from streamlit.web import cli

    if index.is_file():
        raise UsageError(f"{index} is a file.", hint="Name an index's folder, or a folder of indexes, with --index.")
    os.environ[VARIABLE] = str(index.absolute())
    settings = _SETTINGS | {
        "server.address": host,
        "server.headless": "false" if browser else "true",
        "server.maxUploadSize": str(UPLOAD_MB),
    }
    if port is not None:
        settings["server.port"] = str(port)
    flags = [f"--{name}={value}" for name, value in settings.items()]
    cli.main(["run", str(SCRIPT), *flags], standalone_mode=False)
