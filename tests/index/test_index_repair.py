import sqlite3
from contextlib import closing

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, add_to_base, documents, found, gives
from stored_rows import flip

from retriever.core.errors import CheckpointError, IndexDamagedError
from retriever.core.similarity import LEVELS
from retriever.core.types import BadRow
from retriever.index.durability.repair import repair
from retriever.index.durability.verify import verify
from retriever.store.database import DATABASE, Store
from retriever.store.similarities import Similarities
from retriever.workspace import Index

TEXTS = ("kettle love", "toy hate", "lamp sad", "drone")
MADE_ANEW = ["SQLite's indexes", "1 vectors of view {view}"]


@pytest.fixture
def whole(tmp_path):
    """Give the folder of a closed index of four documents under three instructions, with a row in quarantine."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        bad = BadRow("reviews.jsonl", 3, "bad", "no text", "{}")
        index.add([*documents(*TEXTS, stars=3), bad], instructions=[MOOD, FAULT])
    return path


def rowid_of(path, table, where):
    with closing(sqlite3.connect(path / DATABASE)) as database:
        ((rowid,),) = database.execute(f"SELECT rowid FROM {table} WHERE {where}").fetchall()
    return rowid


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        return [
            found(index.search("kettle", mode=mode, instruction=instruction))
            for mode in ("dense", "lexical", "hybrid")
            for instruction in ("", MOOD, FAULT)
        ]


def damaged(path, table, where, column, bit):
    flip(path / DATABASE, table, rowid_of(path, table, where), column, bit)
    assert not verify(path, deep=True, load=gives(FakeEncoder)).whole


@pytest.mark.parametrize(
    ("where", "column", "bit"),
    [
        ("view_id = 2 AND content_id = 2", "content_id", 3),  # 10, which is not there
        ("view_id = 2 AND content_id = 2", "content_id", 0),  # 3, which has a vector
        ("view_id = 2 AND content_id = 1", "content_id", 0),
        ("view_id = 2 AND content_id = 2", "view_id", 3),
        ("view_id = 2 AND content_id = 2", "view_id", 0),
        ("view_id = 1 AND content_id = 2", "view_id", 0),
    ],
)
def test_a_vector_of_another_text_or_view_is_made_anew(whole, where, column, bit):
    expected = answers(whole)
    damaged(whole, "vectors", where, column, bit)
    encoder = FakeEncoder()
    done = repair(whole, load=gives(lambda: encoder))
    view = int(where[10])
    assert done.mended[:2] == [one.format(view=view) for one in MADE_ANEW]
    assert (done.lost, done.left) == ([], [])
    assert [text for text, _ in encoder.read] == [TEXTS[int(where[-1]) - 1]]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_a_stray_vector_of_a_view_with_gaps_is_taken_out_and_said(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        add_to_base(index, documents(*TEXTS, "pan glad", "rug mad", "sofa dull"))
    damaged(whole, "vectors", "view_id = 2 AND content_id = 2", "content_id", 4)
    assert repair(whole, load=gives(FakeEncoder)).left == ["1 vectors were removed: of which texts is unknown."]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []


@pytest.mark.parametrize(("column", "bit"), [("content_id", 3), ("content_id", 0), ("id", 0)])
def test_a_document_of_another_text_or_name_is_taken_out_and_named(whole, column, bit):
    damaged(whole, "documents", "id = 'b'", column, bit)
    done = repair(whole, load=gives(FakeEncoder))
    assert done.lost == ["document 'b'" if column == "content_id" else "document 'c'"]  # what stands in its place
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert list(index.store.documents.ids()) == ["a", "c", "d"]
        assert index.add(documents(*TEXTS, stars=3)).added == 1


def test_a_row_in_quarantine_of_an_unknown_run_is_taken_out_and_named(whole):
    expected = answers(whole)
    damaged(whole, "quarantine", "document_id = 'bad'", "run_id", 0)
    assert repair(whole, load=gives(FakeEncoder)).left == ["1 rows in quarantine were removed: their run is unknown."]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_random_cosines_of_an_unknown_view_are_drawn_again(whole):
    with Store.open(whole / DATABASE) as store:
        store.similarities.put(2, Similarities(4, np.zeros(len(LEVELS), dtype=np.float32)))
    expected = answers(whole)
    damaged(whole, "similarities", "view_id = 2", "rowid", 3)
    assert repair(whole, load=gives(FakeEncoder)).lost == []
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_a_record_of_a_file_that_names_another_view_is_made_anew(whole):
    expected = answers(whole)
    damaged(whole, "generations", "view_id = 2", "view_id", 0)
    done = repair(whole, load=gives(FakeEncoder))
    assert (done.mended[0], len(done.mended), done.lost, done.left) == ("SQLite's indexes", 4, [], [])
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(whole) == expected


def test_what_repair_writes_does_not_seal_a_changed_view(whole):
    damaged(whole, "views", "view_id = 2", "instruction", 0)
    (said,) = repair(whole, load=gives(FakeEncoder)).left
    assert said.startswith("view 2 was dropped")
    assert verify(whole, deep=True, load=gives(FakeEncoder)).findings == []


def test_what_repair_writes_does_not_seal_a_changed_setting(whole):
    damaged(whole, "settings", "key = 'encoder'", "key", 0)
    with pytest.raises(IndexDamagedError, match="no longer says which encoder"):
        repair(whole, load=gives(FakeEncoder))
    assert not verify(whole).whole


def test_what_could_not_be_embedded_is_found_and_embedded_by_the_next_repair(whole):
    before = answers(whole)

    def gone():
        raise CheckpointError("The model is gone.")

    damaged(whole, "vectors", "view_id = 1 AND content_id = 2", "vector", 3)
    assert repair(whole, load=gives(gone)).left == [
        "1 vectors of view 1 are missing, and the encoder does not load: The model is gone."
    ]
    (finding,) = verify(whole).findings
    assert (finding.artefact, finding.problem, finding.remedy) == (
        "view 1",
        "lacks the vectors of 1 texts",
        "retriever repair",
    )
    assert repair(whole, load=gives(FakeEncoder)).mended == ["1 vectors of view 1"]
    assert verify(whole, deep=True, load=gives(FakeEncoder)).whole
    assert answers(whole) == before


def test_an_open_index_notices_what_repair_took_out(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        before = index.store.data_version()
        with closing(sqlite3.connect(whole / DATABASE)) as database, database:
            database.execute("UPDATE documents SET metadata = '{}' WHERE id = 'b'")
        repair(whole, load=gives(FakeEncoder))
        assert index.store.data_version() > before
        assert len(index.search("kettle", mode="dense").hits) == 3
