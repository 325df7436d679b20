"""`retriever app`, `serve` and `mcp`: indexes in a browser, over HTTP and for agents."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from retriever.cli.output import say
from retriever.core.addresses import LOOPBACK
from retriever.core.registry import require_extra
from retriever.serving.budget import MINUTES, READ_ON_VARIABLE

ReadOnOption = Annotated[
    int,
    typer.Option(
        help="Minutes of processor time, for each index and day, to read on under earlier questions while nobody "
        "waits; 0 is off.",
        envvar=READ_ON_VARIABLE,
        min=0,
    ),
]
FolderOption = Annotated[Path, typer.Option("--indexes", help="Folder of indexes, or of one index.")]

_FOLDER = Path("indexes")
_TOKEN = "File with the token that {who}; or set RETRIEVER_{variable}."


def app(
    indexes: FolderOption = _FOLDER,
    host: Annotated[str, typer.Option(help="Address to listen on; 127.0.0.1 serves this machine alone.")] = LOOPBACK,
    port: Annotated[int | None, typer.Option(help="Port. [default: the first free one from 8501]")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the app in a browser.")] = True,
    read_on: ReadOnOption = MINUTES,
) -> None:
    """Explore indexes in a browser.

    Its pages index files, search, compare, cluster, report, teach and train.

    Example: retriever app --indexes indexes
    """
    require_extra("app")
    from retriever_app.serving import serve

    serve(indexes, host=host, port=port, browser=browser, read_on=read_on, tell=say)


def serve(  # noqa: PLR0913 - one parameter per option
    indexes: FolderOption = _FOLDER,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; one that other machines reach needs a token.", envvar="RETRIEVER_HOST"
        ),
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option(help="Port; 0 for any free one.", envvar="RETRIEVER_PORT", min=0, max=65_535)
    ] = 8600,
    encoder: Annotated[
        str, typer.Option(help="Model of /v1/embeddings, as `models list` names it.", envvar="RETRIEVER_ENCODER")
    ] = "default",
    instructions: Annotated[
        Path | None, typer.Option(help='TOML file of named instructions, lines NAME = "INSTRUCTION".')
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help=_TOKEN.format(who="all requests need", variable="TOKEN"))
    ] = None,
    writer_token_file: Annotated[
        Path | None, typer.Option(help=_TOKEN.format(who="changes to documents need", variable="WRITER_TOKEN"))
    ] = None,
    seconds: Annotated[float, typer.Option(help="Longest time of a request, in seconds.", min=0.1, hidden=True)] = 60,
    body_mb: Annotated[int, typer.Option("--body-mb", help="Largest request, in megabytes.", min=1, hidden=True)] = 16,
    waiting_texts: Annotated[
        int, typer.Option(help="Most texts that wait for the model; more are refused.", min=1, hidden=True)
    ] = 4096,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        typer.Option(help="What goes to stderr; info has a line for every request."),
    ] = "info",
    read_on: ReadOnOption = MINUTES,
) -> None:
    """Serve embeddings, search and clusters over HTTP and MCP.

    Clients of OpenAI's API find embeddings at /v1/embeddings; agents find tools at /mcp.

    Example: retriever serve --indexes indexes --port 8600
    """
    require_extra("serve")
    from retriever.api.http.run import serve as run
    from retriever.api.settings import ServerLimits, ServerSettings, read_instructions, read_tokens

    settings = ServerSettings(
        indexes,
        host,
        port,
        encoder,
        read_tokens(token_file, writer_token_file),
        {} if instructions is None else read_instructions(instructions),
        ServerLimits(seconds=seconds, body_bytes=body_mb * 1_000_000, waiting_texts=waiting_texts),
        read_on,
    )
    run(settings, tell=say, log_level=log_level)


def mcp(
    indexes: FolderOption = _FOLDER,
    write: Annotated[bool, typer.Option("--write", help="Let agents add answers to questions.")] = False,
) -> None:
    """Serve agents over MCP on stdin and stdout.

    `retriever serve` offers the same tools at /mcp. With --write an agent can read for an index: it receives texts, and
    searches use the answers that it returns.

    Example: retriever mcp --indexes indexes
    """
    require_extra("mcp")
    from retriever.api.mcp.server import run
    from retriever.api.settings import ServerSettings

    run(ServerSettings(indexes, read_on=0), writing=write)
