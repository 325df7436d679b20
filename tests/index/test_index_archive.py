import io
import json
import sqlite3
import sys
import tarfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from index_fakes import MOOD, FakeEncoder, RichEncoder, documents, found, gives

from retriever.core.archive import write_archive
from retriever.core.errors import IndexDamagedError, InputError, SchemaError, UsageError
from retriever.index.reembedding import reembed, roll_back
from retriever.index.sources.encoders import ENCODER
from retriever.index.upkeep.archive import KIND, export_index, import_index
from retriever.index.upkeep.verify import verify
from retriever.store.checksums import document_checksum, vector_checksum
from retriever.store.database import DATABASE
from retriever.store.schema import VERSION
from retriever.workspace import Index

TEXTS = ("kettle love", "toy hate", "lamp sad", "drone")


@pytest.fixture
def exported(tmp_path):
    """Give an archive of an index with four documents, one deleted, under two instructions."""
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS, stars=3), instructions=[MOOD])
        index.delete(["d"])
    export_index(tmp_path / "index", tmp_path / "index.tar")
    return tmp_path / "index.tar"


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        asked = [(mode, where) for mode in ("dense", "lexical", "hybrid") for where in (None, "stars = 3")]
        return [found(index.search("kettle hate", mode=m, where=w, instruction=MOOD)) for m, w in asked]


def repacked(archive, target, change):
    """Write the archive again with its database and manifest changed, every hash right."""
    folder = target.with_suffix(".files")
    folder.mkdir()
    with tarfile.open(archive) as packed:
        manifest = json.load(packed.extractfile("manifest.json"))
        (folder / DATABASE).write_bytes(packed.extractfile(DATABASE).read())
    with closing(sqlite3.connect(folder / DATABASE)) as database, database:
        change(database, manifest)
    database.close()
    facts = {key: value for key, value in manifest.items() if key not in ("files", "format")}
    with target.open("wb") as file:
        write_archive(file, facts, {DATABASE: folder / DATABASE})
    return target


def test_an_import_answers_as_the_index_did(exported, tmp_path):
    done = import_index(exported, tmp_path / "there")
    assert answers(tmp_path / "there") == answers(tmp_path / "index")
    assert verify(tmp_path / "there", deep=True, load=gives(FakeEncoder)).whole
    assert (done.manifest["documents"], len(done.manifest["views"])) == (3, 2)
    with Index(tmp_path / "there", encoder=FakeEncoder()) as index:
        assert [view.tail for view in index.views()] == [0, 0]
        assert index.add(documents(*TEXTS, stars=3), instructions=[MOOD]).added == 1
    assert list(tmp_path.glob(".*")) == []


def test_the_manifest_says_what_made_the_index(exported):
    with tarfile.open(exported) as packed:
        manifest = json.load(packed.extractfile("manifest.json"))
    assert manifest["kind"] == KIND
    assert [view["instruction"] for view in manifest["views"]] == ["", MOOD]
    assert manifest["encoder"]["fingerprint"] == FakeEncoder().fingerprint
    assert [run["command"] for run in manifest["runs"]] == ["index", "delete"]
    assert manifest["runs"][0]["versions"]["command"].startswith(Path(sys.argv[0]).name)
    assert manifest["schema"] == VERSION


