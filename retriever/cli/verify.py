"""`retriever verify` and `retriever repair`: is an index whole, and what to do when it is not."""

from typing import Annotated

import typer

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.core.text import printable

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

    As every command it brings the schema of an older version up to date first.

    Example: retriever verify --deep
    """
    from retriever.index.durability import verify

    found = verify.verify(index, deep=deep)
    if json:
        output.document(found.to_json())
        return 0 if found.whole else DAMAGED
    for one in found.findings:
        output.result(printable(f"damaged: {one.artefact}: {one.problem}"))
        output.result(f"         {one.remedy}")
    sampled = f", {found.embedded} texts embedded again" if deep else ""
    verdict = "whole" if found.whole else f"{len(found.findings)} things damaged"
    output.result(f"{found.path}: {verdict} ({found.files} FAISS files hashed{sampled}, {found.seconds:.1f} s).")
    return 0 if found.whole else DAMAGED


def repair(index: IndexOption = DEFAULT_INDEX, json: JsonOption = False) -> int:
    """Make anew what can be had from the rest of the index, and name what is lost.

    Exits 3 when documents were lost, 4 when damage is left.

    Example: retriever repair --index indexes/default
    """
    from retriever.index.durability import repair

    done = repair.repair(index)
    code = DAMAGED if done.left else LOST if done.lost else 0
    if json:
        output.document(done.to_json())
        return code
    for verb, things in (("made anew", done.mended), ("lost", done.lost), ("left", done.left)):
        for one in things:
            output.result(printable(f"{verb}: {one}"))
    if not (done.mended or done.lost or done.left):
        output.result("Nothing was damaged.")
    if done.lost:
        output.say("Index these documents again; `retriever status` shows what is left of them.")
    return code
