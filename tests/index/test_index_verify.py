import shutil
import sqlite3
from contextlib import closing

import pytest
from index_fakes import MOOD, FakeEncoder, RichEncoder, documents, found, gives

from retriever.core.errors import IndexDamagedError, IndexNotFoundError
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import SAMPLE, Remedy, verify
from retriever.store.database import DATABASE
from retriever.workspace import Index

TEXTS = ("kettle love", "toy hate", "lamp sad", "drone")


@pytest.fixture
def whole(tmp_path):
    """Give the folder of a closed index of four documents under two instructions, its log emptied."""
    path = tmp_path / "index"
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS, stars=3), instructions=[MOOD])
        index.upkeep.repair()
    return path


def damage(path, sql, parameters=()):
    with closing(sqlite3.connect(path / DATABASE)) as database, database:
        assert database.execute(sql, parameters).rowcount == 1


def names(path, **options):
    return [one.artefact for one in verify(path, load=gives(FakeEncoder), **options).findings]


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        return [found(index.search("kettle", mode=mode, instruction=MOOD)) for mode in ("dense", "lexical")]


def test_an_index_that_is_whole_is_called_so(whole):
    before = {file: file.read_bytes() for file in whole.rglob("*.faiss")}
    quick, deep = verify(whole), verify(whole, deep=True, load=gives(FakeEncoder))
    assert (quick.whole, quick.files, quick.embedded) == (True, 2, 0)
    assert (deep.whole, deep.files, deep.embedded) == (True, 2, 8)
    assert {file: file.read_bytes() for file in whole.rglob("*.faiss")} == before
    nothing = {"schema_version": 1, "rebuilt": [], "lost": [], "generations": [5, 6]}
    assert repair(whole, load=gives(FakeEncoder)).to_json() == nothing


def test_there_has_to_be_an_index(tmp_path):
    for call in (verify, repair):
        with pytest.raises(IndexNotFoundError):
            call(tmp_path / "no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["gone", "of another view"])
def test_a_faiss_file_is_found_damaged_and_built_anew(whole, how):
    expected, file = answers(whole), next(whole.glob("views/1/*.faiss"))
    file.unlink()
    if how != "gone":
        shutil.copy(next(whole.glob("views/2/*.faiss")), file)
    assert names(whole) == [f"views/1/{file.name}"]
    with Index(whole, encoder=FakeEncoder()) as index:
        for mode in ("dense", "hybrid"):
            with pytest.raises(IndexDamagedError, match=f"{file.name}.*Run `retriever repair`"):
                index.search("kettle", mode=mode)
        assert found(index.search("kettle", mode="lexical")) == [("a", None)]
    done = repair(whole, load=gives(FakeEncoder))
    assert (len(done.generations), done.lost) == (2, [])
    assert names(whole, deep=True) == []
    assert answers(whole) == expected


def test_a_flipped_vector_is_refused_and_made_anew(whole):
    expected = answers(whole)
    damage(
        whole,
        "UPDATE vectors SET vector = CAST(x'01' || substr(vector, 2) AS BLOB) WHERE view_id = 2 AND content_id = 3",
    )
    assert names(whole) == []
    assert names(whole, deep=True) == ["vector of text 3 in view 2"]
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match="text 3 in view 2"):
        index.search("lamp", mode="dense", instruction=MOOD)
    encoder = FakeEncoder()
    done = repair(whole, load=gives(lambda: encoder))
    assert encoder.read == [("lamp sad", MOOD)]
    assert done.rebuilt == ["1 vector of view 2"]
    assert names(whole, deep=True) == []
    assert answers(whole) == expected


def test_words_of_a_vector_are_covered_too(whole):
    damage(whole, """UPDATE vectors SET words = '["hate"]' WHERE view_id = 2 AND content_id = 1""")
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match="text 1 in view 2"):
        index.search("love", mode="dense", instruction=MOOD)


