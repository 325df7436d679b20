import hashlib
import os
from pathlib import Path

import pytest

from retriever.core import errors, registry
from retriever.core.errors import RetrieverError
from retriever.core.fingerprint import content_hash, file_hash, json_hash
from retriever.core.paths import cache_dir, new_folder


def test_hashes_are_pinned():
    # Stored in every index: if one of these changes, old indexes no longer match their texts and encoders.
    assert content_hash("héllo\n") == hashlib.sha256("héllo\n".encode()).digest()
    assert content_hash("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert json_hash({}) == hashlib.sha256(b"{}").hexdigest()
    assert json_hash({"b": [1, None], "a": "é"}) == hashlib.sha256('{"a": "é", "b": [1, null]}'.encode()).hexdigest()


def test_json_hash_is_independent_of_key_order_at_every_depth():
    assert json_hash({"a": {"x": 1, "y": 2}, "b": 3}) == json_hash({"b": 3, "a": {"y": 2, "x": 1}})
    assert json_hash({"a": [1, 2]}) != json_hash({"a": [2, 1]})
    assert json_hash({"a": 1}) != json_hash({"a": "1"})


def test_texts_that_look_alike_hash_apart():
    assert len({content_hash(text) for text in ("e\u0301", "é", "é ", "É", "é\n")}) == 5


def test_file_hash_is_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"\x00\xff" * 300_000)
    assert file_hash(tmp_path / "a") == hashlib.sha256(b"\x00\xff" * 300_000).hexdigest()


def test_names_resolve_when_used():
    assert registry.resolve("retriever.core.fingerprint:json_hash") is json_hash


def test_a_missing_package_prints_the_pip_line():
    with pytest.raises(RetrieverError) as caught:
        registry.resolve("no_such_package.sub:thing", package="no-such-package")
    assert str(caught.value) == "The package 'no-such-package' is missing. pip install no-such-package"
    with pytest.raises(RetrieverError, match="'no_such_package' is missing"):
        registry.resolve("no_such_package:thing")
    with pytest.raises(AttributeError):
        registry.resolve("retriever.core.fingerprint:no_such_function")


def test_the_nearest_name_is_suggested():
    known = ["instemb", "gircse", "plain"]
    assert registry.nearest("gircs", known) == "Did you mean 'gircse'?"
    assert registry.nearest("zzz", known) == "Known: gircse, instemb, plain."


@pytest.mark.parametrize(
    ("name", "code"), [("UsageError", 2), ("FilterError", 2), ("IndexDamagedError", 4), ("CheckpointError", 1)]
)
def test_errors_carry_an_exit_code_and_a_next_step(name, code):
    error = getattr(errors, name)("It broke.", hint="Mend it.")
    assert isinstance(error, RetrieverError)
    assert (error.exit_code, str(error), error.hint) == (code, "It broke. Mend it.", "Mend it.")
    assert str(getattr(errors, name)("It broke.")) == "It broke."


def test_a_new_folder_appears_whole(tmp_path):
    target = tmp_path / "deep" / "target"
    with new_folder(target) as draft:
        (draft / "sub").mkdir()
        (draft / "sub" / "a").write_text("x")
        assert not target.exists()
        assert draft.parent == target.parent
    assert (target / "sub" / "a").read_text() == "x"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_new_folder_lets_in_whom_the_one_around_it_lets_in(tmp_path):
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared").chmod(0o755)
    with new_folder(tmp_path / "shared" / "target") as draft:
        (draft / "file").write_text("x")
    assert (tmp_path / "shared" / "target").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_new_folder_never_appears_when_its_block_fails(tmp_path, error):
    target = tmp_path / "target"

    def make():
        with new_folder(target) as draft:
            (draft / "a").write_text("half")
            raise error

    with pytest.raises(error):
        make()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_does_not_replace_one_that_holds_something(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "precious").write_text("x")

    def make():
        with new_folder(target) as draft:
            (draft / "a").write_text("y")

    with pytest.raises(OSError, match="target"):
        make()
    assert [path.name for path in tmp_path.rglob("*")] == ["target", "precious"]


def test_files_are_flushed_before_the_folder_gets_its_name(tmp_path, monkeypatch):
    events = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda number: (events.append("fsync"), fsync(number))[1])
    monkeypatch.setattr(Path, "rename", lambda self, to: (events.append("rename"), rename(self, to))[1])
    with new_folder(tmp_path / "target") as draft:
        (draft / "a").write_text("x")
        (draft / "b").write_text("y")
    assert events == ["fsync", "fsync", "fsync", "rename", "fsync"]  # files, folder, name


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVER_CACHE", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "mine"
    monkeypatch.delenv("RETRIEVER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "retriever"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == tmp_path / ".cache" / "retriever"
