"""Whatever an archive's bytes or manifest say, it is taken whole or refused, and nothing is written elsewhere."""

import hashlib
import io
import json
import tarfile

import pytest
from fuzzing import MIB, VALUES, damaged, damages, limited
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.core.archive import MANIFEST, SEAL, ArchiveReader, write_archive
from retriever.core.errors import InputError

DATA = {"corpus.sqlite3": b"SQLite" * 100, "model/retriever.json": b"{}", "model/weights": b"w" * 700}
SIZES = st.sampled_from([0, 1, -1, 1 << 40, 1e999, float("nan"), "1", "x", None, True, [], 10**400])
NAMES = st.sampled_from(["a", "../a", "/etc/passwd", "a/../../b", "a" * 200, ".", "", "a\0", "\ud800", "a/b", MANIFEST])
ENTRIES = st.fixed_dictionaries({"name": NAMES | VALUES, "size": SIZES | VALUES, "sha256": VALUES})


def packed(folder):
    """Return the bytes of a good archive."""
    files = {name: folder / str(number) for number, name in enumerate(DATA)}
    for name, path in files.items():
        path.write_bytes(DATA[name])
    file = io.BytesIO()
    write_archive(file, {"kind": "test"}, files)
    return file.getvalue()


def taken(data, folder):
    """Return whether an archive was taken, having looked at what came out."""
    target = folder / "in" / "to"
    target.mkdir(parents=True)
    try:
        reader = ArchiveReader(io.BytesIO(data))
        reader.extract(target)
    except InputError as error:
        assert len(str(error)) < 2000
        whole = False
    else:
        whole = True
        for member in reader.members:
            assert hashlib.sha256((target / member.name).read_bytes()).hexdigest() == member.sha256
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(target) for path in written)
    assert sum(path.stat().st_size for path in written) <= len(data)
    return whole


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return packed(tmp_path_factory.mktemp("whole"))


def test_damaged_archives(whole, folder, record_property):
    copies = 2 * settings.default.max_examples
    record_property("files", copies)
    assert taken(whole, folder("whole"))
    kept = sum(taken(damaged(whole, seed), folder("damaged")) for seed in range(copies))
    assert kept < settings.default.max_examples


def behind(manifest, files=b""):
    """Put a manifest, with the right checksum, before some members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in ((MANIFEST, manifest), ("a", files), (SEAL, hashlib.sha256(manifest).hexdigest().encode())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


@given(st.lists(ENTRIES | VALUES, max_size=3) | VALUES, VALUES | st.just(1))
@example([{"name": "a", "size": 1e999, "sha256": ""}], 1)
@settings(deadline=None)
def test_any_manifest(folder, files, format):
    taken(behind(json.dumps({"format": format, "files": files}).encode()), folder("manifest"))


@given(damages(json.dumps({"format": 1, "files": [{"name": "a", "size": 0, "sha256": ""}]}).encode()))
@settings(deadline=None)
def test_a_damaged_manifest(folder, manifest):
    taken(behind(manifest), folder("manifest"))


def read_hostile_manifests():
    """Return how many manifests of 20 MB were refused; run in a child."""
    texts = [b"[" + b"[]," * 6_000_000 + b"[]]", b"[" * 20_000_000, b'{"format":' + b"9" * 20_000_000 + b"}"]
    refused = 0
    for text in texts:
        try:
            ArchiveReader(io.BytesIO(behind(text)))
        except InputError:
            refused += 1
    return refused


def test_no_manifest_takes_the_memory():
    assert limited(read_hostile_manifests, memory=1024 * MIB, seconds=360) == 3


def read_hostile_headers(folder):
    """Return how many archives of 4 GB were refused whose first header announces a long name; run in a child."""
    refused = 0
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE):
        info = tarfile.TarInfo(MANIFEST)
        info.type, info.size = kind, 4 << 30
        with (folder / "long.tar").open("wb") as file:
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            file.truncate(info.size + 1024)  # a hole: nothing is on the disk
        with (folder / "long.tar").open("rb") as file:
            try:
                ArchiveReader(file)
            except InputError:
                refused += 1
    return refused


def test_no_header_takes_the_memory(tmp_path):
    assert limited(read_hostile_headers, tmp_path, memory=1024 * MIB, seconds=180) == 4
