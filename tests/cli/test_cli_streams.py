import json
import os
import subprocess
import sys

import pytest

RUN = "from retriever.cli.main import run; run()"
SEARCH = "search kettle --mode lexical"
TEXT = "kettle á 水 👍"


@pytest.fixture
def shell(indexed, write, tmp_path):
    """Run a command line on an index with a text that few terminals have all characters of."""
    indexed("index", write([{"id": "水", "text": TEXT}], "more.jsonl"))

    def command(words, redirection="", **variables):
        dropped = ("NO_COLOR", "RETRIEVER_DEBUG", "RETRIEVER_CONFIG", "PYTHONIOENCODING")
        environment = {key: value for key, value in os.environ.items() if key not in dropped} | variables
        return subprocess.run(
            ["bash", "-c", f'"$0" -c "$1" {words} {redirection}', sys.executable, RUN],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=300,
        )

    return command


def says(ran, code, *parts):
    """Whether a command ended with this code and a message that holds the parts, in our words."""
    told = ran.stderr.decode()
    assert ran.returncode == code, told
    assert "Traceback" not in told
    assert "Unexpected" not in told
    assert all(part in told for part in parts), told
    return True


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("shift_jis", r"kettle \xe1 水 \U0001f44d"),
        ("ascii:strict", r"kettle \xe1 \u6c34 \U0001f44d"),
    ],
)
def test_characters_that_the_terminal_lacks_are_escaped(shell, encoding, shown):
    ran = shell(SEARCH, PYTHONIOENCODING=encoding)
    assert says(ran, 0)
    assert shown in ran.stdout.decode(encoding.partition(":")[0])


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_is_json_whatever_the_terminal_has(shell, encoding):
    ran = shell(f"{SEARCH} --json", PYTHONIOENCODING=encoding)
    assert says(ran, 0)
    assert ("水", TEXT) in [(hit["id"], hit["text"]) for hit in json.loads(ran.stdout)["hits"]]
    assert (TEXT.encode() in ran.stdout) == (encoding == "utf-8")


@pytest.mark.parametrize("closed", ["2>&- <&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_the_null_device(shell, closed):
    ran = shell(SEARCH, closed)
    assert says(ran, 0)
    assert (TEXT in ran.stdout.decode()) == (">&-" not in closed.replace("2>&-", ""))


def test_a_file_is_never_opened_in_the_place_of_a_closed_stream(shell):
    assert says(shell("delete 水", ">&- 2>&-"), 0)
    assert says(shell("verify"), 0)


def test_a_standard_input_that_cannot_be_read_is_named(shell):
    assert says(shell("search -", "0> out.txt"), 1, "stdin cannot be read")


@pytest.mark.parametrize("words", [f"{SEARCH} --json", "--help"])
def test_a_full_disk_behind_standard_output_is_told(shell, words):
    assert says(shell(words, "> /dev/full"), 1, "No space left on device")


def test_an_error_keeps_its_code_when_it_cannot_be_told(shell):
    assert shell("search kettle -k 0", "2> /dev/full").returncode == 2


def test_a_cache_that_cannot_be_written_is_told_with_the_setting_that_moves_it(shell):
    ran = shell("embed more.jsonl -o v.npy --encoder minilm", RETRIEVER_CACHE="more.jsonl")
    assert says(ran, 1, "more.jsonl", "cannot be written", "set RETRIEVER_CACHE")
