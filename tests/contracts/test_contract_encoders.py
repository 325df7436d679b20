"""Rules for every encoder: each row of the tables is tested because it is there, with every pooling of its class."""

import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch

from retriever import load_encoder
from retriever.core.errors import EncoderError, UsageError
from retriever.core.prompts import TEMPLATES
from retriever.core.protocols import Encoder
from retriever.core.registry import resolve
from retriever.encoders.catalog import CATALOG, SENTENCE_METHODS
from retriever.encoders.checkpoint import load_checkpoint, save_checkpoint
from retriever.encoders.methods import DEFAULT_INSTRUCTION, METHODS, EncoderOptions, build, encoder_class
from retriever.index.encoding import describe, view_key

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
SETTINGS = ("steps", "look_ahead")
WHOLE = {"st": "sentence", "instructor": "sentence"}
"""The tiny model of each row of `SENTENCE_METHODS`."""


def rows():
    """Give (method, tiny model, pooling): every pooling over two causal models, and the default one over a third."""
    for method, target in METHODS.items():
        kind = resolve(target)
        yield from ((method, name, pooling) for name in ("llama", "mistral") for pooling in kind.poolings)
        yield method, "gpt2", None
        if kind.for_masked is not None:
            yield from ((method, "roberta", pooling) for pooling in kind.for_masked.poolings)
            yield method, "bert", None
    yield from ((method, WHOLE.get(method), None) for method in SENTENCE_METHODS)


ROWS = list(rows())
OVER_BACKBONES = [row for row in ROWS if row[0] in METHODS]
IDS = ["-".join(filter(None, row)) for row in ROWS]
by_row = pytest.mark.parametrize("row", ROWS, ids=IDS)
by_method = pytest.mark.parametrize(
    ("method", "name"), list(dict.fromkeys((method, name) for method, name, _ in OVER_BACKBONES))
)


@pytest.fixture(scope="module")
def named(tiny):
    """Give the name that a row's encoder is loaded by."""
    pytest.importorskip("sentence_transformers")
    return lambda row: f"{row[0]}:{tiny(row[1])}"


@pytest.fixture(scope="module")
def make(named, backbone):
    """Give the encoder of a row; options are those of its method."""

    def make(row, **options):
        method, name, pooling = row
        if method in METHODS:
            return build(method, backbone(name), EncoderOptions(pooling=pooling, **options))
        assert name is not None, f"WHOLE names no tiny model for {method}"
        return load_encoder(named(row), device="cpu", dtype="float32", pooling=pooling, **options)

    return make


def close(vectors, expected):
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_every_named_encoder_is_of_a_method_of_the_tables():
    known = {*METHODS, *SENTENCE_METHODS}
    assert {entry.spec.partition(":")[0] for entry in CATALOG.values()} <= known
    assert set(WHOLE) == set(SENTENCE_METHODS)


@by_row
def test_the_spec_says_what_it_is(make, row):
    method, _, pooling = row
    encoder = make(row)
    spec = encoder.spec
    assert isinstance(encoder, Encoder)
    assert re.fullmatch("[0-9a-f]{64}", spec.fingerprint)
    assert (spec.fingerprint, spec.dim) == (encoder.fingerprint, encoder.dim)
    assert encoder.encode(TEXTS[:1]).shape == (1, spec.dim)
    assert (spec.pooling, spec.dtype) == (pooling or spec.pooling, "float32")
    assert spec == make(row).spec
    assert spec.template in {None, *TEMPLATES}
    assert spec.max_text_tokens is None or spec.max_text_tokens > 0
    assert view_key(encoder, "") == view_key(encoder, spec.default_instruction) != view_key(encoder, "mood")
    with pytest.raises(FrozenInstanceError):
        spec.dim = 1
    if method in METHODS:
        assert encoder.method == method
        assert spec.default_instruction == DEFAULT_INSTRUCTION
        assert (spec.trained is None) == (not encoder.learned_names)


