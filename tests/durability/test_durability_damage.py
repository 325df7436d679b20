import random

import damaged_files
import pytest
from damage import WAL, Verdict, damages, make_divided_index, make_index, make_killed_index, torture
from replay import read_tree

pytestmark = pytest.mark.durability
SAMPLE = 60  # of an index's damages; `make torture` tries them all


@pytest.mark.parametrize("make", [make_index, make_divided_index])
def test_a_flipped_bit_or_a_cut_anywhere_in_an_index_is_found_or_harmless(make, tmp_path):
    make(tmp_path / "whole")
    files = [name for name, data in read_tree(tmp_path / "whole").items() if data is not None]
    planned = list(damages(tmp_path / "whole", files, 4))
    random.Random(1).shuffle(planned)
    found = torture(tmp_path / "whole", planned[:SAMPLE], tmp_path / "damaged")
    assert found.bad == []
    assert found.total(Verdict.FOUND) > SAMPLE / 4
    assert found.repaired > SAMPLE / 10


def test_a_damaged_log_ends_at_a_whole_commit(tmp_path):
    make_killed_index(tmp_path / "killed", tmp_path / "draft")
    planned = list(damages(tmp_path / "killed", [WAL], 1))
    random.Random(1).shuffle(planned)
    found = torture(tmp_path / "killed", planned[: SAMPLE // 3], tmp_path / "damaged")
    assert found.bad == []
    assert found.total(Verdict.EARLIER) + found.total(Verdict.FOUND) > SAMPLE / 6


@pytest.mark.parametrize("name", ["model", "states", "archive", "default"])
def test_models_states_archives_and_the_default_are_read_whole_or_refused(name, tmp_path, tiny, monkeypatch):
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    path = tmp_path / name
    if name == "default":
        damaged_files.make_model(tmp_path / "model", tiny("llama"))
    read = {
        "model": lambda: damaged_files.make_model(path, tiny("llama")),
        "states": lambda: damaged_files.make_states(path),
        "archive": lambda: damaged_files.make_archive(path, tmp_path / "draft"),
        "default": lambda: damaged_files.make_default(path, tmp_path / "model"),
    }[name]()
    found = damaged_files.torture_files(path, read, tmp_path / "damaged", each=1)
    assert found.bad == []
    assert found.total(Verdict.FOUND) > 6
