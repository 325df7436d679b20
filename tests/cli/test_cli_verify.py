import pytest
from test_cli_damage import flip, generation


def test_a_whole_index_is_exit_0(indexed):
    found = indexed("verify", "--deep", "--json").document
    assert (found["whole"], found["findings"], found["files"], found["embedded"]) == (True, [], 1, 5)
    assert indexed("verify").out.startswith("indexes/default: whole (1 FAISS files hashed, ")
    assert indexed("repair").out == "Nothing was damaged.\n"


def test_a_damaged_file_is_exit_4_until_it_is_repaired(indexed, database):
    path = generation(database)
    flip(path, 50)
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
    flip(database, at + 1)
    assert indexed("search", "toy", "--mode", "lexical").failed_with(4, "document 'r5' is not what was stored")
    assert indexed("verify", "--deep").code == 4
    ran = indexed("repair")
    assert (ran.code, ran.out) == (3, "lost: document 'r5'\n")
    assert "Index these documents again" in ran.err
    assert indexed("index", "corpus.jsonl", "--json").document["added"] == 1
    assert indexed("verify", "--deep").code == 0


@pytest.mark.parametrize("command", ["verify", "repair"])
def test_a_file_that_is_no_database_is_exit_4(indexed, database, command):
    for path in database.parent.glob("corpus.sqlite3*"):
        path.unlink()
    database.write_bytes(b"this is not a database" * 100)
    ran = indexed(command, "--json")
    assert ran.code == 4
    assert "is damaged or no SQLite database" in ran.out + ran.err


def test_an_index_travels_as_one_file(indexed, tmp_path):
    before = indexed("search", "kettle", "--json").document["hits"]
    made = indexed("export", "reviews.tar", "--json").document
    assert (made["archive"], made["manifest"]["documents"]) == ("reviews.tar", 5)
    assert indexed("export", "reviews.tar").failed_with(2, "reviews.tar exists already")
    assert "5 documents, 1 views" in indexed("import", "reviews.tar", "--index", "there").out
    assert indexed("search", "kettle", "--index", "there", "--json").document["hits"] == before
    assert indexed("verify", "--deep", "--index", "there").code == 0
    assert indexed("import", "none.tar", "--index", "else", "--json").failed_with(1, "none.tar cannot be imported")
    assert not (tmp_path / "else").exists()


def test_an_index_changes_its_encoder_and_back(indexed):
    assert indexed("reembed").failed_with(2, "There is nothing to do")
    assert indexed("reembed", "--rollback").failed_with(2, "no encoder to go back to")
    indexed("views", "--complete", "Which product?")
    made = indexed("reembed", "--encoder", "other", "--json").document
    assert (made["encoder"], made["previous"], made["embedded"]) == ("other", "keywords", 5)
    assert indexed("search", "kettle", "--json").document["hits"][0]["id"] == "r1"
    assert (
        "encoder keywords, plain reader st:all-minilm-l6-v2, 0 vectors computed" in indexed("reembed", "--rollback").out
    )
    assert indexed("reembed", "--forget", "--json").document["dropped"] == [3]
    assert indexed("verify", "--deep").code == 0


def test_an_index_gives_its_plain_reader_away_and_takes_it_back(indexed):
    made = indexed("reembed", "--plain", "none", "--json").document
    assert (made["encoder"], made["plain"], made["embedded"]) == ("keywords", None, 5)
    assert "plain reader" not in indexed("status").out
    back = indexed("reembed", "--plain", "minilm", "--json").document
    assert (back["plain"], back["embedded"]) == ("st:all-minilm-l6-v2", 0)
    assert "plain reader st:all-minilm-l6-v2, fingerprint " in indexed("status").out
    assert indexed("reembed", "--plain", "minilm").failed_with(2, "keywords and st:all-minilm-l6-v2 already")
    assert indexed("reembed", "--plain", "gircse").failed_with(1, "it reads texts under an instruction")
    assert indexed("index", "corpus.jsonl", "--plain", "none").failed_with(
        1, "has the plain reader st:all-minilm-l6-v2"
    )
