import shutil

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from retriever import load_encoder
from retriever.core.errors import CheckpointError, EncoderError, UsageError
from retriever.encoders import catalog, instructor
from retriever.encoders.bert.arrays import LINEAR, Factors
from retriever.encoders.export import sentence_folder
from retriever.encoders.instructor import FACTORS, SEPARATOR, Change, InstructorEncoder
from retriever.encoders.methods import DEFAULT_INSTRUCTION
from retriever.encoders.tokenize import MAX_INSTRUCTION_TOKENS
from retriever.index.encoding import describe, load_described

TEXTS = ["the toy broke", "kettle boils water fast", "", "a sharp knife " * 90, "love the lamp"]
MOOD, PRODUCT = "how does the customer feel", "what kind of product"
ANSWERS = ("a toy", "kettle", "knife", "lamp", "angry")


@pytest.fixture(scope="module")
def source(tiny):
    pytest.importorskip("sentence_transformers")
    return str(tiny("sentence"))


@pytest.fixture(scope="module")
def published(source):
    return InstructorEncoder(source, device="cpu")


@pytest.fixture
def trained(published):
    return published.changed(change(published), DEFAULT_INSTRUCTION)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the user's own, in which answers' vectors are kept."""
    monkeypatch.setenv("RETRIEVER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def change(encoder, answers=ANSWERS, size=0.3):
    """A change of rank 2, drawn at random."""
    draw = np.random.default_rng(0)
    weights = [getattr(layer, part).weight for layer in encoder.published.weights.layers for part in LINEAR]
    sides = [[draw.normal(0, size, shape) for shape in ((len(weight), 2), (2, weight.shape[1]))] for weight in weights]
    return Change([Factors(*(side.astype(np.float16).astype(np.float32) for side in pair)) for pair in sides], answers)


def by_transformers(source, question, text):
    """The mean over all states of [CLS] question [SEP] text [SEP], all of one segment."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    ids = tokenizer(f"{question} [SEP] {text}", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        mean = AutoModel.from_pretrained(source)(input_ids=ids).last_hidden_state.mean(dim=1)[0].numpy()
    return mean / np.linalg.norm(mean)


def test_question_and_text_are_read_as_one_sequence(source, published):
    vectors = published.encode_queries(TEXTS, instruction=MOOD)
    for vector, text in zip(vectors[:2], TEXTS, strict=False):
        np.testing.assert_allclose(vector, by_transformers(source, MOOD, text), atol=1e-5)
    quick = published.encode(TEXTS, instruction=MOOD)  # in bfloat16 where the processor multiplies it
    assert (quick * vectors).sum(axis=1).min() > 0.999


def test_a_change_is_added_to_the_weights_and_leaves_the_published_encoder_alone(published, trained):
    before = published.encode(TEXTS, instruction=MOOD)
    after = trained.encode(TEXTS, instruction=MOOD)
    assert np.abs(after - before).max() > 0.05
    np.testing.assert_array_equal(published.encode(TEXTS, instruction=MOOD), before)
    assert len({published.fingerprint, trained.fingerprint}) == 2
    assert published.changed(change(published, size=0.2), DEFAULT_INSTRUCTION).fingerprint != trained.fingerprint


def test_an_empty_instruction_is_the_default_one(trained):
    default = trained.spec.default_instruction
    np.testing.assert_array_equal(trained.encode(TEXTS), trained.encode(TEXTS, instruction=f" {default} "))
    assert np.abs(trained.encode(TEXTS) - trained.encode(TEXTS, instruction=MOOD)).max() > 1e-3


def test_without_a_default_instruction_texts_under_none_are_read_as_published(published, trained, source, tmp_path):
    taught = published.changed(trained.change, "")
    plain = load_encoder(f"st:{source}", device="cpu")
    np.testing.assert_array_equal(taught.encode(TEXTS), plain.encode(TEXTS))
    np.testing.assert_array_equal(taught.encode_queries(TEXTS), plain.encode_queries(TEXTS))
    np.testing.assert_array_equal(taught.encode(TEXTS, instruction=MOOD), trained.encode(TEXTS, instruction=MOOD))
    assert taught.fingerprint != trained.fingerprint
    instructor.save(taught, tmp_path / "saved")
    again = load_encoder(str(tmp_path / "saved"), device="cpu")
    assert (again.fingerprint, again.spec.default_instruction) == (taught.fingerprint, "")
    assert load_described(describe(again), device="cpu").fingerprint == taught.fingerprint
    named = catalog.load_encoder(str(tmp_path / "saved"), device="cpu", default_instruction=MOOD)
    np.testing.assert_array_equal(named.encode(TEXTS), trained.encode(TEXTS, instruction=MOOD))
    np.testing.assert_array_equal(again.encode(TEXTS), plain.encode(TEXTS))