@pytest.mark.parametrize(
    ("sql", "artefact"),
    [
        ("UPDATE documents SET metadata = '{\"stars\": 5}' WHERE id = 'a'", "document 'a'"),
        ("UPDATE contents SET text = 'kettle hate' WHERE content_id = 1", "text 1"),
        ("UPDATE contents SET text = CAST(x'ff41' AS TEXT) WHERE content_id = 1", "text 1"),
    ],
)
def test_a_damaged_document_is_refused_named_and_taken_out(whole, sql, artefact):
    damage(whole, sql)
    assert names(whole, deep=True)[0] == artefact
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError):
        index.search("kettle", mode="dense")
    done = repair(whole, load=gives(FakeEncoder))
    assert done.lost == ["document 'a': index it again"]
    assert names(whole, deep=True) == []
    with Index(whole, encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS, stars=3), instructions=[MOOD])
        assert len(index.search("kettle", mode="dense").hits) == 4
        assert len(index.search("kettle", mode="lexical").hits) == 1


@pytest.mark.parametrize(
    ("sql", "artefact"),
    [
        ("UPDATE views SET instruction = 'What?' WHERE view_id = 2", "view 2"),
        ("UPDATE generations SET watermark = 1 WHERE view_id = 2", "generation 4"),
        ("UPDATE fields SET path = '$.\"price\"'", "field stars"),
        ("DELETE FROM fields", "field stars"),
        ("UPDATE settings SET value = replace(value, '0', '1')", "setting encoder"),
    ],
)
def test_a_changed_catalogue_is_refused_at_once(whole, sql, artefact):
    expected = answers(whole)
    damage(whole, sql)
    assert names(whole) == [artefact]
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match=artefact):
        index.search("kettle", mode="lexical")
    if artefact.startswith("setting"):
        before = (whole / DATABASE).read_bytes()
        with pytest.raises(IndexDamagedError, match="no longer says which encoder"):
            repair(whole, load=lambda description: FakeEncoder("other"))
        assert (whole / DATABASE).read_bytes() == before
        return
    done = repair(whole, load=gives(FakeEncoder))
    assert done.lost == ["view 2: complete its question again"] * (artefact == "view 2")
    assert names(whole, deep=True) == []
    with Index(whole, encoder=FakeEncoder()) as index:
        index.upkeep.complete([MOOD])
        assert len(index.search("kettle", where="stars = 3").hits) == 4
    assert answers(whole) == expected


