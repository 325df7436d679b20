"""`retriever mcp`: tools for agents over standard input and output."""

from pathlib import Path
from typing import Annotated

import typer


def mcp(
    index: Annotated[Path, typer.Option("--index", help="An index's folder, or a folder of indexes.")] = Path(
        "indexes"
    ),
) -> None:
    """Serve agents over the Model Context Protocol on stdin and stdout; `serve` has the same tools at /mcp.

    Example: retriever mcp --index indexes
    """
    from retriever.core.extras import require_extra

    require_extra("mcp")
    from retriever.api.mcp.run import run
    from retriever.api.settings import ServerSettings

    run(ServerSettings(index))
