import io
import json
import shutil
import sys
from dataclasses import dataclass

import pytest
from cli_fakes import CORPUS, load_encoder

from retriever.cli.main import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self):
        """The one JSON document on stdout."""
        assert self.code in (0, 3), self.err
        return json.loads(self.out)

    def failed_with(self, code, *parts):
        """Whether it ended with this code, no result and one message in our own words that holds the parts."""
        assert self.code == code, self.err
        assert self.out == ""
        assert f"\n{self.err}".count("\nError: ") == 1
        assert "Unexpected" not in self.err
        missing = [part for part in parts if part not in self.err]
        assert not missing, self.err
        return True


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder, off a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RETRIEVER_DEBUG", raising=False)

    def command(*argv, stdin=b""):
        capsys.readouterr()  # what building a tiny model said
        sys.stderr.reconfigure(errors="backslashreplace")  # as outside of tests
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = main([str(one) for one in argv])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return command


@pytest.fixture
def fake(monkeypatch):
    """Every encoder is the keyword one."""
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", load_encoder)


@pytest.fixture
def write(tmp_path):
    """Write a file of JSON Lines, or of bytes, where commands run, and return its name."""

    def to_file(rows, name="corpus.jsonl"):
        data = rows if isinstance(rows, bytes) else "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / name).write_bytes(data)
        return name

    return to_file


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    """Give a folder with the five reviews and their index; tests must not change it."""
    folder = tmp_path_factory.mktemp("reviews")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CORPUS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("retriever.encoders.catalog.load_encoder", load_encoder)
        assert main(["index", "corpus.jsonl"]) == 0
    return folder


@pytest.fixture
def indexed(run, fake, reviews, tmp_path):
    """Run commands on an index of the five reviews at the default place."""
    shutil.copytree(reviews, tmp_path, dirs_exist_ok=True)
    return run


@pytest.fixture
def database(tmp_path):
    return tmp_path / "indexes/default/corpus.sqlite3"
