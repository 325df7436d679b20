import json
import re
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import save_trained

from retriever import load_encoder
from retriever.core.errors import CheckpointError, EncoderError
from retriever.encoders import catalog
from retriever.encoders.catalog import (
    CATALOG,
    SHIPPED_FOLDER,
    named,
    promoted_folder,
    read_promotion,
    remove_promotion,
    resolve_name,
    shipped,
    write_promotion,
)
from retriever.encoders.sources import check_manifest, write_manifest

TEXTS = ["the toy broke", "kettle boils water fast", "x"]


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """A folder of models as they are shipped, and the encoders that were saved there."""
    root = tmp_path_factory.mktemp("shipped")
    return root, {
        "default": save_trained(root / "default", tiny("llama")),
        "gircse": save_trained(root / "gircse", tiny("llama"), method="gircse", steps=2),
    }


@pytest.fixture
def with_models(made, monkeypatch):
    monkeypatch.setattr(catalog, "SHIPPED_FOLDER", made[0])
    return made[1]


@pytest.fixture
def without_models(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "SHIPPED_FOLDER", tmp_path / "none")


@pytest.fixture
def own(made, tmp_path, monkeypatch):
    """A checkpoint of the user's that is the default."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))
    folder = shutil.copytree(made[0] / "gircse", tmp_path / "own")
    write_promotion(folder)
    return folder


def load(name, **options):
    return load_encoder(name, device="cpu", dtype="float32", **options)


def test_shipped_models_go_before_the_table_and_leave_no_path_behind(with_models):
    assert shipped() == ["default", "gircse"]
    for name, saved in with_models.items():
        encoder = load(name)
        assert resolve_name(name) == encoder.spec.name == f"pretrained:{name}"
        assert encoder.method == saved.method
        np.testing.assert_allclose(encoder.encode(TEXTS), saved.encode(TEXTS), atol=1e-5)
        again = load(encoder.spec.name)
        assert again.spec == encoder.spec
    assert resolve_name("minilm") == CATALOG["minilm"].spec


def test_without_shipped_models_names_stand_for_the_table_and_no_other_model_is_taken_for_the_default(without_models):
    assert shipped() == []
    assert {name: resolve_name(name) for name in CATALOG} == {name: one.spec for name, one in CATALOG.items()}
    assert named() == CATALOG
    with pytest.raises(EncoderError, match="Unknown encoder 'default'"):
        resolve_name("default")


def test_no_row_of_the_table_stands_behind_a_shipped_model():
    assert not set(shipped()) & set(CATALOG)


def test_a_model_that_is_not_shipped_any_more_says_so(with_models):
    for name in ("pretrained:gone", "pretrained:", "pretrained:../default"):
        with pytest.raises(EncoderError, match="ships no model") as caught:
            load(name)
        assert "It ships default, gircse. An index made with another version's model" in caught.value.hint


def test_the_list_of_names_says_what_is_shipped(with_models, tiny):
    entries = named()
    assert entries["default"].spec == "pretrained:default"
    assert entries["default"].summary == f"instemb on {tiny('llama')}, fine-tuned; shipped with retriever"
    assert entries["minilm"] == CATALOG["minilm"]


def test_every_file_of_a_shipped_model_is_package_data(made):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["retriever"]
    for file in made[0].rglob("*"):
        if file.is_file():
            assert any(("pretrained" / file.relative_to(made[0])).match(pattern) for pattern in patterns)


def test_the_package_ships_three_models():
    assert shipped() == ["default", "gircse", "instemb"]


@pytest.mark.parametrize("name", ["default", "gircse", "instemb"])
def test_a_model_in_the_package_is_whole_and_small_and_says_what_it_was_made_from(name):
    folder = SHIPPED_FOLDER / name
    check_manifest(folder, hint="")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 12 << 20
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^license: \S", card, re.MULTILINE)
    data = card.partition("\n## Data\n")[2].partition("\n## ")[0]
    header, _, *files = [line.strip("| ").split(" | ") for line in data.splitlines() if line.startswith("|")]
    assert (header[0], header[-1]) == ("file", "licence")
    assert len(files) > 3
    assert all(file[0].endswith(".jsonl") and len(file) == len(header) and file[-1] for file in files)


def test_a_promoted_folder_is_the_default(with_models, own):
    assert resolve_name("default") == str(own)
    assert load("default").fingerprint == load(str(own)).fingerprint
    assert resolve_name("gircse") == "pretrained:gircse"
    assert load("pretrained:default").method == "instemb"
    assert named()["default"].spec == str(own)
    remove_promotion()
    assert (promoted_folder(), resolve_name("default")) == (None, "pretrained:default")
    remove_promotion()


def test_the_pointer_is_one_small_file_with_an_absolute_path(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_promotion(Path("own"))
    (file,) = (tmp_path / "config").iterdir()
    stored = json.loads(file.read_text())
    assert stored["folder"] == str(own.resolve())
    assert len(stored["digest"]) == 64


def test_a_pointer_is_replaced_whole_or_not_at_all(own, made, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("retriever.core.paths.os.fsync", full)
        with pytest.raises(CheckpointError, match=r"default\.json cannot be written: No space") as caught:
            write_promotion(made[0] / "default")
    assert "RETRIEVER_CONFIG" in caught.value.hint
    assert [file.name for file in (tmp_path / "config").iterdir()] == ["default.json"]
    assert promoted_folder() == own


def test_a_configuration_folder_that_cannot_be_made_is_named(made, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "file" / "config"))
    assert promoted_folder() is None
    with pytest.raises(CheckpointError, match=r"default\.json cannot be written: Not a directory"):
        write_promotion(made[0] / "default")


def test_a_promoted_folder_that_is_gone_is_an_error_with_the_next_step(own, tmp_path):
    own.rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=f"The default encoder {own} is gone") as caught:
        load("default")
    assert "--reset" in caught.value.hint
    assert read_promotion().folder == own
    assert named()["default"].spec == str(own)
    assert resolve_name("minilm") == CATALOG["minilm"].spec


def test_a_promoted_folder_that_changed_is_an_error_with_the_next_step(own):
    (own / "README.md").write_text("Another card.\n")
    with pytest.raises(CheckpointError, match=r"README\.md differs from its recorded"):
        load("default")
    write_manifest(own)  # a whole checkpoint again, but another one
    assert load(str(own)).method == "gircse"
    with pytest.raises(CheckpointError, match=f"The default encoder {own} has changed since") as caught:
        load("default")
    assert "promote it again" in caught.value.hint
    write_promotion(own)
    assert load("default").spec.name == str(own)


@pytest.mark.parametrize("text", ["", "[]", '{"folder": "/x"}', '{"folder": 5, "digest": ""}', "\x80"])
def test_a_pointer_that_cannot_be_read_says_how_to_mend_it(own, tmp_path, text):
    (tmp_path / "config" / "default.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"default\.json cannot be read") as caught:
        resolve_name("default")
    assert "--reset" in caught.value.hint
    remove_promotion()
    assert resolve_name("minilm") == CATALOG["minilm"].spec
