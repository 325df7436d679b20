"""Checkpoints that are not what they say, under a manifest that fits: an error in our words, and nothing else."""

import json
import shutil

import pytest
import torch
from fuzzing import HOSTILE_JSON, VALUES, damaged
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file
from tiny_checkpoints import save_trained
from torch import nn

from retriever.core.errors import CheckpointError, RetrieverError
from retriever.encoders.checkpoint import load_checkpoint
from retriever.encoders.checkpoint_config import read_checkpoint_config
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.sources import check_manifest, write_manifest
from retriever.training.adapter_files import load_trained
from retriever.training.checkpoints import Position, TrainingCheckpoints

FEW = max(1, settings.default.max_examples // 10)


@pytest.fixture(scope="module")
def whole(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "whole"
    save_trained(folder, tiny("llama"))
    return folder


@pytest.fixture(scope="module")
def copy(whole, tmp_path_factory):
    return shutil.copytree(whole, tmp_path_factory.mktemp("copies") / "copy")


def put(whole, copy, name, data):
    """Make the copy whole again but for one file."""
    for path in whole.iterdir():
        shutil.copy(path, copy)
    (copy / name).write_bytes(data)
    write_manifest(copy)


def load(folder):
    return load_checkpoint(folder, EncoderOptions(), device="cpu", dtype="float32")


KEYS = ("format", "method", "backbone", "options")


@given(st.sampled_from(KEYS), VALUES)
@example("format", "1")
@example("backbone", {"name": ["a"], "digest": "d"})
@example("options", {"pooling": 5})
@example("options", {"steps": "three"})
@example("options", {"other": 1})
@example("method", "nothing")
@settings(deadline=None)
def test_any_value_in_the_description(whole, copy, key, value):
    stored = json.loads((whole / "retriever.json").read_text())
    put(whole, copy, "retriever.json", json.dumps({**stored, key: value}).encode())
    try:
        read_checkpoint_config(copy)
    except CheckpointError as error:
        assert str(copy) in str(error)


@given(HOSTILE_JSON | VALUES.map(json.dumps).map(str.encode))
@settings(deadline=None)
def test_any_description_and_any_manifest(whole, copy, data):
    put(whole, copy, "retriever.json", data)
    with pytest.raises(CheckpointError, match=r"retriever\.json is malformed"):
        read_checkpoint_config(copy)
    (copy / "manifest.json").write_bytes(data)
    with pytest.raises(CheckpointError):
        check_manifest(copy, hint="")


@pytest.mark.parametrize("name", ["look_ahead.safetensors", "adapter_model.safetensors", "adapter_config.json"])
def test_damaged_weights_load_or_are_refused(whole, copy, name, record_property):
    record_property("files", FEW)
    put(whole, copy, name, (whole / name).read_bytes())
    assert load(copy).fingerprint == load(whole).fingerprint
    refused = 0
    for seed in range(FEW):
        put(whole, copy, name, damaged((whole / name).read_bytes(), seed))
        for read in (load, load_trained) if seed % 4 == 0 else (load,):
            try:
                read(copy)
            except CheckpointError as error:
                assert str(copy) in str(error)
                refused += 1
            except RetrieverError as error:
                assert error.hint
    assert refused > 0


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"other": torch.zeros(3, 32)},
        {"look_ahead": torch.zeros(3, 31)},
        {"look_ahead": torch.zeros(3)},
        {"look_ahead": torch.zeros(3, 32, dtype=torch.int32)},
    ],
    ids=["none", "another", "width", "one row", "integers"],
)
def test_look_ahead_embeddings_of_another_shape_are_refused(whole, copy, tensors):
    put(whole, copy, "look_ahead.safetensors", save(tensors))
    with pytest.raises(CheckpointError, match="cannot be used"):
        load(copy)


def test_a_pipe_in_a_checkpoint_is_not_waited_for(whole, tmp_path):
    import os

    folder = shutil.copytree(whole, tmp_path / "copy")
    (folder / "README.md").unlink()
    os.mkfifo(folder / "README.md")
    with pytest.raises(CheckpointError, match="no regular file"):
        load(folder)


@pytest.fixture
def state(tmp_path):
    """Give a training state, and what loads it."""
    parameters = {"weight": nn.Parameter(torch.ones(2, 2))}
    optimizer = torch.optim.AdamW(parameters.values())
    states = TrainingCheckpoints(tmp_path, {"seed": 1})
    folder = states.save(parameters, optimizer, Position(step=3))
    return folder, lambda: states.load(folder, parameters, optimizer)


def test_training_states_that_are_not_what_they_say(state):
    folder, load_state = state
    assert load_state() == Position(step=3)
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    hostile = [
        b"[]",
        b"{}",
        b'{"identity": 1, "position": {}}',
        b'{"identity": {}, "position": {"x": 1}}',
        b"[" * 60_000,
    ]
    for data in hostile:
        (folder / "position.json").write_bytes(data)
        write_manifest(folder)
        with pytest.raises(CheckpointError, match="is malformed"):
            load_state()
    for path, data in whole.items():
        path.write_bytes(data)
    for tensors in ({"weights/weight": torch.ones(3, 2)}, {"weights/weight": torch.ones(2, 2)}):
        save_file(tensors, folder / "state.safetensors")
        write_manifest(folder)
        with pytest.raises(CheckpointError, match="cannot be used"):
            load_state()
    (folder / "state.safetensors").write_bytes(b"\xff" * 100)
    write_manifest(folder)
    with pytest.raises(CheckpointError, match="cannot be used"):
        load_state()
