import json

import pytest
import ship
import torch
from safetensors.torch import load_file, save_file

from retriever.core.errors import CheckpointError, UsageError
from retriever.encoders.sources import check_manifest, write_manifest

SCORE = {"value": 61.25, "low": 55.5, "high": 0.5}
REPORT = {
    "method": "instemb",
    "base": {"name": "instemb:smollm2-135m", "spec": "/home/somebody/instemb"},
    "config": {"adapter": {"rank": 7}},
    "data": {"files": [{"name": "build/rows/reviews.jsonl", "rows": 31}, {"name": "sentences.jsonl", "rows": 5}]},
    "scores": [{"task": "general", "metric": "mean", "items": 9, "before": SCORE, "after": {**SCORE, "value": 70.5}}],
    "steps": {"done": 12, "seconds": 150},
    "versions": {"torch": "2.13.0"},
}


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    for name in ship.KEPT:
        (folder / name).write_text(f"content of {name}\n")
    (folder / "finetune.json").write_text(json.dumps(REPORT))
    (folder / "instemb-losses.jsonl").write_text("{}\n")
    write_manifest(folder)
    return folder


@pytest.fixture
def earlier(tmp_path):
    folder = tmp_path / "earlier"
    folder.mkdir()
    files = [{"name": "build/rows/reviews.jsonl", "rows": 77}]
    report = {
        **REPORT,
        "base": {"name": "pretrained:first"},
        "data": {"files": files},
        "steps": {"done": 5, "seconds": 60},
    }
    (folder / "finetune.json").write_text(json.dumps(report))
    (folder / "finetune.toml").write_text("settings of the first piece\n")
    (folder / "adapter_model.safetensors").write_text("weights of the first piece\n")
    write_manifest(folder)
    return folder


def run(monkeypatch, tmp_path, *made, name="default", keep=0.0):
    monkeypatch.setattr(ship, "SHIPPED", tmp_path / "pretrained")
    assert ship.put(name, made, keep=keep) == tmp_path / "pretrained" / name
    return tmp_path / "pretrained" / name


def test_what_a_user_needs_is_kept_under_a_manifest_of_its_own(monkeypatch, tmp_path, made):
    target = run(monkeypatch, tmp_path, made)
    assert {one.name for one in target.iterdir()} == {*ship.KEPT, "README.md", "training.json", "manifest.json"}
    assert (target / "adapter_model.safetensors").read_text() == "content of adapter_model.safetensors\n"
    check_manifest(target, hint="")
    (target / "finetune.toml").write_text("x")
    with pytest.raises(CheckpointError):
        check_manifest(target, hint="")


def test_the_files_can_be_read_by_whoever_installs_the_package(monkeypatch, tmp_path, made):
    (made / "adapter_model.safetensors").chmod(0o600)
    target = run(monkeypatch, tmp_path, made)
    assert {one.stat().st_mode & 0o777 for one in target.iterdir()} == {0o644}


def test_the_card_names_scores_rows_licences_and_settings(monkeypatch, tmp_path, made):
    card = (run(monkeypatch, tmp_path, made, name="other") / "README.md").read_text()
    assert "# other" in card
    assert "adapter of rank 7" in card
    assert "| 1 | general, mean | 61.25 [55.50, 0.500] | 70.50 [55.50, 0.500] | 9 |" in card
    assert "| reviews_dmaste.jsonl | 31 | MIT (NJUNLP/DMASTE) |" in card
    assert "| qa_qamr.jsonl | 5 | MIT (uwnlp/qamr) |" in card
    assert "Piece 1, instemb: 12 steps in 2 minutes." in card
    assert "content of finetune.toml" in card


def test_the_card_tells_of_every_piece_and_the_last_ships(monkeypatch, tmp_path, made, earlier):
    target = run(monkeypatch, tmp_path, earlier, made)
    card = (target / "README.md").read_text()
    assert "| reviews_dmaste.jsonl | 77 | 31 | MIT (NJUNLP/DMASTE) |" in card
    assert "| qa_qamr.jsonl | 0 | 5 | MIT (uwnlp/qamr) |" in card
    assert "Before piece 1 stands `pretrained:first`." in card
    assert card.index("Piece 1, instemb: 5 steps in 1 minutes.") < card.index("settings of the first piece")
    assert card.index("settings of the first piece") < card.index("Piece 2, instemb: 12 steps in 2 minutes.")
    assert (target / "adapter_model.safetensors").read_text() == "content of adapter_model.safetensors\n"


