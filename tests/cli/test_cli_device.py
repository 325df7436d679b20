"""--device in every command that has it, from the table of commands itself."""

import evaluation_fakes
import finetune_fakes
import pytest
import typer.main
from cli_fakes import CORPUS

from retriever import open_index
from retriever.cli.main import app
from retriever.core.errors import EncoderError
from retriever.core.types import Document

ASKED = ["--instruction", "Which product is it?"]
LOADING = {
    "index": ["index", "corpus.jsonl"],
    "search": ["search", "kettle", "--mode", "dense"],
    "cluster": ["cluster", "-k", "2"],
    "classify": ["classify", *ASKED, "--into", "kettle, toy"],
    "teach": ["teach", *ASKED, "examples.jsonl"],
    "compare": ["compare", *ASKED, "--instruction", "What mood?"],
    "numbers": ["numbers", "mine"],
    "report": ["report", "mine", "-o", "report.md"],
    "views": ["views", "--complete", "What mood?"],
    "embed": ["embed", "corpus.jsonl", "-o", "vectors.npy"],
    "reembed": ["reembed", "--encoder", "another"],
    "curate": ["curate", "qa.jsonl", "curated.jsonl", "--expert", "minilm"],
    "finetune": ["finetune", "qa.jsonl", "--output", "trained", "--base", "instemb:smollm2-135m"],
    "eval": ["eval", "toys", "--data", "data"],
    "diagnose": ["diagnose", *ASKED],
    "models export": ["models", "export", "default", "exported"],
}
"""What loads an encoder, by command."""

LOADING_NONE = {
    "compact": ["compact"],
    "search by words": ["search", "kettle", "--mode", "lexical"],
    "list of views": ["views"],
    "no expert": ["curate", "qa.jsonl", "curated.jsonl"],
    "back": ["reembed", "--rollback"],
}


def commands_with_a_device(group=None, path=()):
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands_with_a_device(command, (*path, name))
        elif any("--device" in one.opts for one in command.params):
            yield " ".join((*path, name))


@pytest.fixture
def loaded(indexed, write, monkeypatch, tmp_path):
    """Give the devices that encoders were loaded on; none is loaded."""
    write(finetune_fakes.rows(24), "qa.jsonl")
    write([{"id": f"m{row}", "text": f"{row} kettles"} for row in range(6)], "more.jsonl")
    write([{"id": f"m{row}", "answer": ("few", "many")[row > 2]} for row in range(6)], "examples.jsonl")
    indexed("index", "more.jsonl")
    indexed("cluster", "-k", "2", "--save", "mine")
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    evaluation_fakes.register(monkeypatch, tmp_path / "data")
    devices = []

    def load(*name, device="auto", **options):
        devices.append(device)
        raise EncoderError("No encoder in this test.")

    for one in ("encoders.catalog.load_encoder", "encoders.catalog.load", "training.run.base.load_trainable"):
        monkeypatch.setattr(f"retriever.{one}", load)
    return devices


def test_every_command_with_a_device_is_tried_here():
    assert set(commands_with_a_device()) == {*LOADING, "compact"}


@pytest.mark.parametrize("name", LOADING)
def test_the_device_reaches_the_encoder(indexed, loaded, name):
    # cpu:0 is nowhere the default.
    assert indexed(*LOADING[name], "--device", "cpu:0").failed_with(1, "No encoder in this test.")
    assert loaded == ["cpu:0"]


def test_the_device_reaches_the_encoder_of_a_new_index(run, loaded, write):
    ran = run("index", write(CORPUS), "--index", "new", "--device", "cpu:0")
    assert ran.failed_with(1, "No encoder in this test.")
    assert loaded == ["cpu:0"]


def test_the_device_of_an_index_reaches_its_encoder_from_python_too(indexed, loaded):
    for use in (
        lambda: open_index("indexes/default", device="cpu:0").encoder,
        lambda: open_index("new", device="cpu:0").add([Document("a", "toy")]),
    ):
        with pytest.raises(EncoderError, match="No encoder in this test"):
            use()
    assert loaded == ["cpu:0", "cpu:0"]


@pytest.mark.parametrize("argv", [*LOADING.values(), *LOADING_NONE.values()], ids=" ".join)
@pytest.mark.parametrize(("device", "says"), [("banana", "'banana'"), ("cuda", "No CUDA device is available.")])
def test_a_device_that_is_not_there_is_refused(indexed, loaded, monkeypatch, argv, device, says):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert indexed(*argv, "--device", device).failed_with(2, says)
    assert loaded == []
