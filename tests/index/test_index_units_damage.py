import sqlite3
from contextlib import closing

import pytest
from index_fakes import MOOD, FakeEncoder, documents, gives

from retriever.core.errors import IndexDamagedError
from retriever.index.indexing import IndexingOptions
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import Remedy, verify
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
        index.clusterings.save("topics", index.cluster(k=3))
        index.upkeep.repair()
    return path


def change(path, sql):
    with closing(sqlite3.connect(path / DATABASE)) as database, database:
        assert database.execute(sql).rowcount > 0


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        found = [
            [(hit.unit.id, hit.unit.part.span, hit.score) for hit in index.search(query, mode=mode).hits]
            for query in ("kettle", "lamp bad", "phone")
            for mode in ("dense", "lexical")
        ]
        return found, index.clusterings.get("topics").to_json()["assignments"]


DAMAGE = [
    "DELETE FROM documents WHERE parent = 'a' AND number = 2",
    "DELETE FROM documents WHERE parent = 'a'",
    "DELETE FROM documents WHERE parent = 'a' AND number = 3",
    "DELETE FROM documents WHERE parent IS NOT NULL",
    "UPDATE documents SET start = 3 WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET stop = stop + 1 WHERE parent = 'b' AND number = 2",
    "UPDATE documents SET number = 9 WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET number = 2 WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET content_id = 1 WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET parent = 'z' WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET parent = 'b' WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET content_id = 99 WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET metadata = '{\"stars\": 1}' WHERE parent = 'a' AND number = 1",
    "UPDATE documents SET checksum = 0 WHERE parent = 'b' AND number = 1",
    "UPDATE contents SET text = 'The lamp was sad .' WHERE text = 'The lamp was bad .'",
]


@pytest.mark.parametrize("sql", DAMAGE)
def test_damage_to_units_is_found_and_made_good_from_the_documents(whole, sql):
    expected = answers(whole)
    change(whole, sql)
    findings = verify(whole, deep=True, load=LOAD).findings
    assert findings
    assert {one.remedy for one in findings} == {Remedy.REPAIR}
    assert repair(whole, load=LOAD).lost == []
    assert verify(whole, deep=True, load=LOAD).findings == []
    assert answers(whole) == expected


def test_a_damaged_document_is_taken_out_with_its_units(whole):
    change(
        whole,
        "UPDATE contents SET text = 'My cattle' WHERE content_id = (SELECT content_id FROM documents WHERE id = 'a')",
    )
    assert Remedy.INDEX in {one.remedy for one in verify(whole, deep=True, load=LOAD).findings}
    assert repair(whole, load=LOAD).lost == ["document 'a': index it again"]
    assert verify(whole, deep=True, load=LOAD).findings == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert [hit.unit.id for hit in index.search("lamp").hits] == ["b#1"]
        index.add(documents(*TEXTS[:1]))
        assert [hit.unit.id for hit in index.search("lamp bad").hits] == ["a#2", "b#1"]


@pytest.mark.parametrize(
    "sql", ["UPDATE settings SET value = '1' WHERE key = 'units'", "DELETE FROM settings WHERE key = 'units'"]
)
def test_what_is_embedded_is_known_from_the_documents(whole, sql):
    change(whole, sql)
    assert [one.artefact for one in verify(whole).findings] == ["setting units"]
    assert repair(whole, load=LOAD).lost == []
    with Index(whole, encoder=FakeEncoder()) as index:
        index.delete(["a", "b"])
        index.add(documents(*TEXTS))
        assert (index.status().units, index.status().unit_count) == ("sentences", 5)


@pytest.mark.parametrize("name", ["documents_by_content", "documents_by_parent", "documents_divided"])
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


def test_an_archive_that_lacks_parts_of_a_document_is_refused(whole, tmp_path):
    change(whole, "DELETE FROM documents WHERE parent = 'a' AND number = 2")
    with pytest.raises(IndexDamagedError):
        export_index(whole, tmp_path / "archive.tar")