def test_nothing_that_ships_tells_where_it_was_made(monkeypatch, tmp_path, made):
    (made / "finetune.json").write_text(json.dumps({**REPORT, "base": {"name": "/home/somebody/build/default-2"}}))
    write_manifest(made)
    target = run(monkeypatch, tmp_path, made)
    assert not any(b"/home/" in one.read_bytes() or b"build/rows" in one.read_bytes() for one in target.iterdir())


@pytest.fixture
def weighted(made, earlier):
    """Give both pieces real weights: 1 before and 2 after."""
    for value, folder in ((1.0, earlier), (2.0, made)):
        for name in ("adapter_model.safetensors", "look_ahead.safetensors"):
            save_file({"a": torch.full((3,), value, dtype=torch.bfloat16)}, folder / name)
        write_manifest(folder)
    return earlier, made


def test_the_mean_of_the_weights_before_and_after_the_last_piece_can_ship(monkeypatch, tmp_path, weighted):
    target = run(monkeypatch, tmp_path, *weighted, keep=0.25)
    for name in ("adapter_model.safetensors", "look_ahead.safetensors"):
        found = load_file(target / name)["a"]
        assert (found.dtype, found.tolist()) == (torch.bfloat16, [1.75] * 3)
    assert "the mean of the weights was taken: 0.25 of those of piece 1." in (target / "README.md").read_text()
    check_manifest(target, hint="")


def test_rows_that_look_for_something_count_with_their_source(monkeypatch, tmp_path, made):
    files = [{"name": "build/rows/reviews.jsonl", "rows": 31}, {"name": "finding-reviews.jsonl", "rows": 9}]
    (made / "finetune.json").write_text(json.dumps({**REPORT, "data": {"files": files}}))
    write_manifest(made)
    card = (run(monkeypatch, tmp_path, made) / "README.md").read_text()
    assert "| reviews_dmaste.jsonl | 40 | MIT (NJUNLP/DMASTE) |" in card


def test_the_card_names_who_taught(monkeypatch, tmp_path, made, earlier):
    assert "taught" not in (run(monkeypatch, tmp_path, made) / "README.md").read_text()
    config = {**REPORT["config"], "similarity": {"teacher": "minilm"}, "objective": {"teacher": "pretrained:other"}}
    (made / "finetune.json").write_text(json.dumps({**REPORT, "config": config}))
    write_manifest(made)
    card = (run(monkeypatch, tmp_path, earlier, made) / "README.md").read_text()
    assert "all-MiniLM-L6-v2 (Apache-2.0) taught similarities under the default instruction." in card
    assert "`pretrained:other` taught similarities under every question." in card


def test_an_earlier_version_is_replaced_whole(monkeypatch, tmp_path, made):
    old = tmp_path / "pretrained" / "default"
    old.mkdir(parents=True)
    (old / "layers.safetensors").write_text("old")
    assert not (run(monkeypatch, tmp_path, made) / "layers.safetensors").exists()


def test_a_folder_that_changed_is_not_shipped(monkeypatch, tmp_path, made):
    (made / "finetune.toml").write_text("changed")
    with pytest.raises(CheckpointError, match=r"finetune\.toml"):
        run(monkeypatch, tmp_path, made)
    assert not (tmp_path / "pretrained").exists()


def test_a_file_without_a_known_licence_does_not_ship(monkeypatch, tmp_path, made):
    files = [{"name": "build/rows/found-somewhere.jsonl", "rows": 3}]
    (made / "finetune.json").write_text(json.dumps({**REPORT, "data": {"files": files}}))
    write_manifest(made)
    with pytest.raises(UsageError, match="found-somewhere"):
        run(monkeypatch, tmp_path, made)
