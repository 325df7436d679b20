import shutil

import numpy as np
import pytest

CORPUS = [{"id": f"r{i}", "text": text} for i, text in enumerate(["kettle broke", "love the toy", "a red lamp"])]
TOO_LONG = "What kind of product is it about? " * 147  # 4,998 characters


@pytest.fixture
def llama(tiny):
    return f"inbedder:{tiny('llama')}"


@pytest.fixture
def checkpoint(backbone, tmp_path):
    from retriever.encoders.behind_prompt import InstEmbEncoder
    from retriever.encoders.checkpoint import save_checkpoint
    from retriever.encoders.methods import EncoderOptions

    folder = tmp_path / "checkpoint"
    save_checkpoint(InstEmbEncoder(backbone("llama"), EncoderOptions(look_ahead=2)), folder, card="A tiny one.\n")
    return folder


def test_a_real_encoder_indexes_searches_and_embeds(run, llama, write):
    assert run("index", write(CORPUS), "--encoder", llama, "--json").document["added"] == 3
    document = run("search", "toy", "--instruction", "What kind of product?", "--json").document
    assert document["path"] == "complete"
    assert {hit["id"] for hit in document["hits"]} == {"r0", "r1", "r2"}
    assert run("embed", "corpus.jsonl", "--encoder", llama, "-o", "v.npy", "--json").document["dim"] == 32
    np.testing.assert_allclose(np.linalg.norm(np.load("v.npy"), axis=1), 1, rtol=1e-5)
    assert run("models", "show", llama, "--json").document["name"] == llama


def test_loading_a_model_draws_no_bars_off_a_terminal(run, llama):
    ran = run("models", "show", llama)
    assert "\r" not in ran.err
    assert "Loading" not in ran.err


def test_an_instruction_of_5000_characters_is_refused_with_its_tokens_and_the_limit(run, llama, write):
    run("index", write(CORPUS), "--encoder", llama)
    for argv in (["index", "corpus.jsonl"], ["search", "toy"], ["embed", "corpus.jsonl", "-o", "v.npy"]):
        given = ["--encoder", llama] if argv[0] == "embed" else []
        ran = run(*argv, *given, "--instruction", TOO_LONG, "--json")
        assert ran.failed_with(2, " tokens; at most 256 are allowed.", "Say it in a sentence or two.")
        assert int(ran.err.split("The instruction has ")[1].split()[0]) > 256
    views = run("status", "--json").document["views"]  # the refused instruction left nothing behind
    assert [view["instruction"] for view in views] == [""]


def test_fetch_says_where_a_backbone_lies(run, tiny):
    folder = str(tiny("llama"))
    ran = run("models", "fetch", folder)
    assert (ran.code, ran.out) == (0, f"{folder} is ready in {folder}.\n")
    document = run("models", "fetch", folder, "--json").document
    assert document["models"] == [{"name": folder, "folder": folder}]
    assert run("models", "fetch", "no/such").failed_with(1, "No model 'no/such'")


UNKNOWN = {
    "a typo": ("instmb", ["Unknown encoder 'instmb'.", "Did you mean 'instemb'?", "`retriever models list`"]),
    "nothing near": ("zzz", ["Unknown encoder 'zzz'.", "Known: default, gircse, inbedder, instemb"]),
    "missing model": ("inbedder:no/such", ["No model 'no/such'", "`retriever models list` shows what is installed"]),
    "a folder": (".", [". is not a retriever checkpoint.", "For a bare model say METHOD:.", "instemb"]),
}


def test_an_unknown_encoder_is_named_with_the_nearest_and_nothing_is_made(run, write, tmp_path):
    write(CORPUS)
    before = sorted(tmp_path.rglob("*"))
    for name, parts in UNKNOWN.values():
        for argv in (["index", "corpus.jsonl", "--encoder", name], ["models", "show", name]):
            assert run(*argv, "--json").failed_with(1, *parts)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_is_indexed_under_its_path_and_loaded_again(run, checkpoint, write):
    assert run("index", write(CORPUS), "--encoder", "checkpoint").code == 0
    assert run("status", "--json").document["encoder"]["name"] == str(checkpoint.resolve())
    assert len(run("search", "toy", "--json").document["hits"]) == 3


def test_an_index_whose_encoder_is_gone_says_so(run, checkpoint, write):
    run("index", write(CORPUS), "--encoder", "checkpoint")
    shutil.move(checkpoint, checkpoint.with_name("elsewhere"))
    asked = ["--instruction", "Which product?"]
    assert run("search", "toy", *asked).failed_with(1, f"Unknown encoder '{checkpoint.resolve()}'.")
    assert run("search", "toy").code == 0  # the base encoder is there
    assert run("search", "toy", "--mode", "lexical").code == 0


