import numpy as np
import pytest
import torch

from retriever.core.errors import EncoderError
from retriever.encoders import reading
from retriever.encoders.base import PromptEncoder
from retriever.encoders.methods import EncoderOptions
from retriever.encoders.reading import BatchOutput, PromptRun

TEXTS = [
    "the toy broke",
    "kettle boils water fast, and it is heavy",
    "x",
    "",
    "a knife that is sharp and heavy, and a lamp with a red cable " * 3,
    "love the lamp",
    "terrible mood of the dog",
]
INSTRUCTION = "what kind of product"
INSTRUCTIONS = ["mood", INSTRUCTION, "which material is the handle of, in a few words", "mood"]

ONE_PASS = [
    ("plain", "llama", {}),
    ("plain", "mistral", {"pooling": "mean"}),
    ("inbedder", "mistral", {"pooling": "avg-ppt"}),
    ("instemb", "llama", {}),
    ("instemb", "mistral", {"pooling": "special-mean", "look_ahead": 4}),
    ("inbedder", "roberta", {}),
    ("inbedder", "bert", {"pooling": "avg-ppt"}),
]
SOFT = [("gircse", "llama", {}), ("gircse", "gpt2", {"steps": 2})]


def label(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


def close(vectors, expected):
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def nearly(vectors, expected):
    assert (vectors * expected).sum(axis=1).min() >= 0.999


@pytest.mark.parametrize(("method", "name", "options"), [*ONE_PASS, *SOFT], ids=label)
def test_the_same_in_bfloat16_up_to_a_cosine_of_0_999(make, method, name, options):
    encoder = make(method, name, "bfloat16", **options)
    together = encoder.encode(TEXTS, instruction=INSTRUCTION)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    nearly(np.concatenate([encoder.encode([text], instruction=INSTRUCTION) for text in TEXTS]), together)
    nearly(encoder.encode(TEXTS, instruction=INSTRUCTION, batch_size=2), together)
    nearly(encoder.encode(TEXTS[::-1], instruction=INSTRUCTION)[::-1], together)
    for many, one in zip(encoder.encode_many(TEXTS, INSTRUCTIONS), INSTRUCTIONS, strict=True):
        nearly(many, encoder.encode(TEXTS, instruction=one))
    nearly(together, make(method, name, **options).encode(TEXTS, instruction=INSTRUCTION))


def test_a_text_first_pass_reads_every_text_once(make, monkeypatch):
    blocks = []
    extend = PromptRun.extend
    monkeypatch.setattr(
        PromptRun, "extend", lambda run, block: (blocks.append(block.shape[0] * block.shape[1]), extend(run, block))[1]
    )
    long = ["the toy broke and the kettle boils water " * 10 + str(i) for i in range(3)]
    read = {}
    for template in ("input-first", "instruct-query"):
        encoder = make("gircse", "llama", steps=2, template=template)
        for instructions in (["mood"], ["mood", "kind", "material"]):
            blocks.clear()
            encoder.encode_many(long, instructions)
            read[template, len(instructions)] = sum(blocks)
    assert read["input-first", 3] < 1.4 * read["input-first", 1]
    assert read["instruct-query", 3] > 2.9 * read["instruct-query", 1]


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_blocks_read_in_turn_and_after_a_rewind_equal_one_read(backbone, slow, name):
    model = backbone(name)
    rows, more, other = [[5, 6, 7, 8], list(range(10, 40))], [50, 51, 52], [60, 61]
    with torch.inference_mode():
        run = PromptRun(model, rows, cached=True)
        run.start()
        length = run.length
        for block in (more, other, more):
            read = run.extend(model.embed_ids(block).expand(2, -1, -1))
            last = run.extend(model.embed_ids([70]).expand(2, -1, -1))
            run.rewind(length)
            for i, row in enumerate(rows):
                expected = slow(name).read_ids([*row, *block, 70])[0]
                np.testing.assert_allclose(read[i], expected[len(row) : -1], atol=1e-4)
                np.testing.assert_allclose(last[i], expected[-1:], atol=1e-4)
    assert run.length == length


def test_a_masked_model_has_no_run_to_read_on_from(make):
    encoder = make("inbedder", "roberta")
    seen = []

    class Curious(type(encoder)):
        def read(self, prompted, *, answers):
            with pytest.raises(EncoderError, match="cannot read on"):
                prompted.extend(prompted.last)
            seen.append(prompted.texts)
            return super().read(prompted, answers=answers)

    Curious(encoder.backbone, encoder.options).encode(["the toy"])
    assert seen == [["the toy"]]


def test_a_new_encoder_writes_one_method(backbone):
    class First(PromptEncoder):
        method = "first"
        poolings = ("first",)

        def read(self, prompted, *, answers):
            first = prompted.mask.int().argmax(dim=1)
            return BatchOutput(prompted.states[range(len(first)), first])

    encoder = First(backbone("llama"), EncoderOptions())
    vectors = encoder.encode(TEXTS)
    close(vectors, np.repeat(vectors[:1], len(TEXTS), axis=0))  # all prompts begin with "###"
    assert encoder.encode_with_words(TEXTS[:2]).words == [[], []]


ROWS = [[5, 6, 7, 8, 9, 10, 11, 12, 13], [14, 15, 16], [17]]


@pytest.fixture(params=["llama", "mistral", "gpt2"])
def model(request, backbone):
    return backbone(request.param, "float32")


@torch.inference_mode()
def read(model, tokens, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_TOKENS", tokens)
    batch = PromptRun(model, ROWS, cached=True)
    states = batch.start()
    after = batch.extend(model.embed(torch.full((3, 1), 20)))
    return batch, states, after


@pytest.mark.parametrize("tokens", [1, 6, 7, 26])
def test_reading_in_columns_equals_reading_at_once(model, monkeypatch, tokens):
    _, whole, after = read(model, 1000, monkeypatch)
    batch, states, later = read(model, tokens, monkeypatch)
    assert states.shape == whole.shape == (3, 9, model.dim)
    for row, ids in enumerate(ROWS):
        kept = slice(9 - len(ids), None)  # what stands before is padding
        torch.testing.assert_close(states[row, kept], whole[row, kept], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(later, after, atol=1e-5, rtol=1e-4)
    assert batch.length == 10


def test_large_blocks_are_read_in_columns(backbone, monkeypatch):
    model, widths = backbone("llama", "float32"), []
    real = model.forward
    monkeypatch.setattr(model, "forward", lambda block, **rest: widths.append(block.shape[1]) or real(block, **rest))
    read(model, 6, monkeypatch)
    assert widths == [2, 2, 2, 2, 1, 1]
