import errno
import os
import resource
import stat
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
import pytest
from vector_corpora import clustered, ids_for

from retriever.core.errors import IndexDamagedError, RetrieverError
from retriever.core.fingerprint import file_hash
from retriever.vectors.backend import ViewVectors
from retriever.vectors.faiss.backend import read_faiss, write_faiss
from retriever.vectors.faiss.building import build_index

COUNT, DIM = 300, 16
KINDS = {"exact": "SQfp16", "lists": "IVF8,SQfp16", "product": "IVF8,PQ4x4", "graph": "HNSW8,SQfp16"}


def make(factory: str, seed: int = 0):
    ids = ids_for(np.random.default_rng(seed), COUNT)
    return build_index(ViewVectors(ids, DIM, [clustered(COUNT, DIM, seed=seed)]), factory=factory, min_recall=0)


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
    opened = read_faiss(written.path, sha256=written.sha256, size=COUNT, dim=DIM, probes=built.index.probes)
    queries = clustered(40, DIM, seed=9)
    found, expected = opened.search(queries, 10), built.index.search(queries, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert opened.probes == built.index.probes
    allowed = opened.ids[::7]
    np.testing.assert_array_equal(
        opened.search(queries, 9, allowed=allowed).ids, built.index.search(queries, 9, allowed=allowed).ids
    )


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