def test_the_fingerprint_tells_method_model_and_prompt_apart_and_nothing_else(make):
    kinds = {}
    for row in ROWS:
        kinds.setdefault(row[:2], set()).add(make(row).fingerprint)
    assert all(len(prints) == 1 for prints in kinds.values())  # poolings are told apart by the view
    assert len(set.union(*kinds.values())) == len(kinds)
    for row in OVER_BACKBONES:
        own = make(row).fingerprint
        for change in ({"template": "instruct-query"}, {"default_instruction": "mood"}):
            assert make(row, **change).fingerprint != own


@by_row
def test_a_vector_does_not_change_with_neighbours_batch_size_order_or_duplicates(make, row):
    encoder = make(row)
    together = encoder.encode(TEXTS, instruction=INSTRUCTION)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert abs(together[0] - together[1]).max() > 1e-3
    for text, vector in zip(TEXTS, together, strict=True):
        close(encoder.encode([text], instruction=INSTRUCTION)[0], vector)
    for batch_size in (1, 2, 3):
        close(encoder.encode(TEXTS, instruction=INSTRUCTION, batch_size=batch_size), together)
    order = [3, 0, 6, 2, 5, 1, 4]
    close(encoder.encode([TEXTS[i] for i in order], instruction=INSTRUCTION), together[order])
    repeated = [4, 1, 1, 3, 4, 4]
    vectors = encoder.encode([TEXTS[i] for i in repeated], instruction=INSTRUCTION)
    close(vectors, together[repeated])
    assert (vectors[1] == vectors[2]).all()


@pytest.mark.parametrize(
    ("row", "template"),
    [(row, template) for row in ROWS for template in (TEMPLATES if row[0] in METHODS else [None])],
    ids=str,
)
def test_several_instructions_in_one_pass_equal_separate_passes(make, row, template):
    encoder = make(row, **({"template": template} if template else {}))
    separate = {one: encoder.encode(TEXTS, instruction=one) for one in INSTRUCTIONS}
    assert abs(separate["mood"] - separate[INSTRUCTION]).max() > 1e-3
    for batch_size in (None, 3):
        together = encoder.encode_many(TEXTS, INSTRUCTIONS, batch_size=batch_size)
        assert len(together) == len(INSTRUCTIONS)
        for vectors, one in zip(together, INSTRUCTIONS, strict=True):
            close(vectors, separate[one])
    backwards = encoder.encode_many(TEXTS, INSTRUCTIONS[::-1])
    close(backwards[0], separate["mood"])
    close(backwards[1], separate[INSTRUCTIONS[2]])


@by_row
def test_an_empty_instruction_is_the_default_one(make, row):
    encoder = make(row)
    default = encoder.spec.default_instruction
    plain, blank, named = encoder.encode_many(TEXTS[:3], ["", " \n", default])
    close(blank, plain)
    close(named, plain)
    close(encoder.encode(TEXTS[:3]), plain)


@by_row
def test_words_come_with_the_same_embeddings(make, row):
    encoder = make(row)
    encoded = encoder.encode_with_words(TEXTS, instruction=INSTRUCTION, top=3)
    close(encoded.embeddings, encoder.encode(TEXTS, instruction=INSTRUCTION))
    assert any(encoded.words) == (row[0] in METHODS)
    assert len(encoded.words) == len(TEXTS)
    assert max(map(len, encoded.words)) <= 3
    many = encoder.encode_views([*TEXTS, TEXTS[0]], INSTRUCTIONS, words=3)
    for one, instruction in zip(many, INSTRUCTIONS, strict=True):
        alone = encoder.encode_with_words(TEXTS, instruction=instruction, top=3)
        close(one.embeddings[:-1], alone.embeddings)
        assert one.words == [*alone.words, alone.words[0]]
    assert encoded.words[TEXTS.index("")] == []
    assert [one.words for one in encoder.encode_views(TEXTS[:2], ["mood", ""])] == [[[], []]] * 2


@by_row
def test_nothing_in_is_nothing_out(make, row):
    encoder = make(row)
    none = (0, encoder.dim)
    for batch_size in (None, 2):
        assert encoder.encode([], batch_size=batch_size).shape == none
        assert [one.shape for one in encoder.encode_many([], ["mood", ""], batch_size=batch_size)] == [none] * 2
        assert encoder.encode_many(TEXTS, [], batch_size=batch_size) == []
    encoded = encoder.encode_with_words([])
    assert (encoded.embeddings.shape, encoded.words) == (none, [])


