import ast
import importlib.util
import json
import shutil
import sys

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import save_trained
from tiny_models import edit_json

from retriever import load_encoder
from retriever.core.errors import EncoderError
from retriever.encoders.backbone import load_backbone
from retriever.encoders.export import gircse_folder, stock_modules
from retriever.encoders.export.stock_modules import extended_table, pooling_shares
from retriever.encoders.methods import EncoderOptions, build
from retriever.encoders.reading import prompt_pieces
from retriever.encoders.readout import Shares
from retriever.encoders.wheels import WHEELS

TEXTS = [
    "the toy broke",
    " kettle boils water fast\n",
    "x",
    "",
    "What is it?\n\n### Response: <|im_end|> </s> [MASK] Ünïcode 价格",
    "love the lamp, hate the plug. " * 9,
]
INSTRUCTIONS = ["", "what kind of product", "About\n\nwhich (material)?", "  mood  ", "### Input:\n"]
LONG = "the battery is slow and the cable is heavy " * 120  # some 1,000 tokens


def stock(folder):
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def same(encoder, model, instruction, texts=TEXTS, batch_size=32):
    theirs = model.encode(texts, prompt=instruction or None, batch_size=batch_size, show_progress_bar=False)
    np.testing.assert_allclose(theirs, encoder.encode(texts, instruction=instruction), atol=1e-5)
    return True


@pytest.fixture(scope="module")
def exported(tiny, tmp_path_factory):
    """A trained InstEmb checkpoint, loaded by its own package and, exported, by theirs."""
    root = tmp_path_factory.mktemp("exported")
    save_trained(root / "checkpoint", tiny("llama"), default_instruction="what is it about")
    encoder = load_encoder(str(root / "checkpoint"), device="cpu", dtype="float32")
    stock_modules.write(encoder, root / "out", "out")
    return encoder, root / "out"


def test_an_exported_checkpoint_gives_the_vectors_of_its_encoder(exported):
    encoder, folder = exported
    model = stock(folder)
    assert all(same(encoder, model, instruction, batch_size=4) for instruction in INSTRUCTIONS)
    assert same(encoder, model, INSTRUCTIONS[1], batch_size=1)


def test_the_instruction_the_adapter_and_the_look_ahead_tokens_count(exported, tiny):
    encoder, folder = exported
    model = stock(folder)
    mine = model.encode(TEXTS, prompt="mood")
    assert np.abs(mine - model.encode(TEXTS)).max() > 1e-2
    bare = build("instemb", load_encoder(f"plain:{tiny('llama')}", device="cpu").backbone, EncoderOptions())
    assert np.abs(mine - bare.encode(TEXTS, instruction="mood")).max() > 1e-2
    assert np.abs(mine - encoder.reconfigured(look_ahead=0).encode(TEXTS, instruction="mood")).max() > 1e-2


def test_a_long_text_loses_its_end_and_never_the_instruction(exported):
    encoder, folder = exported
    model = stock(folder)
    assert encoder.count_tokens([LONG])[0] > 2 * encoder.max_text_tokens
    assert same(encoder, model, "", [LONG, "the toy broke", LONG * 2])
    # Under a longer instruction less of the text is left, and under a shorter one more: the prompt's length is fixed.
    asked = "Which material is it about, in a few words? " * 3
    pieces = prompt_pieces(encoder.backbone.tokenizer, encoder.template, [asked.strip()])
    left = model.max_seq_length - pieces.overhead - encoder.look_ahead
    assert left < encoder.max_text_tokens
    encoder.backbone.tokenizer.max_text_tokens, before = left, encoder.backbone.tokenizer.max_text_tokens
    try:
        assert same(encoder, model, asked, [LONG])
    finally:
        encoder.backbone.tokenizer.max_text_tokens = before


def test_the_folder_holds_stock_modules_and_no_code(exported):
    _, folder = exported
    modules = [module["type"] for module in json.loads((folder / "modules.json").read_text())]
    assert [name.rpartition(".")[2] for name in modules] == ["Transformer", "WordWeights", "Pooling", "Normalize"]
    assert all(name.startswith("sentence_transformers.") for name in modules)
    assert not [file for file in folder.rglob("*") if file.suffix in {".py", ".bin", ".pt", ".pkl"}]
    assert "auto_map" not in (folder / "config.json").read_text()