def test_a_damaged_clustering_is_named_and_taken_out(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        for name in ("first", "second"):
            index.clusterings.save(name, index.cluster(k=2))
    damage(whole, "UPDATE clusterings SET document = document || ' ' WHERE name = 'first'")
    assert names(whole, deep=True) == ["clustering 'first'"]
    assert repair(whole, load=gives(FakeEncoder)).lost == ["clustering 'first': cluster again and save it"]
    assert names(whole, deep=True) == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert index._opened.store.clusterings.names() == ["second"]


def test_a_damaged_word_index_is_made_anew(whole):
    with closing(sqlite3.connect(whole / DATABASE)) as database, database:
        database.execute("INSERT INTO contents_fts (contents_fts, rowid, text) VALUES ('delete', 1, 'kettle love')")
    assert names(whole, deep=True) == ["word index"]
    assert repair(whole).rebuilt == ["word index"]
    assert names(whole, deep=True) == []


def test_a_word_index_that_no_longer_says_its_format_is_made_again(whole):
    with Index(whole, encoder=FakeEncoder()) as index:
        before = index.search("kettle", mode="lexical").hits
    damage(whole, "UPDATE contents_fts_config SET v = 0 WHERE k = 'version'")
    assert "word index" in names(whole, deep=True)
    with Index(whole, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match="repair"):
        index.search("kettle", mode="lexical")
    assert "word index" in repair(whole).rebuilt
    assert names(whole, deep=True) == []
    with Index(whole, encoder=FakeEncoder()) as index:
        assert index.search("kettle", mode="lexical").hits == before


@pytest.fixture
def lazy(tmp_path):
    """Give a closed index of two views, one with a FAISS file and one that a search filled."""
    with Index(tmp_path / "lazy", encoder=FakeEncoder()) as index:
        index.add(documents(*TEXTS))
        index.search("love", instruction=MOOD, k=9)
    return tmp_path / "lazy"


def change_root(path, name, change):
    """Change the root page of one of SQLite's tables and indexes, given as its bytes; return the file afterwards."""
    with closing(sqlite3.connect(path / DATABASE)) as database:
        root = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        size = database.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray((path / DATABASE).read_bytes())
    page = data[(root - 1) * size : root * size]
    change(page)
    data[(root - 1) * size : root * size] = page
    (path / DATABASE).write_bytes(data)
    return data


def fewer(page):
    """Take the last entry off a page."""
    page[4] -= 1


def asked(path, mode, instruction=""):
    with Index(path, encoder=FakeEncoder()) as index:
        return found(index.search("love", instruction=instruction, mode=mode, k=9))


@pytest.mark.parametrize(
    ("name", "modes"),
    [
        ("documents_by_content", ["dense", "lexical", "hybrid"]),
        ("vectors_by_view", ["dense", "hybrid"]),
        ("sqlite_autoindex_vectors_1", ["dense", "hybrid"]),
    ],
)
def test_an_index_that_hides_rows_is_refused_and_made_anew(lazy, name, modes):
    change_root(lazy, name, fewer)
    for mode in modes:
        with pytest.raises(IndexDamagedError, match="an index of SQLite's hides"):
            for instruction in ("", MOOD):
                asked(lazy, mode, instruction)
    assert DATABASE in names(lazy, deep=True)
    assert repair(lazy).rebuilt == ["SQLite's indexes"]
    assert names(lazy, deep=True) == []


@pytest.mark.parametrize("name", ["views_by_key", "generations_active"])
def test_views_and_files_are_found_without_their_indexes(lazy, name):
    before = [asked(lazy, "dense", instruction) for instruction in ("", MOOD)]
    change_root(lazy, name, fewer)
    assert [asked(lazy, "dense", instruction) for instruction in ("", MOOD)] == before
    assert names(lazy, deep=True) != []


def test_what_a_compaction_removed_is_not_taken_for_damage(lazy):
    with Index(lazy, encoder=FakeEncoder()) as index:
        index.delete(["a"])
        index._opened.store.documents.collect_garbage()  # as a compaction that was killed before its first file
    assert len(asked(lazy, "dense")) == len(TEXTS) - 1


def test_pages_that_cannot_be_read_are_told_and_left_alone(whole):
    def scratch(page):
        page[:200] = b"\xff" * 200

    data = change_root(whole, "vectors", scratch)
    found = verify(whole)
    assert {one.artefact for one in found.findings} == {DATABASE}
    with pytest.raises(IndexDamagedError, match="cannot be repaired"):
        repair(whole)
    assert (whole / DATABASE).read_bytes() == data


def test_a_model_that_answers_otherwise_is_named(whole):
    class Drifted(FakeEncoder):
        def vectors(self, texts, instruction=""):
            return -super().vectors(texts, instruction)

    findings = verify(whole, deep=True, load=gives(Drifted)).findings
    assert {one.remedy for one in findings} == {Remedy.MODEL}
    assert len(findings) == 8
    unnamed = verify(whole, deep=True).findings
    assert [one.problem for one in unnamed] == ["This index was made with an encoder that has no name."]


def test_the_sample_is_bounded(tmp_path):
    with Index(tmp_path, encoder=RichEncoder()) as index:
        index.add(documents(*(f"kettle {number}" for number in range(20))))
    assert verify(tmp_path, deep=True, load=gives(RichEncoder)).embedded == SAMPLE