@by_row
def test_tokens_are_told_once_for_a_pass_over_distinct_texts(make, row):
    encoder = make(row)
    told = []
    encoder.encode_views([*TEXTS, TEXTS[0]], [INSTRUCTION], words=1, on_tokens=told.append)
    assert sum(told) == sum(encoder.count_tokens(TEXTS))


@by_row
def test_a_reconfigured_encoder_is_one_made_with_that_setting(make, row):
    encoder = make(row)
    had = [name for name in SETTINGS if vars_of(encoder.spec)[name] is not None]
    for name in had:
        other = encoder.reconfigured(**{name: 2})
        assert other.spec == replace(encoder.spec, **{name: 2}) == make(row, **{name: 2}).spec
        together = other.encode(TEXTS, instruction=INSTRUCTION)
        close(together, make(row, **{name: 2}).encode(TEXTS, instruction=INSTRUCTION))
        close(np.concatenate([other.encode([text], instruction=INSTRUCTION) for text in TEXTS]), together)
        assert view_key(other, "") != view_key(encoder, "")
        assert vars_of(encoder.spec)[name] != 2
    if row[0] not in METHODS:
        with pytest.raises(EncoderError, match="has no steps to choose"):
            encoder.reconfigured(steps=2)
        with pytest.raises(UsageError, match="has no look-ahead to choose"):
            make(row, look_ahead=2)
    else:
        assert encoder.reconfigured().spec == encoder.spec
        with pytest.raises(UsageError, match="has no pooling 'none'"):
            encoder.reconfigured(pooling="none")


def vars_of(spec):
    return {name: getattr(spec, name) for name in SETTINGS}


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] in ("llama", "roberta", *WHOLE.values())], ids=str)
def test_it_loads_by_its_name_and_as_an_index_describes_it(make, named, row):
    made = make(row)
    encoder = load_encoder(named(row), device="cpu", dtype="float32", pooling=row[2])
    assert encoder.spec == replace(made.spec, name=named(row))
    close(encoder.encode(TEXTS), made.encode(TEXTS))
    described = describe(encoder)
    settings = {key: described[key] for key in ("pooling", "steps", "look_ahead", "template", "dtype")}
    assert load_encoder(described["name"], device="cpu", **settings).spec == encoder.spec


@by_method
def test_a_checkpoint_brings_it_back_with_what_it_learned(backbone, tmp_path, method, name):
    model = backbone(name)
    kind = encoder_class(method, model)
    generator = torch.Generator().manual_seed(1)
    untrained = build(method, model, EncoderOptions())
    assert untrained.learned.keys() == set(kind.learned_names)
    learned = {part: torch.randn(values.shape, generator=generator) * 0.3 for part, values in untrained.learned.items()}
    encoder = build(method, model, EncoderOptions(default_instruction="mood"), learned or None)
    save_checkpoint(encoder, tmp_path / "saved", card="")
    again = load_checkpoint(tmp_path / "saved", EncoderOptions(), device="cpu", dtype="float32")
    assert again.spec == encoder.spec
    close(again.encode(TEXTS), encoder.encode(TEXTS))
    assert {file.stem for file in (tmp_path / "saved").glob("*.safetensors")} == set(kind.learned_names)
    if learned:
        plain = build(method, model, EncoderOptions(default_instruction="mood"))
        assert (plain.spec.trained, encoder.spec.trained) == (False, True)
        assert plain.fingerprint != encoder.fingerprint
        assert abs(plain.encode(TEXTS) - encoder.encode(TEXTS)).max() > 1e-3
        assert encoder.reconfigured().spec == encoder.spec


@by_method
def test_a_masked_model_is_read_by_the_class_made_for_it_or_refused(backbone, method, name):
    kind = resolve(METHODS[method])
    assert encoder_class(method, backbone(name)) is (kind.for_masked if backbone(name).masked else kind)
    if kind.for_masked is None:
        with pytest.raises(EncoderError, match=f"{method} needs a causal model; .*roberta is a masked one"):
            build(method, backbone("roberta"), EncoderOptions())
