import shutil
from dataclasses import replace

import pytest
import tiny_checkpoints
from damage import answers, make_index, make_killed_index
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, documents, gives
from operations import CORPUS
from replay import read_tree, write_tree

from retriever import load_encoder
from retriever.core.errors import CheckpointError, EncoderMismatchError, IndexDamagedError
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE
from retriever.workspace import Index

pytestmark = pytest.mark.durability


@pytest.fixture
def pair(tmp_path):
    """Give two closed indexes of other texts, alike in size and in the names of their parts."""
    one, other = tmp_path / "one", tmp_path / "other"
    make_index(one)
    make_index(other)
    with Index(other, encoder=FakeEncoder()) as index:
        index.add([replace(row, text=f"{row.text} {ALL_WORDS[-1]}") for row in CORPUS], instructions=[MOOD])
        index.upkeep.repair()
    return one, other


def artefacts(path):
    return [one.artefact for one in verify(path, load=gives(FakeEncoder)).findings]


def file_of(path, view):
    [found] = path.glob(f"views/{view}/*.faiss")
    return found


def test_a_database_of_another_index_brings_its_own_truth_and_repair_follows_it(pair):
    one, other = pair
    expected = answers(other)
    shutil.copyfile(other / DATABASE, one / DATABASE)
    assert artefacts(one) == [f"views/{view}/{file_of(other, view).name}" for view in (1, 2)]
    with Index(one, encoder=FakeEncoder()) as index, pytest.raises(IndexDamagedError, match=file_of(other, 1).name):
        index.search("hot", mode="dense")
    repair(one, load=gives(FakeEncoder))
    assert verify(one, deep=True, load=gives(FakeEncoder)).findings == []
    assert answers(one) == expected


def test_a_log_of_another_index_is_found(pair, tmp_path):
    _, other = pair
    make_killed_index(tmp_path / "killed", tmp_path / "draft")
    log = read_tree(tmp_path / "killed")[f"{DATABASE}-wal"]
    write_tree(tmp_path / "mixed", {**read_tree(other), f"{DATABASE}-wal": log})
    assert verify(tmp_path / "mixed", deep=True, load=gives(FakeEncoder)).findings


def test_a_model_of_another_index_is_refused_by_name(tiny, tmp_path):
    for seed, name in enumerate(("one", "other")):
        tiny_checkpoints.save_trained(tmp_path / name, tiny("llama"), seed=seed)
    with Index(tmp_path / "index", encoder=load_encoder(str(tmp_path / "one"), device="cpu")) as index:
        index.add(documents("kettle love", "toy hate"))
    weights = "adapter_model.safetensors"
    kept = (tmp_path / "one" / weights).read_bytes()
    shutil.copyfile(tmp_path / "other" / weights, tmp_path / "one" / weights)
    with Index(tmp_path / "index", device="cpu") as index, pytest.raises(CheckpointError, match=weights):
        index.search("kettle", mode="dense")
    (tmp_path / "one" / weights).write_bytes(kept)
    with Index(tmp_path / "index", device="cpu") as index:
        assert len(index.search("kettle", mode="dense").hits) == 2
    (tmp_path / "one").rename(tmp_path / "aside")
    (tmp_path / "other").rename(tmp_path / "one")
    with Index(tmp_path / "index", device="cpu") as index, pytest.raises(EncoderMismatchError):
        index.search("kettle", mode="dense")
