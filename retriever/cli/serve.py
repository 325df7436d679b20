"""`retriever app`, `serve` and `mcp`: indexes in a browser, over HTTP and for agents."""

from pathlib import Path
from typing import Annotated

import typer

FolderOption = Annotated[Path, typer.Option("--index", help="An index's folder, or a folder of indexes.")]

_FOLDER = Path("indexes")
_TOKEN = "File with the token that {who}; else RETRIEVER_{variable}."


def app(
    index: FolderOption = _FOLDER,
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
    from retriever.core.registry import require_extra

    require_extra("app")
    from retriever_app.serving import serve

    serve(index, host=host, port=port, browser=browser, tell=say)


def serve(  # noqa: PLR0913 - one parameter per option
    index: FolderOption = _FOLDER,
    host: Annotated[
        str, typer.Option(help="Address to listen at; one that others reach takes a token.", envvar="RETRIEVER_HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port; 0 for any that is free.", envvar="RETRIEVER_PORT", min=0, max=65_535)
    ] = 8600,
    encoder: Annotated[
        str, typer.Option(help="Model of /v1/embeddings, as `models list` names it.", envvar="RETRIEVER_ENCODER")
    ] = "default",
    instructions: Annotated[
        Path | None, typer.Option(help='TOML file of saved instructions, lines NAME = "INSTRUCTION".')
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=_TOKEN.format(who="requests must bring", variable="TOKEN"))
    ] = None,
    writer_token_file: Annotated[
        Path | None, typer.Option(help=_TOKEN.format(who="changes documents", variable="WRITER_TOKEN"))
    ] = None,
    seconds: Annotated[float, typer.Option(help="Most seconds until an answer.", min=0.1)] = 60,
    body_mb: Annotated[int, typer.Option("--body-mb", help="Most megabytes of a request.", min=1)] = 16,
    waiting_texts: Annotated[
        int, typer.Option(help="Texts that may wait for the model; more are refused.", min=1)
    ] = 4096,
) -> None:
    """Serve embeddings (as OpenAI's clients ask for them), search and clusters over HTTP, and tools over MCP at /mcp.

    Example: retriever serve --index indexes --port 8600
    """
    from retriever.cli.output import say
    from retriever.core.registry import require_extra

    require_extra("serve")
    from retriever.api.http.run import serve as run
    from retriever.api.settings import ServerLimits, ServerSettings, read_instructions, read_tokens

    settings = ServerSettings(
        index,
        host,
        port,
        encoder,
        read_tokens(token_file, writer_token_file),
        {} if instructions is None else read_instructions(instructions),
        ServerLimits(seconds=seconds, body_bytes=body_mb * 1_000_000, waiting_texts=waiting_texts),
    )
    run(settings, tell=say)


def mcp(
    index: FolderOption = _FOLDER,
    write: Annotated[bool, typer.Option("--write", help="Let agents hand in answers to questions.")] = False,
) -> None:
    """Serve agents over the Model Context Protocol on stdin and stdout; `serve` has the same tools at /mcp.

    With --write an agent can read for an index: it is handed texts, and what it answers is what searches go by.

    Example: retriever mcp --index indexes
    """
    from retriever.core.registry import require_extra

    require_extra("mcp")
    from retriever.api.mcp.server import run
    from retriever.api.settings import ServerSettings

    run(ServerSettings(index), writing=write)
