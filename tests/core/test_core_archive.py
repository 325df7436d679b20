import hashlib
import io
import json
import tarfile

import pytest
from fuzzing import MIB, VALUES, limited
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retriever.core.archive import MANIFEST, MAX_MANIFEST, SEAL, ArchiveReader, write_archive
from retriever.core.errors import InputError

DATA = {"one.bin": b"1" * 1000, "sub/two.bin": b"", "three": b"3" * 512}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Give the bytes of an archive of three files."""
    folder = tmp_path_factory.mktemp("from")
    files = {name: folder / str(number) for number, name in enumerate(DATA)}
    for name, path in files.items():
        path.write_bytes(DATA[name])
    file = io.BytesIO()
    write_archive(file, {"kind": "test"}, files)
    return file.getvalue()


def extract(data, folder):
    folder.mkdir(exist_ok=True)
    ArchiveReader(io.BytesIO(data)).extract(folder)


def hostile(*members, manifest=None):
    """Pack (TarInfo, bytes) behind a manifest that names them, as an attacker would."""
    listed = [{"name": info.name, "size": len(data), "sha256": ""} for info, data in members]
    text = json.dumps(manifest or {"format": 1, "files": listed}).encode()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for info, data in [(tarfile.TarInfo(MANIFEST), text), *members]:
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return file.getvalue()


def member(name, data=b"x", kind=tarfile.REGTYPE, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, data


def test_what_goes_in_comes_out_for_its_owner_alone(archive, tmp_path):
    extract(archive, tmp_path / "to")
    found = {path.relative_to(tmp_path / "to").as_posix(): path for path in (tmp_path / "to").rglob("*.*")}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        name: data for name, data in DATA.items() if "." in name
    }
    assert {path.stat().st_mode & 0o777 for path in found.values()} == {0o600}


def test_tar_reads_it_too(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        assert packed.getnames() == [MANIFEST, *DATA, SEAL]
        assert packed.extractfile("one.bin").read() == DATA["one.bin"]
        assert json.load(packed.extractfile(MANIFEST))["kind"] == "test"


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_only_regular_files_are_taken(tmp_path, kind):
    with pytest.raises(InputError, match="of type"):
        extract(hostile(member("one", b"", kind, "/etc/passwd")), tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../out", "/tmp/out", "a/../../out", "..", ".", "", "a//b", "a/", ".hidden", "a\\b", "a\nb", "C:x", "x" * 101,
     "é"],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="no name for a file"):
        extract(hostile(member(name)), tmp_path / "to")
    assert [path.name for path in tmp_path.rglob("*")] == ["to"]


def test_a_header_that_names_another_file_than_the_manifest_is_refused(tmp_path):
    listed = {"format": 1, "files": [{"name": "good", "size": 1, "sha256": ""}]}
    with pytest.raises(InputError, match=r"it holds '\.\./out' where good should be"):
        extract(hostile(member("../out"), manifest=listed), tmp_path / "to")
    assert [path.name for path in tmp_path.rglob("*")] == ["to"]


@pytest.mark.parametrize("names", [("a", "a"), ("a", "A"), (MANIFEST,), (SEAL,)])
def test_two_files_of_one_name_are_refused(tmp_path, names):
    with pytest.raises(InputError, match="a file twice"):
        extract(hostile(*map(member, names)), tmp_path / "to")


def test_a_manifest_cannot_promise_more_than_the_archive_holds(tmp_path):
    listed = {"format": 1, "files": [{"name": "bomb", "size": 1 << 50, "sha256": ""}]}
    with pytest.raises(InputError, match="and the archive only"):
        extract(hostile(member("bomb"), manifest=listed), tmp_path / "to")


def test_a_manifest_of_any_size_is_not_read(tmp_path):
    info = tarfile.TarInfo(MANIFEST)
    info.size = MAX_MANIFEST + 1
    with pytest.raises(InputError, match=r"its manifest\.json has"):
        extract(info.tobuf(tarfile.GNU_FORMAT) + bytes(512), tmp_path / "to")


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"format": 1}', b'{"format": 1, "files": [1]}', b"[" * 100_000, b'"\xff"']
)
def test_a_manifest_that_says_nothing_is_refused(tmp_path, text):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as packed:
        info = tarfile.TarInfo(MANIFEST)
        info.size = len(text)
        packed.addfile(info, io.BytesIO(text))
    with pytest.raises(InputError, match="its manifest"):
        extract(file.getvalue(), tmp_path / "to")


def test_a_newer_format_asks_for_an_update(tmp_path):
    with pytest.raises(InputError, match=r"format 2.*Update retriever"):
        extract(hostile(manifest={"format": 2, "files": []}), tmp_path / "to")


def test_every_flipped_bit_and_every_cut_is_found(archive, tmp_path):
    unread = set(range(len(archive)))
    for header in headers(archive):
        end = header.offset_data + header.size
        unread -= {*range(header.offset, header.offset + 148), *range(header.offset + 156, end)}
    for at in range(0, len(archive), 7):
        changed = bytearray(archive)
        changed[at] ^= 1 << at % 8
        try:
            extract(bytes(changed), tmp_path / str(at))
        except InputError:
            continue
        assert at in unread
    for at in range(0, headers(archive)[-1].offset_data + 64, 97):
        with pytest.raises(InputError):
            extract(archive[:at], tmp_path / f"cut-{at}")


def headers(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        return packed.getmembers()


def test_no_link_that_is_there_already_is_followed(archive, tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "one.bin").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="outside the destination"):
        extract(archive, tmp_path / "to")
    assert not (tmp_path / "elsewhere").exists()


# Whatever an archive's bytes or manifest say, it is taken whole or refused, and nothing is written elsewhere.


SIZES = st.sampled_from([0, 1, -1, 1 << 40, 1e999, float("nan"), "1", "x", None, True, [], 10**400])
NAMES = st.sampled_from(["a", "../a", "/etc/passwd", "a/../../b", "a" * 200, ".", "", "a\0", "\ud800", "a/b", MANIFEST])
ENTRIES = st.fixed_dictionaries({"name": NAMES | VALUES, "size": SIZES | VALUES, "sha256": VALUES})


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