def test_words_are_the_nearest_answers(trained, source):
    encoded = trained.encode_with_words(TEXTS, instruction=PRODUCT, top=2)
    rows = dict(zip(ANSWERS, load_encoder(f"st:{source}", device="cpu").encode(ANSWERS), strict=True))
    nothing = trained.encode([""], instruction=PRODUCT)[0]
    for vector, words in zip(encoded.embeddings, encoded.words, strict=True):
        scores = {answer: float((vector - nothing / 2) @ row) for answer, row in rows.items()}
        assert words == sorted(ANSWERS, key=lambda answer: -scores[answer])[:2]
    assert trained.encode_views(TEXTS, [PRODUCT])[0].words == [[] for _ in TEXTS]


def test_vectors_of_answers_are_kept_and_made_again_where_the_file_is_damaged(trained, published, cache, monkeypatch):
    words = trained.encode_with_words(TEXTS, instruction=PRODUCT).words
    (kept,) = (cache / "answers").glob("*.npy")
    again = published.changed(trained.change, DEFAULT_INSTRUCTION)
    with monkeypatch.context() as patch:
        patch.setattr(again.published, "read", None)
        assert len(again._answer_vectors()) == len(ANSWERS)
    assert again.encode_with_words(TEXTS, instruction=PRODUCT).words == words
    kept.write_bytes(b"\x93NUMPY")
    assert (
        published.changed(trained.change, DEFAULT_INSTRUCTION).encode_with_words(TEXTS, instruction=PRODUCT).words
        == words
    )
    assert kept.stat().st_size > 100


def test_without_a_checkpoint_there_are_no_words(published):
    assert published.encode_with_words(TEXTS, instruction=PRODUCT).words == [[] for _ in TEXTS]


def test_a_checkpoint_gives_the_same_encoder_and_no_torch_model_is_loaded(trained, tmp_path):
    instructor.save(trained, tmp_path / "saved", card="card")
    again = load_encoder(str(tmp_path / "saved"), device="cpu")
    assert again.fingerprint == trained.fingerprint
    assert again.answers == ANSWERS
    np.testing.assert_array_equal(again.encode(TEXTS, instruction=MOOD), trained.encode(TEXTS, instruction=MOOD))
    with pytest.raises(CheckpointError, match="exists already"):
        instructor.save(trained, tmp_path / "saved")


def test_a_checkpoint_of_other_weights_or_a_changed_file_is_refused(trained, tmp_path):
    instructor.save(trained, tmp_path / "saved")
    changed = shutil.copytree(tmp_path / "saved", tmp_path / "changed")
    (changed / FACTORS).write_bytes((changed / FACTORS).read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match="differs from its recorded"):
        load_encoder(str(changed))
    wrong = Change(trained.change.factors[:-1], ANSWERS)
    trained.change = wrong
    instructor.save(trained, tmp_path / "wrong")
    with pytest.raises(CheckpointError, match="cannot be used"):
        load_encoder(str(tmp_path / "wrong"))


def test_an_untrained_one_is_not_saved(published, tmp_path):
    with pytest.raises(CheckpointError, match="was not trained"):
        instructor.save(published, tmp_path / "saved")


def test_a_long_question_is_refused_and_a_long_text_cut(published):
    with pytest.raises(UsageError, match=f"at most {MAX_INSTRUCTION_TOKENS} are allowed"):
        published.encode(TEXTS, instruction="toy " * 300)
    long, longer = published.encode(["a sharp knife " * 200, "a sharp knife " * 300], instruction=MOOD)
    np.testing.assert_array_equal(long, longer)


def test_options_of_other_encoders_and_other_families_are_refused(source, tmp_path):
    with pytest.raises(UsageError, match="has no look-ahead to choose"):
        load_encoder(f"instructor:{source}", look_ahead=1)
    folder = shutil.copytree(source, tmp_path / "model")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": true}')
    with pytest.raises(EncoderError, match="no sentence encoder of the BERT family"):
        InstructorEncoder(str(folder))


@pytest.mark.parametrize("default", [DEFAULT_INSTRUCTION, ""])
def test_an_export_gives_the_vectors_of_its_encoder(published, trained, source, tmp_path, default):
    encoder = load_encoder(f"instructor:{source}", device="cpu", dtype="float32").changed(trained.change, default)
    written = sentence_folder.write(encoder, tmp_path / "out", "out")
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    rows = theirs.encode(TEXTS, prompt=f"{MOOD}{SEPARATOR}")
    singly = [encoder.encode_queries([text], instruction=MOOD)[0] for text in TEXTS]
    np.testing.assert_allclose(rows, singly, atol=1e-4)
    assert ("Texts without an instruction are read by the model as it was published" in written.card) == (not default)
    if default:
        np.testing.assert_allclose(theirs.encode(TEXTS[:2]), encoder.encode_queries(TEXTS[:2]), atol=1e-4)
    else:
        assert theirs.default_prompt_name is None


def test_an_export_with_other_vectors_is_refused(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_folder, "linear_weights", lambda weights: {})
    with pytest.raises(EncoderError, match="cannot be exported"):
        sentence_folder.write(trained, tmp_path / "out", "out")