def test_nothing_is_written_over(exported, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        export_index(tmp_path / "index", exported)
    with pytest.raises(UsageError, match="exists already"):
        import_index(exported, tmp_path / "index")


def test_a_damaged_index_is_not_exported(exported, tmp_path):
    with closing(sqlite3.connect(tmp_path / "index" / DATABASE)) as database, database:
        database.execute("UPDATE vectors SET vector = zeroblob(32) WHERE vector_id = 1")
    with pytest.raises(IndexDamagedError, match="verify --deep"):
        export_index(tmp_path / "index", tmp_path / "two.tar")
    assert not (tmp_path / "two.tar").exists()


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM contents; END", "did not make"),
        ("CREATE VIEW v AS SELECT 1", "did not make"),
        ("CREATE TABLE extra (x)", "did not make"),
        ("DROP INDEX documents_by_content", "did not make"),
        ("UPDATE contents SET text = 'other' WHERE content_id = 1", "is damaged"),
        ("UPDATE documents SET metadata = '{}' WHERE id = 'a'", "is damaged"),
        ("UPDATE views SET instruction = 'x' WHERE view_id = 2", "is damaged"),
        ("INSERT INTO generations VALUES (99, 1, 'faiss', '{}', 1, 1, NULL, '{}', '', 1)", "is damaged"),
    ],
)
def test_a_database_that_was_changed_is_not_taken_in(exported, tmp_path, sql, why):
    changed = repacked(exported, tmp_path / "changed.tar", lambda database, manifest: database.execute(sql))
    with pytest.raises(InputError, match=why):
        import_index(changed, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def checksum_of_whole(id, content_id, metadata):
    return document_checksum((id, None, 0, 0, 0, 0, content_id, metadata))


@pytest.mark.parametrize("text", ["[" * 50_000, "no json", "[1]", "1"])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE documents SET metadata = ?1, checksum = document_checksum(id, content_id, ?1)",
        "UPDATE vectors SET words = ?1 || ' ', checksum = vector_checksum(view_id, content_id, vector, ?1 || ' ')",
        "UPDATE runs SET versions = ?1",
        "UPDATE runs SET statistics = ?1",
    ],
)
def test_json_that_we_did_not_write_is_not_taken_in(exported, tmp_path, sql, text):
    def change(database, manifest):
        database.create_function("document_checksum", 3, checksum_of_whole)
        database.create_function("vector_checksum", 4, vector_checksum)
        database.execute(sql, (text,))

    if "words" in sql and text == "[1]":
        text = "{}"
    with pytest.raises(InputError, match=r"that is no JSON (object|array)"):
        import_index(repacked(exported, tmp_path / "changed.tar", change), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_newer_schema_and_another_kind_are_refused(exported, tmp_path):
    newer = "PRAGMA user_version = 999"
    with pytest.raises(SchemaError, match="a newer version"):
        import_index(repacked(exported, tmp_path / "a.tar", lambda d, m: d.execute(newer)), tmp_path / "there")
    with pytest.raises(InputError, match="another kind"):
        import_index(repacked(exported, tmp_path / "b.tar", lambda d, m: m.update(kind="x")), tmp_path / "there")


@pytest.mark.parametrize("data", [b"", b"x" * 5000, bytes(2048)])
def test_any_other_file_is_refused(tmp_path, data):
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(InputError, match="no archive that retriever wrote"):
        import_index(tmp_path / "x.tar", tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


def test_a_file_that_does_not_belong_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    file = io.BytesIO()
    write_archive(file, {"kind": KIND}, {DATABASE: tmp_path / "a", "views/1/x.faiss": tmp_path / "a"})
    (tmp_path / "x.tar").write_bytes(file.getvalue())
    with pytest.raises(InputError, match=r"views/1/x\.faiss"):
        import_index(tmp_path / "x.tar", tmp_path / "there")


def export_with_model(tmp_path):
    """Export an index that was made with a checkpoint of the user's; return both."""
    from retriever.encoders.sources import write_manifest

    model = tmp_path / "mine"
    model.mkdir()
    (model / "retriever.json").write_text("{}")
    write_manifest(model)
    encoder = RichEncoder()
    encoder.spec = replace(encoder.spec, name=str(model))
    with Index(tmp_path / "index", encoder=encoder) as index:
        index.add(documents(*TEXTS))
    export_index(tmp_path / "index", tmp_path / "index.tar")
    return model, encoder


def test_the_users_checkpoint_travels_with_the_index(tmp_path):
    model, encoder = export_with_model(tmp_path)
    import_index(tmp_path / "index.tar", tmp_path / "there")
    brought = tmp_path / "there" / "model"
    assert {path.name: path.read_bytes() for path in brought.iterdir()} == {
        path.name: path.read_bytes() for path in model.iterdir()
    }
    with Index(tmp_path / "there", encoder=encoder) as index:
        assert index._opened.store.settings.get(ENCODER)["name"] == "./model"
        assert index.status().encoder["name"] == str(brought)
        assert len(index.search("kettle").hits) == 4
    (model / "retriever.json").write_text("{ }")
    with pytest.raises(Exception, match="differs from its recorded SHA-256"):
        export_index(tmp_path / "index", tmp_path / "two.tar")


def test_an_imported_index_can_be_moved_with_its_model(tmp_path, monkeypatch):
    named = []

    def load(name, **options):
        named.append(name)
        return RichEncoder()

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load)
    export_with_model(tmp_path)
    import_index(tmp_path / "index.tar", tmp_path / "there")
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    (tmp_path / "there").rename(moved)
    with Index(moved) as index:
        assert len(index.search("kettle", mode="dense").hits) == 4
    assert verify(moved, deep=True).whole
    assert reembed(moved, RichEncoder("second")).previous == str(moved / "model")
    with Index(moved, encoder=RichEncoder("second")) as index:
        index.add(documents(*TEXTS, "pan glad"))
    assert roll_back(moved).encoder == str(moved / "model")
    export_index(moved, tmp_path / "again.tar")
    assert set(named) == {str(moved / "model")}
    with tarfile.open(tmp_path / "again.tar") as packed:
        assert "model/retriever.json" in packed.getnames()


def test_an_index_that_names_its_model_by_a_path_is_read_as_before(tmp_path):
    model, _ = export_with_model(tmp_path)
    with Index(
        tmp_path / "index", load=lambda description: named.append(description["name"]) or RichEncoder()
    ) as index:
        named = []
        index.search("kettle", mode="dense")
    assert named == [str(model)]
