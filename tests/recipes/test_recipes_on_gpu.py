import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import evaluation_fakes
import gpu_needs
import mixture
import numpy as np
import on_gpu
import pytest
import torch
from on_gpu import NOT_DONE, main
from pieces import MODELS, PIECES, ROWS, Rows
from test_recipes_mixture import ASPECTS, LABELLED, write

from retriever import load_encoder
from retriever.core.fingerprint import file_hash
from retriever.encoders import sources
from retriever.evaluation.general import GeneralScore
from retriever.evaluation.scores import mean_score
from retriever.training.run import finetuning

HOME = Path(__file__).parents[2]
TEXTS = 84
ANSWERS = ("toy", "home", "book")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Give data files of 60 texts each, and a suite of its own beside them."""
    folder = evaluation_fakes.register(monkeypatch, tmp_path / "data")
    for file in mixture.EVALUATION:
        write(folder, file, [{"a": "nothing of this"}])
    for file, row in LABELLED.items():
        rows = [{**row, "id": str(n), "text": f"The {'flimsy' if n % 2 else 'sturdy'} lid {n}"} for n in range(60)]
        for number, one in enumerate(rows):
            if "labels" in row:
                one["labels"] = {**row["labels"], "polarity": ("negative", "positive")[number % 2]}
            if "aspects" in row and file == "aspects_dmaste.jsonl":
                one["aspects"] = [{**ASPECTS[0], "polarity": ("NEG", "POS")[number % 2]}]
            if "answer" in row:
                one["answer"] = ANSWERS[number % 3]
            if file == "qa_fairytale.jsonl":
                one |= {"meta": {"story": f"story {number // 3}"}, "split": "train"}
        write(folder, file, rows)
    return folder


@pytest.fixture
def there(tmp_path, monkeypatch, tiny):
    """Tiny models stand for the wheels' files, and the other machine's folders are empty."""
    tiny_wheels = {}
    for name, model in (("smollm2-135m", "llama"), ("all-minilm-l6-v2", "sentence")):
        module = f"wheel_of_{model}"
        folder = tmp_path / "installed" / module
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        with zipfile.ZipFile(folder / "model.zip", "w") as archive:
            for path in sorted(tiny(model).rglob("*")):
                archive.write(path, path.relative_to(tiny(model)))
        digest = file_hash(folder / "model.zip")
        tiny_wheels[name] = sources.WheelFile(module, "model.zip", digest, "pip", sources._unpack_zip)
    monkeypatch.setattr(sources, "WHEELS", tiny_wheels)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed"), *sys.path])
    monkeypatch.setenv("ON_GPU_WORK", str(tmp_path / "there"))
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "there" / "cache"))
    found = mean_score("general", "mean", np.full(9, 70.0), seed=0)
    monkeypatch.setattr(finetuning, "general_score", lambda encoder, *, seed=0: GeneralScore(found, found, found))
    monkeypatch.setattr(finetuning, "draw_curves", lambda path, *data: path.write_text("<svg/>"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path / "there"
    torch.set_num_threads(threads)


def test_from_packing_to_collecting(tmp_path, data, there, monkeypatch, capsys):
    monkeypatch.setitem(ROWS, "rows-5", Rows((2, 5), 7))  # the grids ask about texts that are not here
    monkeypatch.setitem(ROWS, "rows-6", ROWS["rows-4"])  # of so few texts, its seed holds out too few answers
    out, home = tmp_path / "parts", tmp_path / "home"
    options = [
        "--data",
        str(data),
        "--kinds",
        str(data),
        "--texts",
        str(TEXTS),
        "--part-size",
        "100000",
        "--suite",
        "toys",
    ]
    assert main(["pack", str(out), *options]) == 0
    parts = sorted(out.iterdir())
    assert len(parts) > 2
    sys.path.remove(str(tmp_path / "installed"))  # the other machine has no such packages

    for part in parts[:-1]:
        assert main(["unpack", str(part)]) == NOT_DONE
    assert main(["train", "gircse"]) == 1
    assert main(["collect", str(home)]) == 1
    assert main(["unpack", str(parts[-1])]) == 0
    assert "missing" not in capsys.readouterr().out.rpartition("Still to come")[2]

    assert main(["train", "default", "--minutes", "0.0001", "--device", "cpu"]) == NOT_DONE
    assert "train default again" in capsys.readouterr().out
    assert main(["train", "default", "--minutes", "9", "--device", "cpu"]) == 0
    assert main(["train", "gircse", "--minutes", "9", "--device", "cpu"]) == 0
    assert main(["score", "--suite", "toys", "--device", "cpu"]) == 0
    assert main(["collect", str(home)]) == 0

    assert {one.name for one in home.iterdir()} == {"default.tar", "gircse.tar", "scores.json"}
    scores = json.loads((home / "scores.json").read_text())
    assert set(scores) == {"default-toys", "gircse-toys"}
    assert len(scores["default-toys"]["evaluations"][0]["scores"]) == 4
    for name, model in MODELS.items():
        with tarfile.open(home / f"{name}.tar") as archive:
            archive.extractall(home, filter="data")
        encoder = load_encoder(str(home / name), device="cpu")
        assert np.linalg.norm(encoder.encode(["the toy broke"]), axis=1) == pytest.approx(1, abs=1e-5)
        assert len(json.loads((home / name / "training.json").read_text())) == len(model.pieces)
        card = (home / name / "README.md").read_text()
        assert f"Piece {len(model.pieces)}," in card
        assert "| reviews_dmaste.jsonl |" in card
    told = (home / "default" / "README.md").read_text()
    assert "0.4 of those before piece 3" in told
    assert "0.4 of those before piece 5" in told


def test_a_piece_s_settings_are_there():
    for piece in PIECES.values():
        assert (on_gpu.RECIPES / f"{piece.settings}.toml").is_file()


def test_what_is_missing_is_named_with_the_line_that_fetches_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    lines = list(gpu_needs.advice(gpu_needs.missing()))
    assert lines[0].startswith("missing: ir-measures>=0.4 (")
    assert lines[2].endswith(" -d WHEELS 'ir-measures>=0.4'")


def test_an_older_package_is_noted_and_no_reason_to_stop(monkeypatch):
    monkeypatch.setattr(gpu_needs, "version", lambda name: "5.17.0" if name == "transformers" else "99.0")
    assert list(gpu_needs.advice({})) == ["note: transformers is 5.17.0; the package asks for 5.20"]


@pytest.mark.parametrize(("text", "expected"), [("2.11.0+cu130", [2, 11, 0]), ("5.0.0rc1", [5, 0]), ("99", [99])])
def test_versions_are_compared_by_their_numbers(text, expected):
    assert gpu_needs.numbers(text) == expected


def test_loose_wheels_are_laid_out(tmp_path, monkeypatch):
    monkeypatch.setenv("ON_GPU_WORK", str(tmp_path / "there"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "come").mkdir()
    with zipfile.ZipFile(tmp_path / "come" / "kettle_lib-1-py3-none-any.whl", "w") as archive:
        archive.writestr("kettle_lib.py", "BOILS = True\n")
    assert main(["unpack", str(tmp_path / "come")]) == NOT_DONE  # the parts are not there
    import kettle_lib

    assert kettle_lib.BOILS


def test_the_command_says_what_it_can_do():
    script = HOME / "recipes" / "on_gpu.sh"
    ran = subprocess.run([script, "--help"], capture_output=True, text=True, check=True, env={"PYTHON": sys.executable})
    assert {"pack", "unpack", "check", "train", "score", "collect"} <= set(re.findall(r"\w+", ran.stdout))