def test_the_rendered_prompt_has_the_ids_that_the_pieces_are_joined_to(exported):
    encoder, folder = exported
    tokenizer = encoder.backbone.tokenizer
    model = stock(folder)
    for text in TEXTS:
        for instruction in INSTRUCTIONS[1:]:
            asked = instruction.strip()
            before, after = encoder.template.prefix(asked), encoder.template.suffix(asked)
            joined = [*tokenizer.piece(before), *tokenizer.piece(text), *tokenizer.piece(after)]
            ids = model.preprocess([text], prompt=instruction)["input_ids"][0].tolist()
            assert ids[: len(joined) - 1] == joined[:-1]
            names = model.tokenizer.convert_ids_to_tokens(ids[len(joined) - 1 :])
            assert names == ["<|retriever-last|>", *(f"<|retriever-behind-{i}|>" for i in range(3))]


def test_a_mark_in_a_text_is_read_as_characters(exported):
    _, folder = exported
    model = stock(folder)
    given = "toy <|retriever-last|> <|retriever-seam|> broke"
    plain = given.replace("<|retriever-", "<|retriever -")
    np.testing.assert_array_equal(model.encode([given]), model.encode([plain]))
    np.testing.assert_array_equal(model.encode(["toy"], prompt=given), model.encode(["toy"], prompt=plain))


OTHERS = [
    ("instemb", "llama", {"look_ahead": 2}),
    *[("instemb", "llama", {"pooling": name}) for name in ("special-first", "all-mean")],
    ("instemb", "llama", {"pooling": "input-last+special-first", "look_ahead": 4}),
    ("instemb", "llama", {"look_ahead": 0}),
    ("instemb", "gpt2", {}),
    ("instemb", "mistral", {}),
    ("plain", "mistral", {"pooling": "mean"}),
    ("inbedder", "mistral", {"pooling": "avg-ppt"}),
    ("inbedder", "roberta", {}),
    ("inbedder", "roberta", {"pooling": "avg-ppt"}),
    ("inbedder", "bert", {}),
]


@pytest.mark.parametrize(("method", "name", "options"), OTHERS, ids=lambda value: str(value).replace(" ", ""))
def test_other_encoders_are_exported_the_same_way(make, tmp_path, method, name, options):
    encoder = make(method, name, **options)
    written = stock_modules.write(encoder, tmp_path / "out", "out")
    model = stock(tmp_path / "out")
    assert f"together have {model.max_seq_length} tokens" in written.card
    texts = TEXTS[:5] if encoder.backbone.masked else TEXTS
    assert all(same(encoder, model, instruction, texts) for instruction in INSTRUCTIONS[:3])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenizer_that_pads_and_cuts_on_the_left_is_turned_round(tiny, tmp_path, side):
    base = shutil.copytree(tiny("gpt2"), tmp_path / "base")  # its positions are absolute
    edit_json(base / "tokenizer_config.json", padding_side=side, truncation_side=side)
    encoder = build("instemb", load_backbone(str(base), device="cpu", dtype="float32"), EncoderOptions())
    stock_modules.write(encoder, tmp_path / "out", "out")
    assert same(encoder, stock(tmp_path / "out"), "", [*TEXTS, LONG])


def test_a_pooling_fed_with_unit_vectors_gives_its_weights(make):
    assert pooling_shares(make("instemb", "llama", look_ahead=2)) == Shares(0.5, [0.25, 0.25])
    assert pooling_shares(make("instemb", "llama", look_ahead=0)) == Shares(1.0, [])
    assert pooling_shares(make("inbedder", "llama")) == Shares(1.0)


