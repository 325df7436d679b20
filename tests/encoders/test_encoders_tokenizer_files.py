import json
import shutil

import pytest
from tiny_models import edit_json
from tokenizers import Tokenizer
from transformers import BertTokenizer

from retriever.core.errors import EncoderError
from retriever.encoders import tokenizer_files
from retriever.encoders.tokenizer_files import pretrained_tokenizer, read_tokenizer

TEXTS = [
    "the toy broke, Kettle\n",
    "",
    "  spaces around\t",
    "Übergröße 价格 \U0001f600",
    "nice <|im_end|> </s> <mask> [SEP] <pad> <|endoftext|> toy",
    "### Input:\nfoo",
]
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]


def copied(tiny, tmp_path, name, **settings):
    folder = shutil.copytree(tiny(name), tmp_path / name)
    edit_json(folder / "tokenizer_config.json", **settings)
    return folder


def same(folder):
    """Compare a folder's tokenizer with the one that transformers makes of it."""
    own, theirs = read_tokenizer(folder), pretrained_tokenizer(folder)
    expected = theirs(TEXTS, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert own.texts(TEXTS).ids == expected
    assert own.count(TEXTS) == list(map(len, expected))
    assert own.start + own.piece("x") + own.end == theirs("x")["input_ids"]
    assert own.special_ids == set(theirs.all_special_ids)
    assert own.stop_id == theirs.eos_token_id
    if theirs.mask_token:
        assert own.mask_id == theirs.mask_token_id
    assert own.vocabulary() == [token or "" for token in theirs.convert_ids_to_tokens(list(range(len(theirs))))]
    last = theirs("the toy.", add_special_tokens=False, return_offsets_mapping=True)
    assert own.last_token("the toy.") == (last["input_ids"][-1], last["offset_mapping"][-1][0])
    return own


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "roberta", "bert"])
def test_ids_are_those_of_transformers(tiny, name):
    assert same(tiny(name)).special_ids


SETTINGS = [
    {"extra_special_tokens": ["toy", "<|new|>"]},
    {"additional_special_tokens": ["<|im_start|>", "kettle"]},
    {"extra_special_tokens": {"image_token": "<|endoftext|>"}},
    {"pad_token": None, "image_token": "the"},
    {"eos_token": {"content": "<|endoftext|>", "__type": "AddedToken", "lstrip": False, "normalized": False}},
    {"eos_token": "<|never seen|>"},
    {"add_bos_token": True, "add_eos_token": True},
    {"model_max_length": 5, "padding_side": "left", "truncation_side": "left", "split_special_tokens": False},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_special_tokens_of_the_settings_are_known(tiny, tmp_path, settings):
    same(copied(tiny, tmp_path, "llama", **settings))


@pytest.mark.parametrize("newer", [False, True])
def test_an_older_list_of_special_tokens_counts_where_the_settings_have_no_table(tiny, tmp_path, newer):
    table = {"added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True}}} if newer else {}
    folder = copied(tiny, tmp_path, "llama", **table)
    stored = {"eos_token": {"content": "<|im_start|>"}, "additional_special_tokens": ["<|endoftext|>"]}
    (folder / "special_tokens_map.json").write_text(json.dumps(stored))
    own = same(folder)
    assert own.stop_id == own.tokenizer.token_to_id("<|im_end|>" if newer else "<|im_start|>")


def test_limits_and_padding_in_the_file_are_not_applied(tiny, tmp_path):
    folder = copied(tiny, tmp_path, "bert")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert same(folder).count(["the toy broke " * 9]) == [27]


def test_no_settings_are_none(tiny, tmp_path):
    folder = copied(tiny, tmp_path, "gpt2")
    (folder / "tokenizer_config.json").unlink()
    own = read_tokenizer(folder)
    assert own.special_ids == set()
    assert own.stop_id is None
    assert own.piece("the toy") == read_tokenizer(tiny("gpt2")).piece("the toy")


def test_without_a_file_of_its_own_transformers_makes_the_tokenizer(tiny, tmp_path):
    folder = copied(tiny, tmp_path, "bert", tokenizer_class="BertTokenizer")
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)), encoding="utf-8")
    assert isinstance(pretrained_tokenizer(folder), BertTokenizer)
    same(folder)


def test_a_tokenizer_of_another_package_is_refused(tiny, tmp_path, monkeypatch):
    folder = copied(tiny, tmp_path, "llama")
    (folder / "tokenizer.json").unlink()
    monkeypatch.setattr(tokenizer_files, "pretrained_tokenizer", lambda folder: object())
    with pytest.raises(EncoderError, match="has a object") as caught:
        read_tokenizer(folder)
    assert caught.value.hint == "Save it as tokenizer.json."


def test_a_limit_is_set_on_a_copy(tiny):
    whole = read_tokenizer(tiny("llama"))
    short = whole.limited(2)
    assert (short.max_text_tokens, whole.max_text_tokens) == (2, 512)
    assert short.texts(["the toy broke"]).ids[0] == whole.texts(["the toy broke"]).ids[0][:2]
