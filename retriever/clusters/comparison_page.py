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


def _ranks(found: RankChange) -> str:
    rows = [
        _Row(
            [*(_text("-" if rank is None else rank) for rank in one.ranks), _text(one.hit.document.id)]
            + [_text(", ".join(words)) for words in one.words],
            kind="only" if None in one.ranks else "",
        )
        for one in found.moved
    ]
    says = [f"{found.overlap:.0%} of the hits are in both.", *found.approximate]
    header = ["A", "B", "document", "A answers", "B answers"]
    notes = "".join(f"<p>{_text(one)}</p>" for one in says)
    return _heading(found, found.results[0].query) + notes + _table(header, rows)


def _flows(found: ClusterChange) -> str:
    first, second = ([one.label for one in each.clusters] for each in found.clusterings)
    largest = max((len(one.ids) for one in found.flows), default=1)
    rows = [
        _Row(
            [
                _text(len(one.ids)),
                f'<span style="width: {9 * len(one.ids) / largest:.2f}rem"></span>',
                _text(first[one.first]),
                _text("stays" if one.stays else "moves to"),
                _text(second[one.second]),
                _text(", ".join(one.examples)),
            ]
        )
        for one in found.flows
    ]
    says = (
        f"{found.moved} documents are in another cluster. Adjusted Rand index {found.rand:.2f}, "
        f"adjusted mutual information {found.information:.2f}."
    )
    header = ["documents", "", "cluster under A", "", "cluster under B", "such as"]
    return _heading(found, "Clusters") + f"<p>{says}</p>" + _table(header, rows)


def _heading(found: RankChange | ClusterChange, title: str) -> str:
    """Return what is compared: the title, then the instructions, each with its verdict where that warns."""
    parts = [f"<h1>{_text(title)}</h1>"]
    for name, one in zip("AB", found.sides, strict=True):
        parts.append(f"<p>{name}: {_text(one.instruction or '(default)')}</p>")
        if one.verdict is not None and one.verdict.warns:
            parts.append(f"<p>{_text(one.verdict.sentence)}</p>")
    return "".join(parts)


def _table(header: Sequence[str], rows: Iterable[_Row]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in header)
    body = ""
    for one in rows:
        inner = "".join(f"<td>{cell}</td>" for cell in one.cells)
        body += f'<tr class="{one.kind}">{inner}</tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return escape(str(value))
