import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli_fakes import KeywordEncoder

from retriever.store import connection
from retriever.store.lock import WriterLock

FAKES = Path(__file__).with_name("cli_fakes.py")
HOLD = """
import sys
from pathlib import Path
from retriever.store.lock import WriterLock
with WriterLock(Path("indexes/default/writer.lock")):
    print("held", flush=True)
    sys.stdin.read()
"""
READERS = [["search", "kettle"], ["search", "--like", "r1"], ["status"]]
WRITERS = [["index", "corpus.jsonl"], ["delete", "r1"], ["compact"]]


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def generation(database):
    [path] = database.parent.glob("views/1/*.faiss")
    return path


@pytest.mark.parametrize("argv", [*READERS, *WRITERS[1:]], ids=" ".join)
@pytest.mark.parametrize("made", [False, True], ids=["nothing", "folder"])
def test_a_mistyped_index_is_named_and_nothing_is_made(run, fake, tmp_path, argv, made):
    if made:
        (tmp_path / "defualt").mkdir()
    ran = run(*argv, "--index", "defualt", "--json")
    assert ran.failed_with(1, "There is no index at defualt", "Make one with `retriever index`.")
    assert sorted(tmp_path.rglob("*")) == ([tmp_path / "defualt"] if made else [])


@pytest.mark.parametrize("at", [0, 100, -1])
def test_a_damaged_faiss_file_is_exit_4_and_compact_mends_it(indexed, database, at):
    flip(generation(database), at)
    for argv in READERS[:2]:
        ran = indexed(*argv, "--json")
        assert ran.failed_with(4, f"{generation(database).name} differs from its checksum.", "`retriever repair`")
    assert indexed("search", "kettle", "--mode", "lexical").code == 0
    assert indexed("compact").code == 0
    assert indexed("search", "kettle", "--json").document["hits"][0]["id"] == "r1"


@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_faiss_file_that_is_gone_or_cut_is_exit_4(indexed, database, damage):
    path = generation(database)
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else path.read_bytes()[:-5])
    assert indexed("search", "kettle", "--json").failed_with(4, path.name, "`retriever repair`")


@pytest.mark.parametrize("argv", [*READERS, *WRITERS], ids=" ".join)
def test_a_database_that_is_none_is_exit_4(indexed, database, argv):
    for path in database.parent.glob("corpus.sqlite3*"):
        path.unlink()
    database.write_bytes(b"this is not a database" * 100)
    ran = indexed(*argv, "--json")
    assert ran.failed_with(
        4, "indexes/default/corpus.sqlite3 is damaged or no SQLite database", "Restore it from a copy"
    )


@pytest.mark.parametrize("argv", [*READERS, *WRITERS], ids=" ".join)
def test_the_index_of_a_newer_version_is_refused(indexed, database, argv):
    with closing(sqlite3.connect(database)) as other, other:
        other.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('retriever', 'm999_future', '')"
        )
    ran = indexed(*argv, "--json")
    assert ran.failed_with(1, "was written by a newer version of retriever (it has m999_future)", "Update retriever")


@pytest.mark.parametrize("argv", [*READERS, *WRITERS], ids=" ".join)
def test_a_foreign_database_is_no_index(indexed, database, argv):
    for path in database.parent.glob("corpus.sqlite3*"):
        path.unlink()
    with closing(sqlite3.connect(database)) as other, other:
        other.execute("CREATE TABLE notes (x)")
    assert indexed(*argv, "--json").failed_with(1, "corpus.sqlite3 is not a retriever index.")


def test_another_encoder_is_refused_by_name_and_fingerprint(indexed):
    before = indexed("status", "--json").document
    ran = indexed("index", "corpus.jsonl", "--encoder", "other")
    assert ran.failed_with(
        1, "The index was made by keywords (fingerprint 67de0d1080d6), not by other (", "retriever reembed"
    )
    after = indexed("status", "--json").document
    assert [after[key] for key in ("encoder", "documents")] == [before[key] for key in ("encoder", "documents")]


def test_an_encoder_that_changed_under_its_name_is_refused(indexed, monkeypatch):
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: KeywordEncoder("changed"))
    asked = ["--instruction", "Which product?"]
    for argv, name in (
        (["search", "kettle"], "st:all-minilm-l6-v2"),
        (["search", "kettle", *asked], "keywords (fingerprint 67de0d1080d6)"),
        (["index", "corpus.jsonl"], "st:all-minilm-l6-v2"),
        (["views", "--complete", "Which product?"], "keywords (fingerprint 67de0d1080d6)"),
    ):
        assert indexed(*argv, "--json").failed_with(1, f"The index was made by {name}", ", not by changed")
    assert indexed("search", "kettle", "--mode", "lexical").code == 0


def test_a_second_writer_is_told_who_the_first_one_is(indexed, tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        for argv in WRITERS:
            ran = indexed(*argv, "--json")
            assert ran.failed_with(
                1, f"Process {other.pid} on ", "is writing to indexes/default", f"`kill {other.pid}`"
            )
        assert [indexed(*argv).code for argv in READERS] == [0, 0, 0]
        other.stdin.close()
    assert indexed("delete", "r1").code == 0


def test_a_lazy_search_beside_a_writer_still_answers(indexed, database):
    with WriterLock(database.with_name("writer.lock")):
        ran = indexed("search", "kettle", "--instruction", "Which product?", "--json")
    assert ran.document["path"] == "complete"


def test_a_lock_that_a_dead_writer_left_locks_nobody_out(indexed, database):
    database.with_name("writer.lock").touch()
    database.with_name("writer.lock.json").write_text(
        '{"pid": 1, "host": "h", "command": "retriever index", "started": "t"}'
    )
    assert indexed("delete", "r1").code == 0


def test_a_full_disk_is_told_and_what_was_stored_stays(indexed, write, monkeypatch):
    connect = connection.connect

    def cramped(path, mode):
        made = connect(path, mode)
        made.execute(f"PRAGMA max_page_count = {made.execute('PRAGMA page_count').fetchone()[0]}")
        return made

    write([{"id": str(i), "text": f"toy {i} " * 200} for i in range(20)], "more.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(connection, "connect", cramped)
        ran = indexed("index", "more.jsonl", "--json")
    assert ran.failed_with(1, "The disk is full: indexes/default/corpus.sqlite3 cannot grow.", "free some space")
    assert indexed("status", "--json").document["documents"] == 5
    assert indexed("index", "more.jsonl", "--json").document["added"] == 20


def run_limited(cwd, size, *argv):
    """Run a command whose files may not grow beyond a size."""
    return subprocess.run(
        [sys.executable, FAKES, *argv],
        cwd=cwd,
        env={key: value for key, value in os.environ.items() if key != "RETRIEVER_DEBUG"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)),
    )


def test_a_file_that_may_not_grow_is_told_and_the_next_run_does_the_rest(run, fake, tmp_path, write):
    write([{"id": str(i), "text": f"toy {i} " * 200} for i in range(300)])
    ran = run_limited(tmp_path, 200_000, "index", "corpus.jsonl")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: ")
    assert "indexes/default/corpus.sqlite3" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Unexpected" not in ran.stderr
    assert run("index", "corpus.jsonl", "--json").document["added"] == 300


def test_embed_on_a_full_disk_leaves_no_half_file(tmp_path, write):
    write([{"id": str(i), "text": f"toy {i}"} for i in range(300)])
    ran = run_limited(tmp_path, 1000, "embed", "corpus.jsonl", "-o", "v.npy")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: v.npy cannot be written: ")
    assert not (tmp_path / "v.npy").exists()
