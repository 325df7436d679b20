"""`retriever reembed`: the same documents under another encoder."""

from shlex import quote
from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import (
    DEFAULT_INDEX,
    DeviceOption,
    IndexOption,
    JsonOption,
    LedgerOption,
    RayOption,
    WorkersOption,
    embedding,
)
from retriever.core.errors import UsageError
from retriever.core.text import printable, shortened

_LONGEST = 60  # characters of an instruction


def reembed(  # noqa: PLR0913 - one parameter per option
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None, typer.Option(help="The new question reader: a name, METHOD:BACKBONE or a checkpoint folder.")
    ] = None,
    plain: Annotated[
        str | None,
        typer.Option(help="The new plain reader: a sentence-transformers model, or none for the question reader."),
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back to the encoders before.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the vectors of the encoders before: no way back then.")
    ] = False,
    workers: WorkersOption = None,
    ray: RayOption = None,
    ledger: LedgerOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Embed an index with other encoders, beside the old vectors, and switch when all is there.

    Searches go on with the old ones meanwhile. The same command again goes on where it was interrupted. Questions that
    examples had taught are taught anew by the same examples.

    Example: retriever reembed --encoder models/reviews
    """
    from retriever.index import reembedding
    from retriever.index.readers import load_readers

    named = encoder is not None or plain is not None
    if named + rollback + forget != 1:
        raise UsageError(
            "There is nothing to do, or too much.", hint="Give --encoder or --plain, or --rollback, or --forget."
        )
    options = embedding(workers, ray, ledger, device)
    line = output.ProgressLine()
    if named:
        question, base = load_readers(encoder, plain, new=False, device=device)
        done = reembedding.reembed(index, question, plain=base, options=options, progress=line.show)
    else:
        done = reembedding.roll_back(index) if rollback else reembedding.forget(index)
    line.close()
    if json:
        output.document(done.to_json())
        return
    plain_reader = f", plain reader {done.plain}" if done.plain else ""
    output.result(
        f"{index}: encoder {done.encoder}{plain_reader}, {done.embedded} vectors computed, "
        f"{len(done.dropped)} views removed."
    )
    if done.left:
        output.result(f"{len(done.left)} views were not whole: searches fill them again.")
    for instruction, lessons in done.retaught.items():
        after = lessons.after
        output.result(
            f"{shortened(instruction, _LONGEST)} was taught anew by its {sum(lessons.answers.values())} examples: "
            f"{after.value:.0%} of those left out are answered rightly ({after.low:.0%} to {after.high:.0%})."
        )
    for instruction, why in done.untaught.items():
        output.say(
            f"{shortened(instruction, _LONGEST)} could not be taught anew: {printable(why)} Teach it again: "
            f"retriever teach --index {quote(str(index))} --instruction {quote(printable(instruction))} EXAMPLES.jsonl"
        )
    if done.previous is not None:
        output.say("`retriever reembed --rollback` goes back, `--forget` frees the old vectors.")