@pytest.mark.parametrize(
    ("method", "name", "options", "message", "hint"),
    [
        ("inbedder", "llama", {"pooling": "last-gen"}, "with last-gen reads what it generates", "1st-gen, avg-ppt"),
        ("gircse", "llama", {}, "gircse with mean-steps reads what it generates", "none can go"),
        ("instemb", "llama", {"template": "instruct-query"}, "instruct-query ends with the text", "input-first"),
    ],
)
def test_what_stock_modules_cannot_do_is_refused(make, tmp_path, method, name, options, message, hint):
    with pytest.raises(EncoderError, match=message) as caught:
        stock_modules.write(make(method, name, **options), tmp_path / "out", "out")
    assert hint in caught.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "name", "broken"),
    [
        (stock_modules, "extended_table", lambda *given: extended_table(*given) * 1.1),
        (stock_modules, "pooling_shares", lambda encoder: Shares(1.0)),
        (stock_modules, "SEAM", ""),
    ],
)
def test_a_folder_that_would_give_other_vectors_is_refused(make, tmp_path, monkeypatch, module, name, broken):
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(EncoderError, match="cannot be exported: its vector of"):
        stock_modules.write(make("instemb", "llama", look_ahead=2), tmp_path / "out", "out")


@pytest.fixture(scope="module")
def gircse(tiny, tmp_path_factory):
    root = tmp_path_factory.mktemp("gircse")
    save_trained(root / "checkpoint", tiny("llama"), method="gircse", steps=3, default_instruction="what is it about")
    encoder = load_encoder(str(root / "checkpoint"), device="cpu", dtype="float32")
    gircse_folder.write(encoder, root / "out", "out")
    return encoder, root / "out"


def loader(folder):
    """The class in the folder's own file, imported from there."""
    spec = importlib.util.spec_from_file_location("loader", folder / "loader.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Gircse


@pytest.mark.parametrize(("instruction", "batch_size"), [("", 1), (INSTRUCTIONS[1], 3), (INSTRUCTIONS[2], 16)])
def test_the_gircse_loader_gives_the_vectors_of_the_encoder(gircse, instruction, batch_size):
    encoder, folder = gircse
    loaded = loader(folder)(folder)
    texts = [*TEXTS, LONG]
    theirs = loaded.encode(texts, instruction, batch_size=batch_size).numpy()
    np.testing.assert_allclose(theirs, encoder.encode(texts, instruction=instruction), atol=1e-5)
    more = loaded.encode(texts, instruction, steps=6, batch_size=batch_size).numpy()
    np.testing.assert_allclose(more, encoder.reconfigured(steps=6).encode(texts, instruction=instruction), atol=1e-5)
    assert np.abs(more - theirs).max() > 1e-2


@pytest.mark.parametrize("name", ["mistral", "gpt2"])
def test_the_gircse_loader_knows_start_tokens_and_absolute_positions(make, tmp_path, name):
    encoder = make("gircse", name, steps=2, template="instruct-query")
    gircse_folder.write(encoder, tmp_path / "out", "out")
    theirs = loader(tmp_path / "out")(tmp_path / "out").encode(TEXTS, "mood").numpy()
    np.testing.assert_allclose(theirs, encoder.encode(TEXTS, instruction="mood"), atol=1e-5)


def test_the_gircse_folder_needs_torch_and_transformers_alone(gircse):
    _, folder = gircse
    nodes = list(ast.walk(ast.parse((folder / "loader.py").read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules = plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) == {"torch", "transformers"}


def test_a_gircse_folder_that_would_give_other_vectors_is_refused(gircse, tmp_path, monkeypatch):
    encoder, _ = gircse
    monkeypatch.setattr("retriever.encoders.export.gircse_loader.Gircse._ids", lambda self, piece: [1, 2])
    with pytest.raises(EncoderError, match="cannot be exported"):
        gircse_folder.write(encoder, tmp_path / "out", "out")


@pytest.mark.model
@pytest.mark.skipif(
    importlib.util.find_spec(WHEELS["smollm2-135m"].module) is None, reason=WHEELS["smollm2-135m"].install
)
def test_the_real_backbone_is_exported(tmp_path):
    encoder = load_encoder("instemb", device="cpu", dtype="float32")
    texts = ["Boils water fast.", "My son loves it \U0001f600", "", "It broke. " * 40]
    stock_modules.write(encoder, tmp_path / "out", "out")
    loaded = stock(tmp_path / "out")
    for instruction in ("", "What kind of product is this about?"):
        theirs = np.asarray(loaded.encode(texts, prompt=instruction or None))
        np.testing.assert_allclose(theirs, encoder.encode(texts, instruction=instruction), atol=1e-3)
