import json
import shutil
import threading

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors
from threadpoolctl import threadpool_info, threadpool_limits
from tiny_models import edit_json

from retriever import load_encoder
from retriever.core.errors import UsageError
from retriever.core.similarity import normalise
from retriever.encoders.bert import encoder as bert
from retriever.encoders.bert.arrays import ArrayBert, plan_packs, read_weights
from retriever.encoders.bert.encoder import BertEncoder
from retriever.encoders.bert.layout import read_layout
from retriever.encoders.bert.tensors import TensorBert, quick_dtype
from retriever.encoders.kernels import can_pack
from retriever.encoders.sentence_encoder import StockModel

TEXTS = [
    "The TOY broke!",
    "",
    " \n ",
    "kettle boils water fast, and it is heavy",
    "x",
    "a sharp knife " * 50,
    "love \N{SMILING FACE WITH SMILING EYES} the lamp\N{HEAVY BLACK HEART}",
    "Caf\u00e9 na\u00efve \u6c34 the [SEP] toy [MASK] \u200d\x00",
    "x",
    "the toy broke",
]


@pytest.fixture
def folder(tiny, tmp_path):
    """A copy of the tiny sentence-transformers BERT, to be changed."""
    return shutil.copytree(tiny("sentence"), tmp_path / "model")


def stock(folder, texts=TEXTS):
    from sentence_transformers import SentenceTransformer

    return normalise(SentenceTransformer(str(folder), device="cpu").encode(texts, batch_size=3))


def close(vectors, expected):
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def native(folder):
    encoder = load_encoder(f"st:{folder}", device="cpu")
    assert isinstance(encoder.model, BertEncoder)
    return encoder


def in_torch(folder, dtype, texts=TEXTS):
    """Vectors of the torch way, whatever the number of tokens."""
    layout = read_layout(folder)
    model = TensorBert(layout, read_weights(layout), torch.device("cpu"), dtype)
    ids = BertEncoder(layout).tokens.ids(texts)
    vectors = np.zeros((len(texts), layout.dim), dtype=np.float32)
    for pack in plan_packs(ids, 60):
        vectors[pack.rows] = model.read(pack)
    return normalise(vectors)


def first_token(folder):
    edit_json(folder / "1_Pooling" / "config.json", pooling_mode="cls")


def no_normalise(folder):
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[:2]))


def old_settings(folder):
    """As sentence-transformers of 2021 wrote them; all-MiniLM-L6-v2 is one."""
    modules = json.loads((folder / "modules.json").read_text())
    for module, kind in zip(modules, ("Transformer", "Pooling", "Normalize"), strict=True):
        module["type"] = f"sentence_transformers.models.{kind}"
    (folder / "modules.json").write_text(json.dumps(modules))
    modes = {"cls_token": False, "mean_tokens": True, "max_tokens": False}
    settings = {"word_embedding_dimension": 32, **{f"pooling_mode_{name}": on for name, on in modes.items()}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": false}')


def padding_and_truncation(folder):
    padding = {"strategy": {"Fixed": 40}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    cut = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
    edit_json(folder / "tokenizer.json", padding=padding, truncation=cut)


def under_a_head(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(
        {f"bert.{name}": values for name, values in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )


def half_precision(folder):
    weights = load_file(folder / "model.safetensors")
    halves = {name: values.astype(np.float16) for name, values in weights.items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})


def upper_case(folder):
    settings = json.loads((folder / "tokenizer.json").read_text())
    settings["normalizer"] |= {"lowercase": False, "strip_accents": False}
    (folder / "tokenizer.json").write_text(json.dumps(settings))


def unchanged(folder):
    pass


@pytest.mark.parametrize(
    "change",
    [
        unchanged,
        first_token,
        no_normalise,
        old_settings,
        padding_and_truncation,
        under_a_head,
        half_precision,
        upper_case,
    ],
)
def test_vectors_are_those_of_sentence_transformers_with_numpy_and_with_torch(folder, change):
    before = native(folder).encode_queries(TEXTS)
    change(folder)
    encoder = native(folder)
    if change is half_precision:  # in which stock would compute as well
        read = {name: values.astype(np.float32) for name, values in load_file(folder / "model.safetensors").items()}
        save_file(read, folder / "model.safetensors", {"format": "pt"})
    expected = stock(folder)
    close(encoder.encode_queries(TEXTS), expected)
    close(in_torch(folder, torch.float32), expected)
    assert (encoder.encode(TEXTS) * expected).sum(axis=1).min() > 0.999
    assert (in_torch(folder, torch.bfloat16) * expected).sum(axis=1).min() > 0.999
    changes = {first_token, old_settings, half_precision, upper_case}
    assert (abs(encoder.encode_queries(TEXTS) - before).max() > 1e-4) == (change in changes)


def test_texts_are_cut_where_the_model_cuts_them(folder):
    edit_json(folder / "sentence_bert_config.json", max_seq_length=12)
    encoder = native(folder)
    assert encoder.spec.max_text_tokens == 10
    words = "knife toy lamp dog child red blue kettle water sharp heavy toy".split()
    assert encoder.count_tokens([" ".join(words), "", "knife"]) == [12, 0, 1]
    whole, cut, other = encoder.encode([" ".join(words), " ".join(words[:10]), " ".join(words[:9])])
    np.testing.assert_allclose(whole, cut, atol=1e-6)
    assert abs(whole - other).max() > 1e-3
    told = []
    encoder.encode_views([" ".join(words), "knife"], [""], on_tokens=told.append)
    assert sum(told) == 11
    (folder / "sentence_bert_config.json").write_text("{}")
    edit_json(folder / "tokenizer_config.json", model_max_length=10**30)
    assert native(folder).spec.max_text_tokens == 126  # the model's positions


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_text_has_one_vector_alone_and_in_any_order(folder, dtype):
    encoder = load_encoder(f"st:{folder}", device="cpu", dtype=dtype)
    together = encoder.encode(TEXTS)
    assert np.array_equal(np.concatenate([encoder.encode([text]) for text in TEXTS]), together)
    assert np.array_equal(encoder.encode(TEXTS[::-1])[::-1], together)
    assert np.array_equal(encoder.encode(TEXTS, batch_size=3), together)


def test_a_query_has_one_vector_alone_and_in_any_order_to_rounding(folder):
    encoder = native(folder)
    together = encoder.encode_queries(TEXTS)
    close(np.concatenate([encoder.encode_queries([text]) for text in TEXTS]), together)
    close(encoder.encode_queries(TEXTS[::-1])[::-1], together)
    close(in_torch(folder, torch.float32, TEXTS[::-1])[::-1], together)


def changed(name, **changes):
    return lambda folder: edit_json(folder / name, **changes)


def without(name):
    return lambda folder: (folder / name).unlink()


def dense(folder):
    modules = json.loads((folder / "modules.json").read_text())
    module = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*modules, module]))
    settings = {"in_features": 32, "out_features": 5, "bias": True}
    (folder / "3_Dense").mkdir()
    activation = "torch.nn.modules.activation.Tanh"
    (folder / "3_Dense" / "config.json").write_text(json.dumps(settings | {"activation_function": activation}))
    generator = torch.Generator().manual_seed(0)
    weights = {"linear.weight": torch.randn(5, 32, generator=generator), "linear.bias": torch.zeros(5)}
    save_tensors(weights, folder / "3_Dense" / "model.safetensors", {"format": "pt"})


def brain_floats(folder):
    weights = {name: torch.from_numpy(values) for name, values in load_file(folder / "model.safetensors").items()}
    rounded = {name: values.bfloat16() for name, values in weights.items()}
    save_tensors(rounded, folder / "model.safetensors", {"format": "pt"})