@pytest.fixture
def own_choice(tmp_path, monkeypatch):
    """Keep the model that the user promotes beside the test."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / ".config"))


def test_a_promoted_checkpoint_is_the_default_until_it_is_reset(run, checkpoint, write, own_choice):
    place = str(checkpoint.resolve())
    assert run("models", "promote", "checkpoint").out == f"{place} is the default encoder now.\n"
    encoders = run("models", "list", "--json").document["encoders"]
    listed = {one["name"]: one["spec"] for one in encoders}
    assert listed["default"] == place
    assert run("models", "show", "--json").document["name"] == place
    run("index", write(CORPUS))
    assert run("models", "promote", "--reset", "--json").document == {"schema_version": 1, "default": None}
    assert run("models", "promote", "--reset").out == "The shipped model is the default encoder again.\n"
    again = {one["name"]: one["spec"] for one in run("models", "list", "--json").document["encoders"]}
    assert again == listed | {"default": "pretrained:default"}
    assert run("search", "toy", "--json").document["hits"]
    assert run("status", "--json").document["encoder"]["name"] == place


def test_a_default_that_is_gone_says_what_to_do(run, checkpoint, write, own_choice):
    assert run("models", "promote", checkpoint, "--json").document["default"] == str(checkpoint.resolve())
    shutil.move(checkpoint, checkpoint.with_name("elsewhere"))
    for argv in (["models", "show"], ["index", write(CORPUS)], ["embed", "corpus.jsonl", "-o", "v.npy"]):
        assert run(*argv).failed_with(1, f"The default encoder {checkpoint.resolve()} is gone.", "promote --reset")
    assert str(checkpoint) in run("models", "list").out


@pytest.mark.parametrize(
    ("argv", "code", "part"),
    [
        ([], 2, "Name either a checkpoint folder or --reset."),
        (["checkpoint", "--reset"], 2, "Name either a checkpoint folder or --reset."),
        (["."], 1, ". is not a retriever checkpoint."),
        (["none"], 1, "none is not a retriever checkpoint."),
    ],
)
def test_mistakes_in_promoting_change_nothing(run, checkpoint, own_choice, tmp_path, argv, code, part):
    assert run("models", "promote", *argv).failed_with(code, part)
    assert not (tmp_path / ".config").exists()


def test_a_shipped_model_is_listed_and_shown(run, checkpoint, own_choice, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "shipped" / "default")
    encoders = run("models", "list", "--json").document["encoders"]
    (default,) = [one for one in encoders if one["name"] == "default"]
    assert default["spec"] == "pretrained:default"
    assert default["summary"].endswith("fine-tuned; shipped with retriever")
    assert "pretrained:default" in run("models", "list").out
    document = run("models", "show", "--json").document
    assert (document["name"], document["pooling"]) == ("pretrained:default", "model")


def test_a_checkpoint_is_exported_and_the_folder_loads_without_us(run, checkpoint):
    from sentence_transformers import SentenceTransformer

    ran = run("models", "export", "checkpoint", "out")
    assert ran.out == (
        f"{checkpoint.resolve()} was written to out; its README.md shows how to use it with sentence-transformers.\n"
    )
    assert "\r" not in ran.err
    run("embed", "-", "--encoder", "checkpoint", "--instruction", "mood", "-o", "v.npy", stdin=b"love the toy\n")
    theirs = SentenceTransformer("out", device="cpu").encode(["love the toy"], prompt="mood")
    np.testing.assert_allclose(theirs, np.load("v.npy"), atol=0.05)  # these may be bfloat16
    document = run("models", "export", "checkpoint", "again", "--to", "sentence-transformers", "--json").document
    assert document == {
        "schema_version": 1,
        "name": str(checkpoint.resolve()),
        "folder": "again",
        "loader": "sentence-transformers",
    }


@pytest.mark.parametrize(
    ("argv", "code", "part"),
    [
        (["checkpoint", "checkpoint"], 2, "checkpoint exists already."),
        (["checkpoint", "out", "--to", "onnx"], 2, "There is no export to 'onnx'."),
        (["nothing", "out"], 1, "Unknown encoder 'nothing'."),
        (["checkpoint", "checkpoint/README.md/out"], 1, "checkpoint/README.md/out cannot be written: Not a directory"),
    ],
)
def test_mistakes_in_exporting_write_nothing(run, checkpoint, tmp_path, argv, code, part):
    before = sorted(tmp_path.rglob("*"))
    assert run("models", "export", *argv).failed_with(code, part)
    assert sorted(tmp_path.rglob("*")) == before
