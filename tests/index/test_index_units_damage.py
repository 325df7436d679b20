import sqlite3
from contextlib import closing

import pytest
from index_fakes import MOOD, FakeEncoder, documents, gives
from stored_rows import flip

from retriever.core.errors import IndexDamagedError
from retriever.index.durability.archive import export_index, import_index
from retriever.index.durability.repair import repair
from retriever.index.durability.verify import Remedy, verify
from retriever.index.indexing import IndexingOptions
from retriever.store.database import DATABASE
from retriever.workspace import Index

TEXTS = ("My kettle is nice . The lamp was bad . A toy came .", "The lamp was bad . A phone and a sofa came too .")
LOAD = gives(FakeEncoder)


@pytest.fixture
def whole(tmp_path):
    """Give the folder of a closed index of two documents in five sentences, under two instructions."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS), instructions=[MOOD], options=IndexingOptions(units="sentences"))
        index.save_clustering("topics", index.cluster(k=3))
        index.compact()
    return path


def change(path, sql):
    with closing(sqlite3.connect(path / DATABASE)) as database, database:
        assert database.execute(sql).rowcount > 0


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        found = [
            [(hit.unit.id, hit.unit.start, hit.unit.end, hit.score) for hit in index.search(query, mode=mode).hits]
            for query in ("kettle", "lamp bad", "phone")
            for mode in ("dense", "lexical")
        ]
        return found, index.saved_clustering("topics").to_json()["assignments"]


DAMAGE = [
    "DELETE FROM units WHERE unit_id = 2",
    "DELETE FROM units WHERE whole_id = 1",
    "DELETE FROM units WHERE unit_id = 3",
    "DELETE FROM units",
    "UPDATE units SET start = 3 WHERE unit_id = 1",
    "UPDATE units SET stop = stop + 1 WHERE unit_id = 5",
    "UPDATE units SET number = 9 WHERE unit_id = 1",
    "UPDATE units SET content_id = 1 WHERE unit_id = 1",
    "UPDATE units SET whole_id = 99 WHERE unit_id = 1",
    "UPDATE units SET content_id = 99 WHERE unit_id = 1",
    "UPDATE units SET checksum = 0 WHERE unit_id = 4",
    "UPDATE contents SET text = 'The lamp was sad .' WHERE text = 'The lamp was bad .'",
    "UPDATE settings SET value = '\"words\"' WHERE key = 'units'",
    "DELETE FROM settings WHERE key = 'units'",
]


@pytest.mark.parametrize("sql", DAMAGE)
def test_damage_to_units_is_found_and_made_good_from_the_documents(whole, sql):
    expected = answers(whole)
    change(whole, sql)
    findings = verify(whole, deep=True, load=LOAD).findings
    assert findings
    assert {one.remedy for one in findings} == {Remedy.REPAIR}
    done = repair(whole, load=LOAD)
    assert (done.lost, done.left) == ([], [])
    assert verify(whole, deep=True, load=LOAD).findings == []
    assert answers(whole) == expected


def test_a_damaged_document_is_taken_out_with_its_units(whole):
    change(whole, "UPDATE contents SET text = 'My cattle' WHERE content_id = (SELECT MIN(whole_id) FROM units)")
    assert Remedy.INDEX in {one.remedy for one in verify(whole, deep=True, load=LOAD).findings}
    assert repair(whole, load=LOAD).lost == ["document 'a'"]
    assert verify(whole, deep=True, load=LOAD).findings == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert [hit.unit.id for hit in index.search("lamp").hits] == ["b#1"]
        index.add(documents(*TEXTS[:1]))
        assert [hit.unit.id for hit in index.search("lamp bad").hits] == ["a#2", "b#1"]


@pytest.mark.parametrize("column", ["number", "start", "stop", "content_id", "checksum", "whole_id"])
def test_a_flipped_bit_in_a_unit_is_never_answered_from(whole, column):
    expected = answers(whole)
    flip(whole / DATABASE, "units", 2, column, 1)
    try:
        assert answers(whole) == expected
    except IndexDamagedError:
        pass
    assert not verify(whole, deep=True, load=LOAD).whole
    repair(whole, load=LOAD)
    assert verify(whole, deep=True, load=LOAD).findings == []
    assert answers(whole) == expected


@pytest.mark.parametrize("bit", [0, 1, 2])
def test_a_unit_that_damage_has_made_the_equal_of_another_is_made_good(tmp_path, bit):
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        texts = [f"A {word} came . The {word} is here ." for word in ("kettle", "toy", "lamp", "knife", "drone")]
        index.add(documents(*texts), options=IndexingOptions(units="clauses"))
        index.save_clustering("topics", index.cluster(k=2))
        index.compact()
        row = index.store._db.number("SELECT MAX(unit_id) FROM units WHERE whole_id = 3")
    expected = answers(path)
    flip(path / DATABASE, "units", row, "whole_id", bit)
    repair(path, load=LOAD)
    assert verify(path, deep=True, load=LOAD).findings == []
    assert answers(path) == expected
    with Index(path, encoder=FakeEncoder()) as index:
        assert index.store.units.kind == "clauses"


@pytest.mark.parametrize("name", ["units_by_content", "sqlite_autoindex_units_1"])
def test_an_index_of_sqlite_that_hides_units_is_refused(whole, name):
    with closing(sqlite3.connect(whole / DATABASE)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        size = database.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray((whole / DATABASE).read_bytes())
    data[(root - 1) * size + 4] -= 1  # the last entry off the page
    (whole / DATABASE).write_bytes(data)
    with pytest.raises(IndexDamagedError, match="an index of SQLite's hides"):
        answers(whole)
    assert not verify(whole, deep=True, load=LOAD).whole


def test_an_archive_brings_the_units_along(whole, tmp_path):
    expected = answers(whole)
    exported = export_index(whole, tmp_path / "archive.tar")
    assert (exported.manifest["documents"], exported.manifest["units"]) == (2, "sentences")
    import_index(tmp_path / "archive.tar", tmp_path / "other")
    assert answers(tmp_path / "other") == expected
    assert verify(tmp_path / "other", deep=True, load=LOAD).findings == []


def test_an_archive_whose_units_are_not_parts_of_its_texts_is_refused(whole, tmp_path):
    change(whole, "DELETE FROM units WHERE unit_id = 2")
    with pytest.raises(IndexDamagedError):
        export_index(whole, tmp_path / "archive.tar")
