"""`retriever reembed`: the same documents under another encoder."""

from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, IndexOption, JsonOption
from retriever.core.errors import UsageError


def reembed(
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None, typer.Option(help="The new encoder: a name, METHOD:BACKBONE or a checkpoint folder.")
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back to the encoder before.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the vectors of the encoder before: no way back then.")
    ] = False,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Embed an index with another encoder, beside the old vectors, and switch when all is there.

    Searches go on with the old ones meanwhile. The same command again goes on where it was interrupted.

    Example: retriever reembed --encoder models/reviews
    """
    from retriever import load_encoder
    from retriever.index import reembedding

    if (encoder is not None) + rollback + forget != 1:
        raise UsageError("There is nothing to do, or too much.", hint="Give one of --encoder, --rollback and --forget.")
    line = output.ProgressLine()
    if encoder is not None:
        chosen = load_encoder(encoder, device=device)
        done = reembedding.reembed(index, chosen, progress=line.show)
    else:
        done = reembedding.roll_back(index) if rollback else reembedding.forget(index)
    line.close()
    if json:
        output.document(done.to_json())
        return
    output.result(
        f"{index}: encoder {done.encoder}, {done.embedded} vectors computed, {len(done.dropped)} views removed."
    )
    if done.left:
        output.result(f"{len(done.left)} views were not whole: searches fill them again.")
    if done.previous is not None:
        output.say("`retriever reembed --rollback` goes back, `--forget` frees the old vectors.")
