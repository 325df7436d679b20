"""`retriever status`: what an index holds."""

from typing import TYPE_CHECKING

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption
from retriever.cli.views import followed
from retriever.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retriever.core.types import JSON

SHOWN = 20


def status(index: IndexOption = DEFAULT_INDEX, json: JsonOption = False) -> None:
    """Show documents, views, generations, the last runs and the rows they skipped.

    Example: retriever status --index indexes/default
    """
    from retriever.workspace import Index

    with Index(index) as opened:
        found = opened.status()
    if json:
        output.document(found.to_json())
        return
    units = "" if found.units == "documents" else f" in {found.unit_count} {found.units}"
    output.result(
        f"{found.path}: {found.documents} documents{units}, {found.texts} distinct texts, "
        f"{found.size_bytes / 1e6:.1f} MB"
    )
    for role, reader in (("encoder", found.encoder), ("plain reader", found.plain)):
        if reader is not None:
            output.result(f"{role} {reader.get('name')}, fingerprint {str(reader.get('fingerprint'))[:12]}")
    output.result()
    output.table(
        ["view", "instruction", "followed", "vectors", "coverage", "index", "recall@10", "tail"],
        [
            [
                one.view,
                one.instruction or "(base)",
                followed(one),
                one.vectors,
                f"{one.coverage:.0%}",
                one.factory or one.backend or "-",
                "-" if one.recall is None else f"{one.recall:.3f}",
                one.tail,
            ]
            for one in found.views
        ],
    )
    output.result(_built_with(found.vector_index))
    output.result()
    output.table(
        ["run", "started", "status", "command"],
        [[run["run_id"], run["started"][:19], run["status"], run["command"]] for run in found.runs],
    )
    for row in found.quarantined[:SHOWN]:
        where = f"{row['file']}, line {row['line']}" if row["file"] else f"document {row['id']}"
        output.result(printable(f"skipped: {where}: {row['reason']}"))
    if len(found.quarantined) > SHOWN:
        output.result(f"... and {len(found.quarantined) - SHOWN} more; --json has them all.")


def _built_with(chosen: "Mapping[str, JSON]") -> str:
    """Describe the vector indexes' build options in a sentence."""
    where = f" at {chosen['location']}" if chosen["location"] else ""
    if chosen["backend"] == "faiss":
        where = f", factory {chosen['factory']}, recall@10 from {chosen['min_recall']}"
    return printable(f"Vector indexes are built with {chosen['backend']}{where}.")
