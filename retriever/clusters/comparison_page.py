"""A comparison of two instructions as a page without scripts: what texts and models say is shown, never run."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

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


def write_page(path: Path, document: Mapping[str, Any]) -> None:
    """Write a comparison's JSON object as a page.

    Raises:
        OutputError: the file cannot be written.
    """
    body = _ranks(document) if "query" in document else _flows(document)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Two instructions compared</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )
    write_output(path, page, "--html")


def approximate(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence on each answer of a query's comparison that was drawn from candidates."""
    answers = zip("AB", document["paths"], document["instructions"], strict=True)
    return [
        f"{name} is approximate: candidates alone were read under its instruction. "
        f"`retriever views --complete {shlex.quote(instruction)}` makes it exact."
        for name, path, instruction in answers
        if path == "lazy"
    ]


def _ranks(document: Mapping[str, Any]) -> str:
    rows = [
        (
            "only" if None in one["ranks"] else "",
            [*(_text("-" if rank is None else rank) for rank in one["ranks"]), _text(one["id"])]
            + [_text(", ".join(words)) for words in one["words"]],
        )
        for one in document["documents"]
    ]
    says = [f"{document['overlap']:.0%} of the hits are in both.", *approximate(document)]
    header = ["A", "B", "document", "A answers", "B answers"]
    notes = "".join(f"<p>{_text(one)}</p>" for one in says)
    return _heading(document, document["query"]) + notes + _table(header, rows)


def _flows(document: Mapping[str, Any]) -> str:
    first, second = ([one["label"] for one in each] for each in document["clusters"])
    largest = max((one["size"] for one in document["flows"]), default=1)
    rows = [
        (
            "",
            [
                _text(one["size"]),
                f'<span style="width: {9 * one["size"] / largest:.2f}rem"></span>',
                _text(first[one["from"]]),
                _text("stays" if one["stays"] else "moves to"),
                _text(second[one["to"]]),
                _text(", ".join(one["examples"])),
            ],
        )
        for one in document["flows"]
    ]
    says = (
        f"{document['moved']} documents are in another cluster. Adjusted Rand index {document['adjusted_rand']:.2f}, "
        f"adjusted mutual information {document['adjusted_mutual_information']:.2f}."
    )
    header = ["documents", "", "cluster under A", "", "cluster under B", "such as"]
    return _heading(document, "Clusters") + f"<p>{says}</p>" + _table(header, rows)


def _heading(document: Mapping[str, Any], title: str) -> str:
    """Return what is compared: the title, then the instructions, each with its verdict where that warns."""
    parts = [f"<h1>{_text(title)}</h1>"]
    for name, asked, verdict in zip("AB", document["instructions"], document["verdicts"], strict=True):
        parts.append(f"<p>{name}: {_text(asked or '(default)')}</p>")
        if verdict is not None and verdict["level"] != "followed":
            parts.append(f"<p>{_text(verdict['sentence'])}</p>")
    return "".join(parts)


def _table(header: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table; its cells are HTML already."""
    head = "".join(f"<th>{escape(one)}</th>" for one in header)
    body = ""
    for kind, cells in rows:
        inner = "".join(f"<td>{one}</td>" for one in cells)
        body += f'<tr class="{kind}">{inner}</tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return escape(str(value))
