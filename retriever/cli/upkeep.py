"""`retriever verify`, `repair`, `reembed`, `export` and `import`: check, repair, embed again or move an index."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, DeviceOption, Embedding, IndexOption, JsonOption, refuse
from retriever.cli.reading import Reading
from retriever.core.requests import IndexType
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

DAMAGED = 4
LOST = 3


def verify(
    index: IndexOption = DEFAULT_INDEX,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every row and embed a sample of texts again; loads the model.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Check an index for damage, and change nothing.

    Exits 4 when something is damaged.

    Example: retriever verify --deep
    """
    from retriever.index.upkeep import verify

    report = verify.verify(index, deep=deep)
    if json:
        output.document(report.to_json())
        return 0 if report.whole else DAMAGED
    for finding in report.findings:
        output.result(printable(f"damaged: {finding.artefact}: {finding.problem}"))
        output.result(f"         {finding.remedy}")
    sampled = f", {output.counted(report.embedded, 'text')} embedded again" if deep else ""
    verdict = "no damage found" if report.whole else f"{output.counted(len(report.findings), 'problem')} found"
    files = output.counted(report.files, "FAISS file")
    output.result(f"{report.path}: {verdict} ({files} checked{sampled}, {report.seconds:.1f} s).")
    return 0 if report.whole else DAMAGED


@command_options(IndexType)
def repair(index: IndexOption = DEFAULT_INDEX, *, json: JsonOption = False, **options: object) -> int:
    """Repair a damaged index, and compact it.

    The command rebuilds derived files, embeds lost vectors and names what cannot be recovered. It also builds all
    vector indexes anew and frees the space of deleted documents. Exits 3 when something was lost, and 4 when the index
    cannot be repaired and was left as it was: restore it from a copy.

    Example: retriever repair --index indexes/default
    """
    from retriever.index.upkeep import repair

    done = repair.repair(index, made(IndexType, options))
    if json:
        output.document(done.to_json())
    else:
        for verb, things in (("rebuilt", done.rebuilt), ("lost", done.lost)):
            for thing in things:
                output.result(printable(f"{verb}: {thing}"))
        output.result(f"{index} is intact; {len(done.generations)} vector indexes were built.")
    return LOST if done.lost else 0


_LONGEST = 60  # characters of an instruction


@command_options(Embedding)
@command_options(Reading, leave_out=("reader", "read", "max_texts", "max_tokens", "max_minutes"))
def reembed(
    index: IndexOption = DEFAULT_INDEX,
    encoder: Annotated[
        str | None, typer.Option(help="New instruction encoder: a name, METHOD:BACKBONE or a checkpoint folder.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(help="New base encoder: minilm, st:MODEL, http:URL#MODEL, or none for the instruction encoder."),
    ] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Return to the previous encoders.")] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Delete the vectors of the previous encoders; --rollback is impossible then."),
    ] = False,
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Embed an index again with other encoders.

    Searches use the old vectors until all new ones are there. The same command continues an interrupted run. Questions
    that were taught by examples are taught again with the same examples.

    Example: retriever reembed --encoder models/reviews
    """
    from retriever.index import reembedding

    named = encoder is not None or base is not None
    refuse(
        named + rollback + forget != 1,
        "Give encoders, --rollback or --forget, and only one of these.",
        "For example: retriever reembed --encoder models/reviews",
    )
    indexing, reading = made(Embedding, options).options(device), made(Reading, options)
    if named:
        chosen = reading.chosen(index, device, encoder, base, new=False)
        with reading.asking(), output.ProgressLine() as line:
            done = reembedding.reembed(index, chosen.question, plain=chosen.plain, options=indexing, progress=line.show)
    else:
        done = reembedding.roll_back(index) if rollback else reembedding.forget(index)
    if json:
        output.document(done.to_json())
        return
    using = f"{done.encoder}, base encoder {done.plain}" if done.plain else done.encoder
    computed, removed = output.counted(done.embedded, "vector"), output.counted(len(done.dropped), "view")
    output.result(f"{index}: encoder {using}, {computed} computed, {removed} removed.")
    if done.left:
        output.result(f"Searches fill {output.counted(len(done.left), 'incomplete view')} again.")
    for instruction, lessons in done.retaught.items():
        after = lessons.after
        output.result(
            f"{shortened(instruction, _LONGEST)} was taught again with its {sum(lessons.answers.values())} examples: "
            f"{after.value:.0%} of held-out examples are answered correctly ({after.low:.0%} to {after.high:.0%})."
        )
    for instruction, why in done.untaught.items():
        output.say(
            f"{shortened(instruction, _LONGEST)} could not be taught again: {printable(why)} Teach it yourself: "
            f"retriever teach --index {quote(str(index))} --instruction {quote(printable(instruction))} EXAMPLES.jsonl"
        )
    for note in done.notes:
        output.say(note)
    if done.previous is not None:
        output.say("`retriever reembed --rollback` returns to the previous encoders; `--forget` deletes their vectors.")


def export(
    archive: Annotated[Path, typer.Argument(help="File to write, or folder with --to parquet; it must not exist.")],
    index: IndexOption = DEFAULT_INDEX,
    to: Annotated[
        Literal["archive", "parquet"],
        typer.Option(help="archive: one file. parquet: documents, words and the vectors of complete views."),
    ] = "archive",
    json: JsonOption = False,
) -> None:
    """Export an index as one file, or as Parquet.

    `retriever import` reads both, also on another machine. They contain the texts.

    Example: retriever export reviews.tar --index indexes/reviews
    """
    from retriever.index.upkeep.archive import export_index
    from retriever.index.upkeep.export import export_parquet

    done = (export_parquet if to == "parquet" else export_index)(index, archive)
    if json:
        output.document(done.to_json())
    else:
        held = done.manifest
        output.result(
            f"{archive}: {_held(held)}, {done.bytes / 1e6:.1f} MB. It contains the texts: protect it like the index."
        )
        for instruction in held.get("left", []):
            output.say(
                printable(f"Left out, because some texts are not embedded under it: {instruction or 'the base view'}")
            )


def import_(
    archive: Annotated[Path, typer.Argument(help="File or Parquet folder that `retriever export` wrote.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Create an index from an exported file.

    All contents are checked against the manifest first.

    Example: retriever import reviews.tar --index indexes/reviews
    """
    if archive.is_dir():
        from retriever.index.upkeep.export import import_parquet

        done = import_parquet(archive, index)
    else:
        from retriever.index.upkeep.archive import import_index

        done = import_index(archive, index)
    held = done.manifest
    said = f"{index}: {_held(held)}, exported {held['created'][:10]}."
    output.outcome(done.to_json(), said, json=json)


def _held(manifest: Mapping[str, Any]) -> str:
    documents = output.counted(manifest["documents"], "document")
    return f"{documents}, {output.counted(len(manifest['views']), 'view')}"
