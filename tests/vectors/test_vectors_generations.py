import errno
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
import pytest
from vector_corpora import clustered, ids_for

from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.fingerprint import file_hash
from retriever.vectors.faiss.backend import read_faiss, write_faiss
from retriever.vectors.faiss.building import build_index
from retriever.vectors.files import remove_others

COUNT, DIM = 300, 16
KINDS = {"exact": "SQfp16", "lists": "IVF8,SQfp16", "product": "IVF8,PQ4x4", "graph": "HNSW8,SQfp16"}


def make(factory: str, seed: int = 0):
    ids = ids_for(np.random.default_rng(seed), COUNT)
    return build_index(ids, [clustered(COUNT, DIM, seed=seed)], DIM, factory=factory, min_recall=0)


class Written(NamedTuple):
    path: Path
    sha256: str


def write(index, path):
    return Written(path, write_faiss(index, path))


@pytest.fixture(params=KINDS, scope="module")
def built(request):
    return make(KINDS[request.param])


def test_what_was_written_is_what_is_opened(built, tmp_path):
    written = write(built.index, tmp_path / "new" / "folder" / "g1.faiss")
    assert written.path == tmp_path / "new" / "folder" / "g1.faiss"
    assert written.sha256 == file_hash(written.path)
    assert written.path.stat().st_size == round(built.bytes_per_vector * COUNT)
    opened = read_faiss(written.path, sha256=written.sha256, size=COUNT, dim=DIM, probes=built.probes)
    queries = clustered(40, DIM, seed=9)
    found, expected = opened.search(queries, 10), built.index.search(queries, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert opened.probes == built.probes
    allowed = opened.ids[::7]
    np.testing.assert_array_equal(
        opened.search(queries, 9, allowed=allowed).ids, built.index.search(queries, 9, allowed=allowed).ids
    )


def test_an_empty_index_can_be_stored(tmp_path):
    empty = build_index(np.empty(0, np.int64), [], DIM).index
    written = write(empty, tmp_path / "empty.faiss")
    assert read_faiss(written.path, sha256=written.sha256, size=0, dim=DIM).size == 0


def test_the_file_is_its_owners_alone(built, tmp_path):
    written = write(built.index, tmp_path / "g1.faiss")
    assert stat.S_IMODE(written.path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["g1.faiss"]


def test_file_and_folder_are_synced_around_the_rename(built, tmp_path, monkeypatch):
    steps = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), sync(fd))
    )
    monkeypatch.setattr(Path, "replace", lambda self, target: (steps.append("rename"), replace(self, target))[1])
    write(built.index, tmp_path / "g1.faiss")
    assert steps == ["file", "rename", "folder", "folder"]  # the view's folder, and the one that holds it


