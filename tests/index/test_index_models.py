import json
import shutil
import sys

import numpy as np
import pytest
from index_fakes import documents
from tiny_checkpoints import save_trained
from tiny_models import flip_byte

from retriever import load_encoder, open_index
from retriever.core.errors import CheckpointError, EncoderError, EncoderMismatchError, RetrieverError, UsageError
from retriever.encoders import catalog
from retriever.index import models
from retriever.index.model_names import read_promotion
from retriever.index.sources.encoders import ENCODER

TEXTS = ["the toy broke", "kettle boils water fast", "x"]


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    save_trained(root / "first", tiny("llama"), seed=1)
    save_trained(root / "second", tiny("llama"), seed=2)
    save_trained(root / "steps", tiny("llama"), method="gircse", steps=2)
    return root


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Shipped models and the user's choice lie in folders of the test's own, both empty."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(catalog, "SHIPPED_FOLDER", tmp_path / "shipped")


def ship(source, tmp_path):
    """Make a model the shipped default, as installing another version of the package would."""
    shutil.rmtree(tmp_path / "shipped", ignore_errors=True)
    shutil.copytree(source, tmp_path / "shipped" / "default")


def stored(path):
    with open_index(path) as index:
        return index._opened.store.settings.get(ENCODER)


def test_a_new_index_takes_the_promoted_model_and_an_old_one_keeps_its_own(made, tmp_path, path):
    ship(made / "first", tmp_path)
    with open_index(path) as index:
        index.add(documents(*TEXTS))
        before = index.search("toy", mode="dense")
    assert stored(path)["name"] == "pretrained:default"
    assert models.promote(made / "second") == read_promotion().folder == (made / "second").resolve()
    with open_index(path) as index:
        again = index.search("toy", mode="dense")
        index.add(documents("a red lamp"))
        assert index._opened.sources.encoders.question.spec.name == "pretrained:default"
    assert [hit.score for hit in again.hits] == [hit.score for hit in before.hits]
    with open_index(tmp_path / "new") as index:
        index.add(documents(*TEXTS))
    assert stored(tmp_path / "new")["name"] == str((made / "second").resolve())
    models.reset()
    assert read_promotion() is None
    with open_index(tmp_path / "new") as index:
        assert len(index.search("toy", mode="dense").hits) == 3
        assert index._opened.sources.encoders.question.spec.name == str((made / "second").resolve())


def test_an_index_names_a_shipped_model_without_a_path_of_this_machine(made, tmp_path, path):
    ship(made / "first", tmp_path)
    with open_index(path) as index:
        index.add(documents(*TEXTS))
    assert str(tmp_path) not in json.dumps(stored(path))


def test_an_index_of_an_older_shipped_model_says_to_index_again(made, tmp_path, path):
    ship(made / "first", tmp_path)
    with open_index(path) as index:
        index.add(documents("the toy broke"))
    ship(made / "second", tmp_path)
    with open_index(path) as index:
        with pytest.raises(EncoderMismatchError, match="The index was made by pretrained:default") as caught:
            index.search("toy", instruction="What is it?", mode="dense")
        assert (
            "ships a newer model: `retriever reembed --encoder NAME` (or `--base NAME`, for the base encoder) embeds "
            "the index with another, or install" in caught.value.hint
        )
        assert len(index.search("toy", mode="lexical").hits) == 1
    shutil.rmtree(tmp_path / "shipped")
    with open_index(path) as index, pytest.raises(EncoderError, match="ships no model 'default'") as caught:
        index.search("toy", instruction="What is it?", mode="dense")
    assert "indexed again under another --index" in caught.value.hint


def test_an_index_of_a_shipped_model_that_has_another_name_now_opens_as_before(made, tmp_path, path):
    ship(made / "first", tmp_path)
    with open_index(path) as index:
        index.add(documents(*TEXTS), instructions=["What is it?"])
        before = index.search("toy", instruction="What is it?", mode="dense").ids
    (tmp_path / "shipped" / "default").rename(tmp_path / "shipped" / "instemb")
    shutil.copytree(made / "second", tmp_path / "shipped" / "default")
    with open_index(path) as index:
        assert index.search("toy", instruction="What is it?", mode="dense").ids == before


def test_what_is_no_checkpoint_or_does_not_load_is_not_promoted(made, tmp_path, tiny):
    models.promote(made / "first")
    broken = shutil.copytree(made / "second", tmp_path / "broken")
    flip_byte(broken / "look_ahead.safetensors")
    with pytest.raises(CheckpointError, match="differs from its recorded"):
        models.promote(broken)
    for folder in (tiny("llama"), tmp_path / "none"):
        with pytest.raises(EncoderError, match="is not a retriever checkpoint"):
            models.promote(folder)
    assert read_promotion().folder == (made / "first").resolve()


def test_an_export_of_a_shipped_model_is_what_the_name_loads(made, tmp_path):
    from sentence_transformers import SentenceTransformer

    ship(made / "first", tmp_path)
    done = models.export("default", tmp_path / "out")
    assert (done.name, done.folder, done.loader) == ("pretrained:default", tmp_path / "out", "sentence-transformers")
    theirs = SentenceTransformer(str(done.folder), device="cpu").encode(TEXTS, prompt="mood")
    own = load_encoder("default", device="cpu", dtype="float32").encode(TEXTS, instruction="mood")
    np.testing.assert_allclose(theirs, own, atol=1e-5)
    card = (done.folder / "README.md").read_text()
    assert "with daap pooling over 3 look-ahead tokens" in card
    assert "Made from `pretrained:default`" in card
    assert card.endswith("# The checkpoint's own card\n\n# Tiny instemb\n\nMade of noise.\n")
    files = [file for file in done.folder.rglob("*") if file.is_file()]
    assert not [file for file in files if str(tmp_path).encode() in file.read_bytes()]


def test_the_card_states_the_limit_that_the_folder_has(made, tmp_path):
    from sentence_transformers import SentenceTransformer

    models.export(str(made / "first"), tmp_path / "out")
    most = SentenceTransformer(str(tmp_path / "out"), device="cpu").max_seq_length
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"Text and instruction together have {most} tokens." in card
    assert "Texts of up to 512 tokens are whole under the default instruction" in card


def test_gircse_and_untrained_encoders_are_exported_too(made, tmp_path, tiny):
    done = models.export(str(made / "steps"), tmp_path / "steps")
    assert done.loader == "loader.py"
    assert "Gircse" in (tmp_path / "steps" / "README.md").read_text()
    assert (tmp_path / "steps" / "loader.py").is_file()
    models.export(f"plain:{tiny('llama')}", tmp_path / "plain")
    assert "own card" not in (tmp_path / "plain" / "README.md").read_text()


def test_an_export_that_fails_leaves_nothing(made, tmp_path, tiny, monkeypatch):
    (tmp_path / "there").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="there exists already"):
        models.export(str(made / "first"), tmp_path / "there")
    with pytest.raises(UsageError, match="no export to 'gguf'") as caught:
        models.export(str(made / "first"), tmp_path / "out", to="gguf")
    assert caught.value.hint == "Known: sentence-transformers."
    with pytest.raises(EncoderError, match="is a sentence-transformers model already"):
        models.export(f"st:{tiny('sentence')}", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(RetrieverError, match="'sentence-transformers' is missing") as caught:
            models.export(str(made / "first"), tmp_path / "out")
    assert caught.value.hint == "pip install sentence-transformers"
    assert sorted(tmp_path.iterdir()) == before
