import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, documents, found, gives
from make_golden import FIRST, SAVED, build, step_names
from operations import CORPUS, state_of

from retriever.core.errors import SchemaError
from retriever.index.durability.verify import verify
from retriever.store.database import DATABASE, Store
from retriever.workspace import Index

pytestmark = pytest.mark.durability
GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = range(FIRST, len(step_names()) + 1)
CLUSTERINGS = 4  # the version that brought them


def test_every_schema_has_its_golden_index():
    assert {f"schema-{version}.tar.gz" for version in VERSIONS} == {one.name for one in GOLDEN.iterdir()}
    assert max(one.stat().st_size for one in GOLDEN.iterdir()) < 300_000


@pytest.fixture(params=VERSIONS)
def golden(request, tmp_path):
    with tarfile.open(GOLDEN / f"schema-{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path / "golden", filter="data")
    return request.param, tmp_path / "golden"


def steps(path):
    with closing(sqlite3.connect(path / DATABASE)) as database:
        return [row[0] for row in database.execute("SELECT name FROM _sqlite_migrations ORDER BY id")]


def saved(path):
    """Return the assignments of every saved clustering, as they were saved: clusters found today can be others."""
    with closing(sqlite3.connect(path / DATABASE)) as database:
        return {
            name: json.loads(document)["assignments"]
            for name, document in database.execute("SELECT name, document FROM clusterings")
        }


def answers(path):
    with Index(path, encoder=FakeEncoder()) as index:
        asked = [
            found(index.search("hot kettle", instruction=instruction, mode=mode, where=where, k=20))
            for instruction in ("", MOOD, FAULT)
            for mode, where in (("dense", None), ("lexical", None), ("hybrid", None), ("dense", "row <= 5"))
        ]
        return asked, [(one.instruction, one.vectors, one.generation is None, one.lazy) for one in index.views()]


def test_an_index_of_any_schema_is_taken_over_whole(golden, tmp_path):
    version, path = golden
    assert steps(path) == step_names()[:version]
    before = (path / DATABASE).read_bytes()
    kept = saved(path) if version >= CLUSTERINGS else {}
    assert list(kept) == [SAVED] * (version >= CLUSTERINGS)
    if version < len(step_names()):
        with pytest.raises(SchemaError, match="older version"):
            Store.open(path / DATABASE, read_only=True)
        assert (path / DATABASE).read_bytes() == before
    build(tmp_path / "today")
    assert answers(path) == answers(tmp_path / "today")
    assert steps(path) == step_names()
    assert state_of(path) == {**state_of(tmp_path / "today"), "clusterings": kept}
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []


def test_an_index_of_any_schema_is_written_to_without_embedding_anything_twice(golden):
    version, path = golden
    encoder = FakeEncoder()
    with Index(path, encoder=encoder) as index:
        report = index.add([*CORPUS, *documents("kettle love")], instructions=[MOOD])
        assert (report.added, report.unchanged) == (2, 9)  # one of them had been deleted; its vectors were kept
        assert encoder.read == [("kettle love", ""), ("kettle love", MOOD)]
        index.compact()
        if version >= CLUSTERINGS:
            assert index.saved_clustering(SAVED).new == ["a"]
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []
