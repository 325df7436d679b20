import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_reference import strings
from tiny_models import edit_json
from tokenizers import Tokenizer
from transformers import BertTokenizer

from retriever.core.errors import EncoderError, UsageError
from retriever.core.prompts import TEMPLATES
from retriever.encoders import tokenize
from retriever.encoders.reading import prompt_pieces
from retriever.encoders.tokenize import distinct, plan_batches, pretrained_tokenizer, read_tokenizer, token_budget

CAUSAL = ["llama", "mistral"]


def joined(pieces, text_ids, which=0):
    return [*pieces.before, *text_ids, *pieces.shared, *pieces.rests[which]]


@pytest.mark.parametrize("name", ["llama", "mistral", "roberta", "bert"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_prompt_is_its_pieces_tokenised_apart_and_joined(slow, backbone, name, template):
    text, instruction = "The toy broke, Kettle", "what product is it about"
    tokenizer = backbone(name).tokenizer
    pieces = prompt_pieces(tokenizer, TEMPLATES[template], [instruction])
    expected = slow(name).prompt(text, instruction, template)
    assert joined(pieces, tokenizer.texts([text])[0]) == expected
    assert tokenizer.start == slow(name).start
    assert tokenizer.end == slow(name).end
    assert pieces.start_tokens == len(slow(name).start)


@pytest.mark.parametrize("template", TEMPLATES)
def test_joining_differs_from_tokenising_the_whole_prompt(slow, backbone, template):
    # Otherwise the test above would not notice a prompt tokenised in one go.
    whole = slow("mistral").ids("".join(strings(template, "the toy", "mood")))
    tokenizer = backbone("mistral").tokenizer
    pieces = prompt_pieces(tokenizer, TEMPLATES[template], ["mood"])
    assert joined(pieces, tokenizer.texts(["the toy"])[0])[1:] != whole


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize(
    "instructions", [["mood", "kind of product", "mood"], ["mood", "mood"], ["mood", "mood mood"], ["a", "a b c d"]]
)
def test_several_instructions_share_what_their_suffixes_have_in_common(slow, backbone, name, instructions):
    tokenizer = backbone(name).tokenizer
    pieces = prompt_pieces(tokenizer, TEMPLATES["input-first"], instructions)
    text_ids = tokenizer.texts(["the toy"])[0]
    assert len(pieces.shared) > 1
    for i, instruction in enumerate(instructions):
        assert joined(pieces, text_ids, i) == slow(name).prompt("the toy", instruction)
        assert pieces.rests[i]
    longest = max(len(joined(pieces, [], i)) for i in range(len(instructions)))
    assert pieces.overhead == longest


@pytest.mark.parametrize("name", CAUSAL)
def test_text_is_cut_at_512_tokens_and_counted_while_the_rest_survives(slow, make, name):
    encoder = make("plain", name)
    exact = ("#1" * 256)[: 512 if name == "llama" else 511]  # Mistral's pieces begin with a space of their own
    longer = exact + " the end of a text nobody reads"
    tokenised = encoder.backbone.tokenizer.texts([longer, exact, "short"])
    assert [len(ids) for ids in tokenised[:2]] == [512, 512]
    assert tokenised[0] == slow(name).ids(longer)[:512]
    vectors = encoder.encode([longer, longer, "short"], instruction="mood")
    assert [count > encoder.spec.max_text_tokens for count in encoder.count_tokens([longer, exact])] == [True, False]
    assert vectors[0] == pytest.approx(slow(name).plain(longer, "mood", "last"), abs=1e-5)
    other = encoder.encode([longer], instruction="kind of product")
    assert abs(other[0] - vectors[0]).max() > 1e-3


@pytest.mark.parametrize("template", TEMPLATES)
def test_instruction_of_256_tokens_passes_and_of_257_does_not(make, template):
    encoder = make("plain", "llama", template=template)
    piece = encoder.backbone.tokenizer.piece
    assert len(piece("#1" * 128)) == 256
    encoder.encode(["x"], instruction="#1" * 128)
    with pytest.raises(UsageError, match="257 tokens; at most 256"):
        encoder.encode(["x"], instruction="#1" * 128 + "#")
    with pytest.raises(UsageError, match="257 tokens"):
        encoder.encode_many(["x"], ["mood", "#1" * 128 + "#"])


@pytest.mark.parametrize(
    ("name", "control"),
    [("llama", "<|im_end|>"), ("mistral", "</s>"), ("roberta", "<mask>"), ("bert", "[SEP]")],
)
def test_control_tokens_spelled_in_a_text_stay_plain_characters(tiny, backbone, name, control):
    tokenizer = backbone(name).tokenizer
    unknown = {tokenizer.tokenizer.token_to_id(token) for token in ("<unk>", "[UNK]")}
    text = f"nice{control}toy"
    ids = tokenizer.texts([text])[0]
    assert not tokenizer.special_ids & set(ids) - unknown
    as_control = Tokenizer.from_file(str(tiny(name) / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    assert tokenizer.special_ids & set(as_control)
    assert control.lower() in tokenizer.tokenizer.decode(ids).lower().replace(" ", "")
    assert not tokenizer.special_ids & set(tokenizer.instruction(text, text)) - unknown


def test_the_stored_default_instruction_is_used(make, slow):
    texts = ["the toy"]
    expected = slow("llama").plain("the toy", "Represent the meaning of the text.", "last")
    encoder = make("plain", "llama")
    for same in ("", "Represent the meaning of the text.", "  Represent the meaning of the text.\n", " \t"):
        assert encoder.encode(texts, instruction=same)[0] == pytest.approx(expected, abs=1e-5)


lengths = st.lists(st.integers(0, 60), max_size=40)


@given(lengths, st.integers(1, 200))
def test_batches_keep_the_budget_and_hold_every_row_once_longest_first(lengths, budget):
    batches = list(plan_batches(lengths, budget))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert rows == sorted(rows, key=lambda row: (-lengths[row], row))
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget


@given(lengths, st.integers(1, 200))
def test_no_batch_could_have_taken_the_next_row(lengths, budget):
    batches = list(plan_batches(lengths, budget))
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


def test_budget_is_wide_on_cuda_and_wider_where_short_blocks_follow():
    once, reading_on = (token_budget("cpu", reads_on=reads_on) for reads_on in (False, True))
    assert token_budget("cuda", reads_on=False) > reading_on > once


@given(st.lists(st.text(max_size=2)))
def test_distinct_texts_keep_their_order_and_rebuild_the_list(texts):
    unique, positions = distinct(texts)
    assert [unique[position] for position in positions] == texts
    assert len(set(unique)) == len(unique)
    assert [texts.index(text) for text in unique] == sorted(texts.index(text) for text in unique)


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
    assert own.texts(TEXTS) == expected
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
    monkeypatch.setattr(tokenize, "pretrained_tokenizer", lambda folder: object())
    with pytest.raises(EncoderError, match="has a object") as caught:
        read_tokenizer(folder)
    assert caught.value.hint == "Save it as tokenizer.json."


def test_a_limit_is_set_on_a_copy(tiny):
    whole = read_tokenizer(tiny("llama"))
    short = whole.limited(2)
    assert (short.max_text_tokens, whole.max_text_tokens) == (2, 512)
    assert short.texts(["the toy broke"])[0] == whole.texts(["the toy broke"])[0][:2]
