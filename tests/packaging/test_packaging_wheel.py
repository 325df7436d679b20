"""Wheels built from this checkout are whole, and hold no link: links break in archives and on Windows."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    return [line.partition("\t") for line in run("git", "-C", ROOT, "ls-files", "--stage").splitlines()]


def test_git_tracks_no_symbolic_link():
    entries = tracked()
    assert len(entries) > 500
    assert [name for mode, _, name in entries if mode.startswith("120000")] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel of a copy of the checkout, with the setuptools of this environment."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, source / name)
    for name in ("retriever", "app", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", str(place), str(source))
    (file,) = place.glob("instruction_retriever-*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel):
    """Unpack the wheel as an installation would, and give what runs Python with it alone, from another folder."""
    target, elsewhere = wheel.parent / "target", wheel.parent / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel))
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def python(*argv):
        return run(sys.executable, "-P", *argv, cwd=elsewhere, env=environment)

    python.target = target
    return python


def test_a_wheel_holds_every_file_that_the_packages_need(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in ((ROOT / "retriever", "retriever"), (ROOT / "app/retriever_app", "retriever_app")):
        files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {f"{package}/{path.relative_to(folder).as_posix()}" for path in files} <= names
    for file in (ROOT / "examples").glob("*.jsonl"):
        inside = zipfile.ZipFile(wheel).read(f"retriever_app/examples/{file.name}")
        assert inside == file.read_bytes()
    roots = {name.partition("/")[0].partition("-")[0] for name in names}
    assert roots == {"retriever", "retriever_app", "instruction_retriever"}


def test_what_is_installed_runs_from_another_folder(installed):
    where = "import retriever, retriever_app; print(retriever.__file__, retriever_app.__file__)"
    assert all(Path(file).is_relative_to(installed.target) for file in installed("-c", where).split())
    assert "Explore indexes in a browser" in installed("-m", "retriever", "app", "--help")
    listed = installed("-m", "retriever", "models", "list")
    assert "pretrained:default" in listed
    modules = "from retriever_app import example_file as f; from retriever_app.training.model import example_rows as e"
    examples = f"{modules}; print(f('reviews.jsonl'), len(e()))"
    reviews, questions = installed("-c", examples).split()
    assert Path(reviews).is_relative_to(installed.target)
    assert int(questions) > 10
    assert len(Path(reviews).read_text(encoding="utf-8").splitlines()) == 224


@pytest.mark.model
def test_what_is_installed_indexes_the_example_and_searches_it(installed):
    corpus = str(installed.target / "retriever_app/examples/reviews.jsonl")
    installed("-m", "retriever", "index", corpus, "--index", "ix")
    assert "r-0" in installed("-m", "retriever", "search", "it stopped working", "--index", "ix", "-k", "3")
