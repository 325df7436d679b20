"""What people said of documents, as rows to learn from: categories they corrected, hits they want more of."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from retriever.clusters.editing import NONE
from retriever.clusters.saved import SavedClustering
from retriever.core.errors import InputError
from retriever.core.paths import write_output
from retriever.core.types import Document, Marks
from retriever.training.rows import TrainingRow, normalise_text

_OPTION = "--as-rows"


def corrected_rows(found: SavedClustering) -> list[TrainingRow]:
    """Return a row of text, question and answer for every document that was moved and still is where it was put.

    The answer is the name that the cluster has now, the first of several; what was moved to no cluster has none.
    """
    documents = {one.id: one for one in found.material.documents}
    moved = dict.fromkeys(
        str(one.change["id"]) for one in found.edits if one.undone is None and one.change["kind"] == "move"
    )
    instruction = str(found.stored.document["instruction"])
    group, rows = normalise_text(instruction), []
    for id in moved:
        number = found.assignments.get(id, NONE)
        if number != NONE:
            rows.append(TrainingRow(documents[id].text, instruction, found.state.labels[number], group=group))
    return rows


def marked_rows(query: str, instruction: str, marks: Marks, documents: Mapping[str, Document]) -> list[TrainingRow]:
    """Return a row whose text is a query: the texts it should find and those it should not; none without a liked one.

    Args:
        query: what was looked for.
        instruction: what it was asked under.
        marks: what was marked; documents that are gone are left out.
        documents: by id, those there are.
    """
    right, wrong = (
        tuple(dict.fromkeys(documents[id].text for id in ids if id in documents)) for ids in (marks.more, marks.less)
    )
    if not right:
        return []
    return [TrainingRow(query, instruction, right[0], right, wrong, group=normalise_text(instruction))]


def write_rows(path: Path, rows: Sequence[TrainingRow], lacking: str) -> int:
    """Write rows as JSON Lines, as `retriever finetune` reads them, and return how many they are.

    Raises:
        InputError: there are none.
        OutputError: the file cannot be written.
    """
    if not rows:
        raise InputError("There is nothing to learn from.", hint=lacking)
    lines = (json.dumps(one.to_json(), ensure_ascii=False) for one in rows)
    write_output(path, "".join(f"{line}\n" for line in lines), _OPTION)
    return len(rows)


def write_corrections(path: Path, found: SavedClustering) -> int:
    """Write what was corrected in a saved clustering as training rows, and return how many; errors as `write_rows`."""
    return write_rows(path, corrected_rows(found), "Correct some first: --correct ID=CATEGORY.")


def write_marks(path: Path, query: str, instruction: str, marks: Marks, documents: Mapping[str, Document]) -> int:
    """Write the marked hits of a query as training rows, and return how many; errors as `write_rows`."""
    rows = marked_rows(query, instruction, marks, documents)
    return write_rows(path, rows, "Mark a hit that is right first: --more ID.")
