"""`retriever status`: what an index holds."""

from retriever.cli import output
from retriever.cli.options import DEFAULT_INDEX, IndexOption, JsonOption

SHOWN = 20


def status(index: IndexOption = DEFAULT_INDEX, json: JsonOption = False) -> None:
    """Show documents, views, FAISS generations, the last runs and the rows they skipped.

    Example: retriever status --index indexes/default
    """
    from retriever.services.workspace import Index

    with Index(index) as opened:
        found = opened.status()
    if json:
        output.document(found.to_json())
        return
    output.result(
        f"{found.path}: {found.documents} documents, {found.texts} distinct texts, {found.size_bytes / 1e6:.1f} MB"
    )
    output.result(f"encoder {found.encoder.get('name')}, fingerprint {str(found.encoder.get('fingerprint'))[:12]}")
    output.result()
    output.table(
        ["view", "instruction", "vectors", "coverage", "index", "recall@10", "tail"],
        [
            [
                one.view,
                one.instruction or "(base)",
                one.vectors,
                f"{one.coverage:.0%}",
                one.factory or "-",
                "-" if one.recall is None else f"{one.recall:.3f}",
                one.tail,
            ]
            for one in found.views
        ],
    )
    output.result()
    output.table(
        ["run", "started", "status", "command"],
        [[run["run_id"], run["started"][:19], run["status"], run["command"]] for run in found.runs],
    )
    for row in found.quarantined[:SHOWN]:
        where = f"{row['file']}, line {row['line']}" if row["file"] else f"document {row['id']}"
        output.result(output.printable(f"skipped: {where}: {row['reason']}"))
    if len(found.quarantined) > SHOWN:
        output.result(f"... and {len(found.quarantined) - SHOWN} more; --json has them all.")
