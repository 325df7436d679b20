"""Damage, a writer beside another, and what keeps an index whole: verify, repair, archives, reembed, workers."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import flip_byte

from retriever.store import connection

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
WRITERS = [["index", "corpus.jsonl"], ["delete", "r1"], ["repair"]]


def generation(database):
    [path] = database.parent.glob("views/1/*.faiss")
    return path


@pytest.mark.parametrize("made", [False, True], ids=["nothing", "folder"])
def test_a_mistyped_index_is_named_and_nothing_is_made(run, fake, tmp_path, made):
    if made:
        (tmp_path / "defualt").mkdir()
    for argv in (*READERS, *WRITERS[1:], ["cluster"]):
        ran = run(*argv, "--index", "defualt", "--json")
        assert ran.failed_with(1, "There is no index at defualt", "Make one with `retriever index`.")
    assert sorted(tmp_path.rglob("*")) == ([tmp_path / "defualt"] if made else [])


def replaced(database):
    for path in database.parent.glob("corpus.sqlite3*"):
        path.unlink()
    return database


def test_a_database_that_is_none_is_exit_4(indexed, database):
    replaced(database).write_bytes(b"this is not a database" * 100)
    says = "indexes/default/corpus.sqlite3 is damaged or no SQLite database"
    for argv in (READERS[0], WRITERS[0]):
        assert indexed(*argv, "--json").failed_with(4, says, "Restore it from a copy")
    for command in ("verify", "repair"):
        ran = indexed(command, "--json")
        assert (ran.code, "is damaged or no SQLite database" in ran.out + ran.err) == (4, True)


def test_another_encoder_is_refused_by_name_and_fingerprint(indexed):
    before = indexed("status", "--json").document
    ran = indexed("index", "corpus.jsonl", "--encoder", "other")
    assert ran.failed_with(
        1, "The index was made by keywords (fingerprint 67de0d1080d6), not by other (", "retriever reembed"
    )
    after = indexed("status", "--json").document
    assert [after[key] for key in ("encoder", "documents")] == [before[key] for key in ("encoder", "documents")]


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


def test_embed_on_a_full_disk_leaves_no_half_file(tmp_path, write):
    write([{"id": str(i), "text": f"toy {i}"} for i in range(300)])
    ran = run_limited(tmp_path, 1000, "embed", "corpus.jsonl", "-o", "v.npy")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("Error: v.npy cannot be written: ")
    assert not (tmp_path / "v.npy").exists()


def test_a_whole_index_is_exit_0(indexed):
    found = indexed("verify", "--deep", "--json").document
    assert (found["whole"], found["findings"], found["files"], found["embedded"]) == (True, [], 1, 5)
    assert indexed("verify").out.startswith("indexes/default: no damage found (1 FAISS file checked, ")
    assert indexed("repair").out == "indexes/default is intact; 1 vector indexes were built.\n"


def test_a_damaged_file_is_exit_4_until_it_is_repaired(indexed, database):
    path = generation(database)
    flip_byte(path, 50)
    ran = indexed("verify", "--json")
    assert ran.code == 4
    assert f'"artefact": "views/1/{path.name}"' in ran.out
    ran = indexed("verify")
    assert f"damaged: views/1/{path.name}: " in ran.out
    assert "retriever repair\n" in ran.out
    assert indexed("repair", "--json").document["lost"] == []
    assert indexed("verify", "--deep").code == 0
    assert indexed("search", "kettle", "--json").document["hits"][0]["id"] == "r1"


def test_a_lost_document_is_exit_3_and_named(indexed, database):
    at = database.read_bytes().index(b'"toy"')
    flip_byte(database, at + 1)
    assert indexed("search", "toy", "--mode", "lexical").failed_with(4, "document 'r5' is not what was stored")
    assert indexed("verify", "--deep").code == 4
    ran = indexed("repair")
    assert (ran.code, ran.out.splitlines()[0]) == (3, "lost: document 'r5': index it again")
    assert indexed("index", "corpus.jsonl", "--json").document["added"] == 1
    assert indexed("verify", "--deep").code == 0


def test_an_index_travels_as_one_file(indexed, tmp_path):
    before = indexed("search", "kettle", "--json").document["hits"]
    made = indexed("export", "reviews.tar", "--json").document
    assert (made["archive"], made["manifest"]["documents"]) == ("reviews.tar", 5)
    assert indexed("export", "reviews.tar").failed_with(2, "reviews.tar exists already")
    assert "5 documents, 1 view" in indexed("import", "reviews.tar", "--index", "there").out
    assert indexed("search", "kettle", "--index", "there", "--json").document["hits"] == before
    assert indexed("verify", "--deep", "--index", "there").code == 0
    assert indexed("import", "none.tar", "--index", "else", "--json").failed_with(1, "none.tar cannot be imported")
    assert not (tmp_path / "else").exists()


def test_an_index_changes_its_encoder_and_back(indexed):
    assert indexed("reembed").failed_with(2, "only one of these")
    assert indexed("reembed", "--rollback").failed_with(2, "no encoder to go back to")
    indexed("views", "--complete", "Which product?")
    made = indexed("reembed", "--encoder", "other", "--json").document
    assert (made["encoder"], made["previous"], made["embedded"]) == ("other", "keywords", 5)
    assert indexed("search", "kettle", "--json").document["hits"][0]["id"] == "r1"
    assert (
        "encoder keywords, base encoder st:all-minilm-l6-v2, 0 vectors computed" in indexed("reembed", "--rollback").out
    )
    assert indexed("reembed", "--forget", "--json").document["dropped"] == [3]
    assert indexed("verify", "--deep").code == 0


def test_an_index_gives_its_plain_reader_away_and_takes_it_back(indexed):
    made = indexed("reembed", "--base", "none", "--json").document
    assert (made["encoder"], made["plain"], made["embedded"]) == ("keywords", None, 5)
    assert "base encoder" not in indexed("status").out
    back = indexed("reembed", "--base", "minilm", "--json").document
    assert (back["plain"], back["embedded"]) == ("st:all-minilm-l6-v2", 0)
    assert "base encoder st:all-minilm-l6-v2, fingerprint " in indexed("status").out
    assert indexed("reembed", "--base", "minilm").failed_with(2, "keywords and st:all-minilm-l6-v2 already")
    assert indexed("reembed", "--base", "gircse").failed_with(1, "it reads texts under an instruction")
    assert indexed("index", "corpus.jsonl", "--base", "none").failed_with(1, "has the base encoder st:all-minilm-l6-v2")


def test_no_workers_are_wrong_usage(indexed):
    for argv in (["index", "corpus.jsonl"], ["views", "--complete", "x"], ["reembed", "--encoder", "other"]):
        assert indexed(*argv, "--workers", "0").failed_with(2, "0 workers embed nothing.", "--workers 1 or more")


def test_parquet_goes_out_and_comes_back(indexed):
    ran = indexed("export", "out", "--to", "parquet")
    assert ran.out.startswith("out: 5 documents, 1 view, ")
    assert indexed("import", "out", "--index", "again").out.startswith("again: 5 documents, 1 view, exported ")
    assert indexed("status", "--index", "again", "--json").document["documents"] == 5
    assert indexed("export", "out", "--to", "parquet").failed_with(2, "out exists already.")
