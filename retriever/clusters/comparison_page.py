"""A comparison of two instructions as a page without scripts: what texts and models say is shown, never run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from retriever.clusters.comparing import ClusterChange, RankChange
from retriever.core.paths import write_output

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --bar: #4477aa; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
td span { display: block; min-width: 2px; height: .8rem; margin-top: .3rem; background: var(--bar); }
tr.only td { opacity: .65; }
"""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table; its cells are HTML already."""

    cells: Sequence[str]
    kind: str = ""


def write_page(path: Path, found: RankChange | ClusterChange) -> None:
    """Write a comparison as a page.

    Raises:
        OutputError: the file cannot be written.
    """
    body = _ranks(found) if isinstance(found, RankChange) else _flows(found)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Two instructions compared</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )
    write_output(path, page, "--html")


def _ranks(change: RankChange) -> str:
    rows = [
        _Row(
            [*(_text("-" if rank is None else rank) for rank in move.ranks), _text(move.hit.document.id)]
            + [_text(", ".join(words)) for words in move.words],
            kind="only" if None in move.ranks else "",
        )
        for move in change.moved
    ]
    says = [f"{change.overlap:.0%} of the hits are in both.", *change.approximate]
    header = ["A", "B", "document", "A answers", "B answers"]
    notes = "".join(f"<p>{_text(sentence)}</p>" for sentence in says)
    return _heading(change, change.results[0].query) + notes + _table(header, rows)


def _flows(change: ClusterChange) -> str:
    first, second = ([cluster.label for cluster in each.clusters] for each in change.clusterings)
    largest = max((len(flow.ids) for flow in change.flows), default=1)
    rows = [
        _Row(
            [
                _text(len(flow.ids)),
                f'<span style="width: {9 * len(flow.ids) / largest:.2f}rem"></span>',
                _text(first[flow.first]),
                _text("stays" if flow.stays else "moves to"),
                _text(second[flow.second]),
                _text(", ".join(flow.examples)),
            ]
        )
        for flow in change.flows
    ]
    says = (
        f"{change.moved} documents are in another cluster. Adjusted Rand index {change.rand:.2f}, "
        f"adjusted mutual information {change.information:.2f}."
    )
    header = ["documents", "", "cluster under A", "", "cluster under B", "such as"]
    return _heading(change, "Clusters") + f"<p>{says}</p>" + _table(header, rows)


def _heading(change: RankChange | ClusterChange, title: str) -> str:
    """Return what is compared: the title, then the instructions, each with its verdict where that warns."""
    parts = [f"<h1>{_text(title)}</h1>"]
    for name, side in zip("AB", change.sides, strict=True):
        parts.append(f"<p>{name}: {_text(side.instruction or '(default)')}</p>")
        if side.verdict is not None and side.verdict.warns:
            parts.append(f"<p>{_text(side.verdict.sentence)}</p>")
    return "".join(parts)


def _table(header: Sequence[str], rows: Iterable[_Row]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in header)
    body = ""
    for row in rows:
        inner = "".join(f"<td>{cell}</td>" for cell in row.cells)
        body += f'<tr class="{row.kind}">{inner}</tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return escape(str(value))
