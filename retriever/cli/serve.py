"""`retriever serve`: indexes and embeddings over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

_TOKEN = "File with the token that {who}; else RETRIEVER_{variable}."


def serve(  # noqa: PLR0913 - one parameter per option
    index: Annotated[Path, typer.Option("--index", help="An index's folder, or a folder of indexes.")] = Path(
        "indexes"
    ),
    shards: Annotated[
        Path | None, typer.Option(help="Folder of an index split by `shard`; each shard is served by a Ray actor.")
    ] = None,
    ray: Annotated[str, typer.Option(help="Address of a Ray cluster for --shards; local starts one here.")] = "local",
    host: Annotated[
        str, typer.Option(help="Address to listen at; one that others reach takes a token.", envvar="RETRIEVER_HOST")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.", envvar="RETRIEVER_PORT")] = 8600,
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
    seconds: Annotated[float, typer.Option(help="Most seconds until an answer.")] = 60,
    body_mb: Annotated[int, typer.Option("--body-mb", help="Most megabytes of a request.")] = 16,
    waiting_texts: Annotated[int, typer.Option(help="Texts that may wait for the model; more are refused.")] = 4096,
) -> None:
    """Serve embeddings (as OpenAI's clients ask for them), search and clusters over HTTP, and tools over MCP at /mcp.

    Example: retriever serve --index indexes --port 8600
    """
    from retriever.cli.output import say
    from retriever.core.extras import require_extra

    require_extra("serve")
    from retriever.api.http.run import serve as run
    from retriever.api.limits import ServerLimits
    from retriever.api.settings import ServerSettings, read_instructions, read_tokens

    settings = ServerSettings(
        shards or index,
        host,
        port,
        encoder,
        read_tokens(token_file, writer_token_file),
        {} if instructions is None else read_instructions(instructions),
        ServerLimits(seconds=seconds, body_bytes=body_mb * 1_000_000, waiting_texts=waiting_texts),
        None if shards is None else ray,
    )
    run(settings, tell=say)