def lacking_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def foreign_module(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "elsewhere.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))


def adapter(folder):
    (folder / "adapter_config.json").write_text("{}")


def other_pre_tokenizer(folder):
    edit_json(folder / "tokenizer.json", pre_tokenizer={"type": "Whitespace"})


@pytest.mark.parametrize(
    "change",
    [
        changed("config.json", hidden_act="relu"),
        changed("config.json", model_type="roberta"),
        changed("config.json", position_embedding_type="relative_key"),
        changed("config.json", is_decoder=True),
        changed("config.json", auto_map={"AutoModel": "own.Own"}),
        changed("config.json", quantization_config={"bits": 4}),
        changed("config.json", num_hidden_layers=3),
        changed("1_Pooling/config.json", pooling_mode="max"),
        changed("1_Pooling/config.json", pooling_mode=["cls", "mean"]),
        changed("sentence_bert_config.json", do_lower_case=True),
        changed("sentence_bert_config.json", module_output_name="all_layers"),
        changed("sentence_bert_config.json", modality_config={"text": {"method": "get_text_features"}}),
        changed("sentence_bert_config.json", model_kwargs={"attn_implementation": "eager"}),
        changed("1_Pooling/config.json", include_prompt=False),
        changed("tokenizer_config.json", truncation_side="left"),
        changed("tokenizer_config.json", do_lower_case=False),
        changed("tokenizer_config.json", strip_accents=True),
        adapter,
        without("tokenizer.json"),
        without("sentence_bert_config.json"),
        without("modules.json"),
        without("model.safetensors"),
        brain_floats,
        lacking_a_weight,
        foreign_module,
        other_pre_tokenizer,
        dense,
    ],
)
def test_what_is_not_computed_here_is_left_to_its_own_package(folder, change):
    assert read_layout(folder) is not None
    change(folder)
    assert read_layout(folder) is None


@pytest.mark.parametrize(
    ("change", "dim"),
    [
        (dense, 5),
        (changed("1_Pooling/config.json", pooling_mode="max"), 32),
        (changed("1_Pooling/config.json", include_prompt=False), 32),
    ],
)
def test_other_models_are_read_by_their_own_package(folder, change, dim):
    change(folder)
    encoder = load_encoder(f"st:{folder}", device="cpu")
    assert isinstance(encoder.model, StockModel)
    close(encoder.encode(TEXTS), stock(folder))
    assert (encoder.dim, encoder.spec.dtype, encoder.spec.max_text_tokens) == (dim, "float32", 62)
    assert encoder.count_tokens(["toy", "knife toy", ""]) == [1, 2, 0]
    assert encoder.count_tokens([]) == []


def test_queries_are_read_without_torch_unless_they_are_very_long_and_texts_with_it(folder, monkeypatch):
    encoder = native(folder)
    monkeypatch.setattr(bert, "ARRAY_TOKENS", 12)
    monkeypatch.setattr(BertEncoder, "_in_torch", lambda _: pytest.fail("torch reads"))
    few, more = ["knife", "toy", "lamp", "x"], ["knife", "toy", "lamp", "dog", "x"]  # 3 tokens each
    queries = encoder.encode_queries(few)
    for read in (lambda: encoder.encode_queries(more), lambda: encoder.encode(["x"])):
        with pytest.raises(pytest.fail.Exception, match="torch reads"):
            read()
    monkeypatch.undo()
    monkeypatch.setattr(ArrayBert, "read", lambda *_: pytest.fail("NumPy reads"))
    texts = encoder.encode(few)
    assert (texts * queries).sum(axis=1).min() > 0.999
    assert encoder.spec.dtype == "float32"
    assert encoder.encode_queries([]).shape == (0, 32)
    with pytest.raises(UsageError, match="sequences of strings"):
        encoder.encode_queries("knife")


def test_a_query_is_read_in_one_thread_which_leaves_the_others_to_the_model_that_follows(folder, monkeypatch):
    def threads():
        return {one["num_threads"] for one in threadpool_info() if "numpy.libs" in one["filepath"]}

    encoder, seen, read = native(folder), [], ArrayBert.read
    monkeypatch.setattr(ArrayBert, "read", lambda self, pack: (seen.append(threads()), read(self, pack))[1])
    with threadpool_limits(2, user_api="blas"):
        alone = encoder.encode_queries(["knife toy"])
        monkeypatch.setattr(bert, "ALONE_TOKENS", 0)
        close(encoder.encode_queries(["knife toy"]), alone)
        assert (seen, threads()) == ([{1}, {2}], {2})


def test_texts_are_read_in_what_the_processor_multiplies_fastest(folder, monkeypatch):
    vectors = native(folder).encode(TEXTS)
    dtype = quick_dtype(torch.device("cpu"))
    assert dtype is (torch.bfloat16 if can_pack() else torch.float32)
    np.testing.assert_allclose(vectors, in_torch(folder, dtype), atol=1e-2)
    monkeypatch.setattr("retriever.encoders.bert.tensors.can_pack", lambda: False)
    assert quick_dtype(torch.device("cpu")) is torch.float32
    close(native(folder).encode(TEXTS), stock(folder))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_another_number_format_is_read_by_torch_alone_and_is_of_the_same_view(folder, monkeypatch, dtype):
    first = native(folder)
    expected = first.encode(TEXTS)
    monkeypatch.setattr(ArrayBert, "read", lambda *_: pytest.fail("NumPy reads"))
    encoder = load_encoder(f"st:{folder}", device="cpu", dtype=dtype)
    assert (encoder.spec.dtype, encoder.fingerprint) == (dtype, first.fingerprint)
    assert (encoder.encode(TEXTS) * expected).sum(axis=1).min() > 0.999


def test_threads_share_one_model_in_torch(folder, monkeypatch):
    encoder, found = native(folder), [None] * 4
    made = []
    before = TensorBert.__init__
    monkeypatch.setattr(TensorBert, "__init__", lambda self, *given: made.append(self) or before(self, *given))

    def encode(at):
        found[at] = encoder.encode(TEXTS)

    threads = [threading.Thread(target=encode, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert all((one == found[0]).all() for one in found)
