import json

import pytest

from retriever.core.errors import InputError
from retriever.core.types import Document, Marks
from retriever.training.corrections import marked_rows, write_marks
from retriever.training.rows import read_training_rows

DOCUMENTS = {one.id: one for one in (Document("a", "right"), Document("b", "wrong"), Document("c", "right"))}


def test_marked_hits_are_a_row_of_what_is_found_and_what_is_not():
    (row,) = marked_rows("query", "question?", Marks(["a", "c", "gone"], ["b"]), DOCUMENTS)
    assert (row.text, row.instruction, row.positives, row.negatives) == ("query", "question?", ("right",), ("wrong",))
    assert marked_rows("query", "", Marks(["gone"], ["b"]), DOCUMENTS) == []


def test_what_is_written_is_what_finetune_reads(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert write_marks(path, "query", "question?", Marks(["a"], ["b"]), DOCUMENTS) == 1
    assert "group" not in json.loads(path.read_text())
    (row,) = read_training_rows([str(path)]).rows
    assert (row.text, row.instruction, row.right, row.negatives) == ("query", "question?", ("right",), ("wrong",))
    with pytest.raises(InputError, match="nothing to learn from"):
        write_marks(path, "query", "", Marks([], ["b"]), DOCUMENTS)
