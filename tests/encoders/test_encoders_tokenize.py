import pytest
from slow_reference import strings
from tokenizers import Tokenizer

from retriever.core.errors import UsageError
from retriever.core.prompts import TEMPLATES
from retriever.encoders.prefix import prompt_pieces

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
    assert joined(pieces, tokenizer.texts([text]).ids[0]) == expected
    assert tokenizer.start == slow(name).start
    assert tokenizer.end == slow(name).end
    assert pieces.start_tokens == len(slow(name).start)


@pytest.mark.parametrize("template", TEMPLATES)
def test_joining_differs_from_tokenising_the_whole_prompt(slow, backbone, template):
    # Otherwise the test above would not notice a prompt tokenised in one go.
    whole = slow("mistral").ids("".join(strings(template, "the toy", "mood")))
    tokenizer = backbone("mistral").tokenizer
    pieces = prompt_pieces(tokenizer, TEMPLATES[template], ["mood"])
    assert joined(pieces, tokenizer.texts(["the toy"]).ids[0])[1:] != whole


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize(
    "instructions", [["mood", "kind of product", "mood"], ["mood", "mood"], ["mood", "mood mood"], ["a", "a b c d"]]
)
def test_several_instructions_share_what_their_suffixes_have_in_common(slow, backbone, name, instructions):
    tokenizer = backbone(name).tokenizer
    pieces = prompt_pieces(tokenizer, TEMPLATES["input-first"], instructions)
    text_ids = tokenizer.texts(["the toy"]).ids[0]
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
    assert [len(ids) for ids in tokenised.ids[:2]] == [512, 512]
    assert tokenised.ids[0] == slow(name).ids(longer)[:512]
    assert tokenised.truncated == 1
    vectors = encoder.encode([longer, longer, "short"], instruction="mood")
    assert [count > encoder.spec.max_text_tokens for count in encoder.count_tokens([longer, exact])] == [True, False]
    assert vectors[0] == pytest.approx(slow(name).plain(longer, "mood", "last"), abs=1e-5)
    other = encoder.encode([longer], instruction="kind of product")
    assert abs(other[0] - vectors[0]).max() > 1e-3


def test_limit_is_the_tokenizers_to_set(backbone):
    tokenizer = backbone("llama").tokenizer.limited(2)
    assert tokenizer.texts(["the toy broke", "x"]).ids == [
        backbone("llama").tokenizer.piece("the toy broke")[:2],
        backbone("llama").tokenizer.piece("x"),
    ]
    assert tokenizer.count(["the toy broke", ""]) == [len(backbone("llama").tokenizer.piece("the toy broke")), 0]


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
    ids = tokenizer.texts([text]).ids[0]
    assert not tokenizer.special_ids & set(ids) - unknown
    as_control = Tokenizer.from_file(str(tiny(name) / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    assert tokenizer.special_ids & set(as_control)
    assert control.lower() in tokenizer.tokenizer.decode(ids).lower().replace(" ", "")
    assert not tokenizer.special_ids & set(tokenizer.instruction(text, text)) - unknown


@pytest.mark.parametrize(("method", "name"), [("plain", "llama"), ("gircse", "mistral"), ("inbedder", "roberta")])
def test_empty_instruction_is_the_default_one_and_whitespace_is_stripped(make, method, name):
    encoder = make(method, name, default_instruction="what kind of product")
    texts = ["the toy broke", "kettle"]
    default = encoder.encode(texts)
    for same in ("what kind of product", "  what kind of product\n", " \t"):
        assert (encoder.encode(texts, instruction=same) == default).all()
    assert encoder.encode_many(texts, ["", "mood"])[0] == pytest.approx(default, abs=1e-5)
    assert abs(encoder.encode(texts, instruction="mood") - default).max() > 1e-2
    assert encoder.encode_with_words(texts, instruction=" ").embeddings == pytest.approx(default, abs=1e-5)


def test_the_stored_default_instruction_is_used(make, slow):
    texts = ["the toy"]
    expected = slow("llama").plain("the toy", "Represent the meaning of the text.", "last")
    assert make("plain", "llama").encode(texts)[0] == pytest.approx(expected, abs=1e-5)
