"""`retriever app`: the app in a browser."""

from pathlib import Path
from typing import Annotated

import typer


def app(
    index: Annotated[Path, typer.Option("--index", help="An index's folder, or a folder of indexes.")] = Path(
        "indexes"
    ),
    host: Annotated[str, typer.Option(help="Address to listen at; others than this machine get in by another.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int | None, typer.Option(help="Port; the first free one from 8501 by default.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the app in a browser.")] = True,
) -> None:
    """Explore reviews in a browser: index a file, search and compare under instructions, look at clusters, train.

    Example: retriever app --index indexes
    """
    from retriever.cli.output import say
    from retriever.core.extras import require_extra

    require_extra("app")
    from retriever_app.serving import serve

    serve(index, host=host, port=port, browser=browser, tell=say)
