"""Files to take away. A cell that a spreadsheet would take for a formula gets a leading apostrophe."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

from retriever.core.spreadsheets import escape_formula
from retriever.core.types import Document, Marks

_MARK = "\ufeff"  # tells Excel that the file is UTF-8


def to_csv(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return rows as CSV with a header of every key met; lists and objects become JSON."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return (_MARK + out.getvalue()).encode("utf-8", "replace")


def _cell(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape_formula(text)


def to_jsonl(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return rows as JSONL, an object a line."""
    lines = [json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows]
    return "".join(lines).encode("utf-8", "replace")


def marked_rows(query: str, instruction: str, marks: Marks, documents: Mapping[str, Document]) -> bytes:
    """Return the marked hits of a query as JSON Lines to learn from; nothing where none is liked."""
    from retriever.training import corrections  # scikit-learn takes a second to load

    rows = corrections.marked_rows(query, instruction, marks, documents)
    return "".join(f"{json.dumps(row.to_json(), ensure_ascii=False)}\n" for row in rows).encode()
