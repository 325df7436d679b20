import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import ship
import train
from pieces import MODELS, PIECES, ROWS

from retriever.core.errors import UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder that rows and pieces are made in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    return tmp_path


@pytest.fixture
def asked(here, monkeypatch):
    """Scripts only say what they were asked, and make the folder."""
    commands = []

    def run(command, *, check):
        commands.append(command[1:])
        Path(next(one for one in command if one.endswith(".draft"))).mkdir(exist_ok=True)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_rows_that_look_for_something_stand_beside_those_of_the_mixture(here, asked):
    train.make_rows("rows-4", Path("build/rows-4"), Path("data"), Path("kinds"), texts=7000)
    assert [Path(command[0]).name for command in asked] == ["mixture.py", "finding.py"]
    assert all(command[1:] == ["data", "build/rows-4.draft", "--texts", "1000", "--seed", "3"] for command in asked)
    assert Path("build/rows-4").is_dir()


def test_rows_of_many_kinds_stand_beside_those_of_the_mixture(here, asked):
    train.make_rows("answers", Path("build/answers"), Path("data"), Path("kinds"), texts=400)
    assert [Path(command[0]).name for command in asked] == ["mixture.py", "finding.py", "kinds.py"]
    assert asked[0][1:] == ["data", "build/answers.draft", "--texts", "1500", "--seed", "0"]
    assert asked[1][1:] == ["data", "build/answers.draft", "--texts", "150", "--seed", "0"]
    assert asked[2][1:] == ["kinds", "build/answers.draft", "--seed", "0"]


def test_rows_that_cannot_be_made_leave_no_folder(here, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda command, *, check: SimpleNamespace(returncode=1))
    with pytest.raises(UsageError, match=r"mixture\.py did not make the rows of rows"):
        train.make_rows("rows", Path("build/rows"), Path("data"), Path("kinds"), texts=100)
    assert not Path("build/rows").exists()


def test_every_script_understands_its_options():
    for script in ("mixture.py", "finding.py"):
        command = [sys.executable, str(train.RECIPES / script), "--help"]
        assert "--texts" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_pieces_go_on_from_pieces_and_learn_from_rows_that_are_made():
    done = {"instemb:smollm2-135m", "instructor:all-minilm-l6-v2"}
    for pieces in MODELS.values():
        for one in pieces:
            piece = PIECES[one]
            assert piece.base in done, one
            assert piece.rows in ROWS
            assert (train.RECIPES / f"{piece.settings}.toml").is_file()
            done.add(f"build/{one}")
    assert {one for pieces in MODELS.values() for one in pieces} == PIECES.keys()


def test_a_run_goes_on_until_every_piece_is_done_and_ships_it_then(here, monkeypatch, capsys):
    asked, shipped = [], []

    def finetune(request, *, on_progress, announce):
        asked.append((request.output.name, request.base, request.minutes))
        finished = len(asked) != 2  # the second piece needs another call
        if finished:
            request.output.mkdir()
        judgement = SimpleNamespace(verdict=SimpleNamespace(sentence="good")) if finished else None
        return SimpleNamespace(step=1, steps=1, seconds=1.0, judgement=judgement)

    monkeypatch.setattr("retriever.training.run.finetuning.finetune", finetune)
    monkeypatch.setattr(train, "make_rows", lambda name, out, data, kinds, *, texts: out.mkdir())
    monkeypatch.setattr(ship, "put", lambda name, folders, *, keep: shipped.append((name, len(folders), keep)))
    monkeypatch.setattr(sys, "argv", ["train.py", "data", "kinds", "--minutes", "5"])
    assert train.main() == train.NOT_DONE
    assert "default-2 is not finished: make train again" in capsys.readouterr().out
    assert shipped == []
    assert train.main() == 0
    assert [name for name, _, _ in asked] == ["default", "default-2", *list(PIECES)[1:]]
    assert shipped == [("default", 2, 0.5), ("instemb", 3, 0.4), ("gircse", 2, 0.0)]
    assert {minutes for _, _, minutes in asked} == {5}


def test_an_error_says_what_to_do_and_is_no_traceback(here, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", lambda command, *, check: SimpleNamespace(returncode=1))
    monkeypatch.setattr(sys, "argv", ["train.py", "data", "kinds"])
    assert train.main() == 1
    assert "did not make the rows" in capsys.readouterr().err
    assert json.dumps(sorted(path.name for path in here.iterdir())) == '["build"]'