@pytest.mark.parametrize("room", [0, 100, 5000])
def test_a_full_disk_leaves_nothing_and_the_old_file_stands(tmp_path, room):
    index = make("SQfp16").index
    before = write(index, tmp_path / "g1.faiss")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(RetrieverError, match=r"Cannot write .*g1\.faiss.*Free space"):
            write(make("SQfp16", seed=1).index, tmp_path / "g1.faiss")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["g1.faiss"]
    assert file_hash(before.path) == before.sha256


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_late_in_writing_removes_the_temporary_file(tmp_path, monkeypatch, call):
    def fail(*_args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (Path, "replace")), fail)
    with pytest.raises(RetrieverError, match="Input/output error"):
        write(make("SQfp16").index, tmp_path / "g1.faiss")
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_bit_anywhere_is_found(built, tmp_path):
    written = write(built.index, tmp_path / "g1.faiss")
    whole = written.path.read_bytes()
    places = {0, 1, 4, 20, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1}
    for place in places | set(range(0, len(whole), max(1, len(whole) // 40))):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        written.path.write_bytes(damaged)
        with pytest.raises(IndexDamagedError, match=r"g1\.faiss differs from its checksum\. Run `retriever repair`"):
            read_faiss(written.path, sha256=written.sha256, size=COUNT, dim=DIM)


def test_nothing_is_parsed_before_the_checksum_is_right(tmp_path, monkeypatch):
    written = write(make("SQfp16").index, tmp_path / "g1.faiss")
    monkeypatch.setattr(faiss, "read_index", lambda *_: pytest.fail("parsed a damaged file"))
    with pytest.raises(IndexDamagedError):
        read_faiss(written.path, sha256="0" * 64, size=COUNT, dim=DIM)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_found(built, tmp_path, share):
    written = write(built.index, tmp_path / "g1.faiss")
    os.truncate(written.path, int(written.path.stat().st_size * share))
    with pytest.raises(IndexDamagedError, match="checksum"):
        read_faiss(written.path, sha256=written.sha256, size=COUNT, dim=DIM)


def test_swapped_and_missing_files_are_found(tmp_path):
    first = write(make("SQfp16").index, tmp_path / "g1.faiss")
    second = write(make("SQfp16", seed=1).index, tmp_path / "g2.faiss")
    second.path.replace(first.path)
    with pytest.raises(IndexDamagedError, match="checksum"):
        read_faiss(first.path, sha256=first.sha256, size=COUNT, dim=DIM)
    with pytest.raises(IndexDamagedError, match=r"g2\.faiss cannot be read \(No such file"):
        read_faiss(second.path, sha256=second.sha256, size=COUNT, dim=DIM)


def test_a_right_checksum_on_the_wrong_index_is_found(tmp_path):
    written = write(make("SQfp16").index, tmp_path / "g1.faiss")
    for expected in ({"size": COUNT + 1, "dim": DIM}, {"size": COUNT, "dim": DIM + 1}):
        with pytest.raises(IndexDamagedError, match="it holds 300 vectors of length 16"):
            read_faiss(written.path, sha256=written.sha256, **expected)
    for name, stranger in {"bare": faiss.IndexFlatIP(DIM), "euclid": faiss.index_factory(DIM, "IDMap,Flat")}.items():
        path = tmp_path / f"{name}.faiss"
        faiss.write_index(stranger, str(path))
        with pytest.raises(IndexDamagedError, match="is not the index it should be"):
            read_faiss(path, sha256=file_hash(path), size=0, dim=DIM)
    (tmp_path / "text").write_text("not an index")
    with pytest.raises(IndexDamagedError, match="is not the index it should be"):
        read_faiss(tmp_path / "text", sha256=file_hash(tmp_path / "text"), size=0, dim=DIM)


def test_the_limits_of_the_reader_are_put_back(tmp_path):
    before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
    written = write(make("SQfp16").index, tmp_path / "g1.faiss")
    read_faiss(written.path, sha256=written.sha256, size=COUNT, dim=DIM)
    assert before == (faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit())


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    index = make("SQfp16").index
    kept = [write(index, tmp_path / f"{name}.faiss") for name in ("old", "new")]
    (tmp_path / "new-k2j3.tmp").write_bytes(b"half a file")
    (tmp_path / "notes.txt").write_text("mine")
    gone = remove_others(tmp_path, ".faiss", keep={"new.faiss"})
    assert {path.name for path in gone} == {"new-k2j3.tmp", "old.faiss"}
    assert {path.name for path in tmp_path.iterdir()} == {"new.faiss", "notes.txt"}
    assert kept[1].path.exists()
    assert remove_others(tmp_path / "none", ".faiss", keep=()) == []


_MUTATE_AND_READ = """
import os, resource, sys, tempfile
import numpy as np
from retriever.core.errors import RetrieverError
from retriever.vectors.faiss.index import FaissIndex
from retriever.vectors.faiss.backend import read_container
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
whole = np.fromfile(sys.argv[1], np.uint8)
size, dim = int(sys.argv[2]), int(sys.argv[3])
rng = np.random.default_rng(0)
queries = np.eye(3, dim, dtype=np.float32)
outcomes = {"loaded": 0, "refused": 0}
for _ in range(60):
    mutated = whole.copy()
    reach = len(whole) if rng.random() < 0.5 else min(200, len(whole))
    places = rng.integers(0, reach, rng.integers(1, 4))
    mutated[places] = rng.integers(0, 256, len(places))
    with tempfile.TemporaryFile() as file:
        file.write(mutated.tobytes()); file.seek(0)
        try:
            FaissIndex(read_container(file, size=size, dim=dim))
            outcomes["loaded"] += 1
        except RuntimeError:
            outcomes["refused"] += 1
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # of this program, not its parent
print(int(peak.split()[1]) // 1024)
"""


def test_mutated_files_past_the_checksum_neither_crash_nor_eat_memory(built, tmp_path):
    written = write(built.index, tmp_path / "g1.faiss")
    command = [sys.executable, "-c", _MUTATE_AND_READ, str(written.path), str(COUNT), str(DIM)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert child.returncode == 0, child.stderr[-2000:]
    assert int(child.stdout.split()[-1]) < 400, "MiB at most, some 150 of them for the libraries"
