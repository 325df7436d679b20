"""`retriever verify`, `repair`, `reembed`, `export` and `import`: a whole index checked, mended, read anew or moved."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, Build, DeviceOption, Embedding, IndexOption, JsonOption, refuse
from retriever.core.text import printable, shortened
from retriever.forms import command_options, made

DAMAGED = 4
LOST = 3


def verify(
    index: IndexOption = DEFAULT_INDEX,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every row, and embed a sample of texts again; loads the model.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Check that an index is what was stored; nothing is mended. Exits 4 when something is damaged.

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
    sampled = f", {report.embedded} texts embedded again" if deep else ""
    verdict = "whole" if report.whole else f"{len(report.findings)} things damaged"
    output.result(f"{report.path}: {verdict} ({report.files} FAISS files hashed{sampled}, {report.seconds:.1f} s).")
    return 0 if report.whole else DAMAGED


@command_options(Build)
def repair(index: IndexOption = DEFAULT_INDEX, *, json: JsonOption = False, **options: object) -> int:
    """Make an index whole: rebuild what follows from the rest of it, embed lost vectors, and name what is lost.

    It also compacts: every view's vector index is built anew, and the space of deleted documents is freed.
    Exits 3 when something was lost, 4 when an index is left as it was, to be restored from a copy.

    Example: retriever repair --index indexes/default
    """
    from retriever.index.upkeep import repair

    done = repair.repair(index, made(Build, options).index_type)
    if json:
        output.document(done.to_json())
    else:
        for verb, things in (("rebuilt", done.rebuilt), ("lost", done.lost)):
            for thing in things:
                output.result(printable(f"{verb}: {thing}"))
        output.result(f"{index} is whole; {len(done.generations)} vector indexes were built.")
    return LOST if done.lost else 0


_LONGEST = 60  # characters of an instruction


@command_options(Embedding)
def reembed(
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
    *,
    device: DeviceOption = "auto",
    json: JsonOption = False,
    **options: object,
) -> None:
    """Embed an index with other encoders, beside the old vectors, and switch when all is there.

    Searches go on with the old ones meanwhile. The same command again goes on where it was interrupted. Questions that
    examples had taught are taught anew by the same examples.

    Example: retriever reembed --encoder models/reviews
    """
    from retriever.index import reembedding
    from retriever.index.sources.encoders import load_encoders

    named = encoder is not None or plain is not None
    refuse(
        named + rollback + forget != 1,
        "There is nothing to do, or too much.",
        "Give --encoder or --plain, or --rollback, or --forget.",
    )
    indexing = made(Embedding, options).options(device)
    if named:
        question, base = load_encoders(encoder, plain, new=False, device=device)
        with output.ProgressLine() as line:
            done = reembedding.reembed(index, question, plain=base, options=indexing, progress=line.show)
    else:
        done = reembedding.roll_back(index) if rollback else reembedding.forget(index)
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


def export(
    archive: Annotated[Path, typer.Argument(help="File to write, with --to parquet a folder; it must not exist.")],
    index: IndexOption = DEFAULT_INDEX,
    to: Annotated[
        Literal["archive", "parquet"],
        typer.Option(help="archive: one file. parquet: documents, words and the vectors of complete views."),
    ] = "archive",
    json: JsonOption = False,
) -> None:
    """Write an index as one file that another machine can import, or hand it over to other software.

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
            f"{archive}: {held['documents']} documents, {len(held['views'])} views, {done.bytes / 1e6:.1f} MB. It "
            "holds the texts: keep it as private as the index."
        )
        for instruction in held.get("left", []):
            output.say(printable(f"Left out, since it lacks texts: {instruction or 'the base view'}"))


def import_(
    archive: Annotated[Path, typer.Argument(help="File, or folder of Parquet, that `retriever export` wrote.")],
    index: IndexOption = DEFAULT_INDEX,
    json: JsonOption = False,
) -> None:
    """Make an index of an archive, once everything in it is found to be what its manifest says.

    Example: retriever import reviews.tar --index indexes/reviews
    """
    if archive.is_dir():
        from retriever.index.upkeep.export import import_parquet

        done = import_parquet(archive, index)
    else:
        from retriever.index.upkeep.archive import import_index

        done = import_index(archive, index)
    if json:
        output.document(done.to_json())
        return
    held = done.manifest
    output.result(f"{index}: {held['documents']} documents, {len(held['views'])} views, made {held['created'][:10]}.")
