from collections import Counter
from dataclasses import replace

import finetune_fakes as fakes
import numpy as np
import pytest
import torch

from retriever import load_encoder
from retriever.encoders.methods import DEFAULT_INSTRUCTION
from retriever.training.adapters import AdapterSettings
from retriever.training.config import default_config
from retriever.training.methods import find_method
from retriever.training.objectives.base import BatchSettings
from retriever.training.objectives.instructor import InstructorObjective, InstructorSettings, KindBatches
from retriever.training.rows import TrainingRow
from retriever.training.run.bases import load_base
from retriever.training.sentence import AdaptedSentenceEncoder, SentenceLearner

ROWS = [
    TrainingRow(row["text"], row["question"], row["answer"], group=row["question"], file="a.jsonl")
    for row in fakes.rows(6)
]
PLAIN = InstructorSettings(plain=0, beside=0)


@pytest.fixture(scope="module")
def source(tiny):
    pytest.importorskip("sentence_transformers")
    return str(tiny("sentence"))


@pytest.fixture
def learner(source):
    """A tiny encoder in training, moved off its start."""
    encoder = load_encoder(f"instructor:{source}", device="cpu")
    adapted = AdaptedSentenceEncoder(
        encoder, AdapterSettings(rank=2), max_text_tokens=64, seed=0, device="cpu", dtype="float32"
    )
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapted.parameters.values():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.1)
    return SentenceLearner(adapted, 0)


def losses(learner, rows, settings=PLAIN):
    objective = InstructorObjective(learner, rows, settings, BatchSettings())
    found = objective.backward(range(len(rows)))
    for parameter in learner.adapted.parameters.values():
        parameter.grad = None
    return found


def softmax(rows):
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def by_hand(learner, source, rows, wrong=(), plain=()):
    """Both losses, row by row, of float64 numbers."""
    with torch.no_grad():
        texts, asked = [row.text for row in rows] + list(plain), [row.instruction for row in rows] + [""] * len(plain)
        vectors = learner.adapted.read(texts, asked).double().numpy()
    goals = [row.answer for row in rows] + list(plain)
    candidates = list(dict.fromkeys([*goals, *wrong]))
    published = load_encoder(f"st:{source}", device="cpu", dtype="float32").encode(candidates).astype(np.float64)
    targets = [candidates.index(goal) for goal in goals]
    right = softmax(published[targets] @ published.T / 0.05)
    answers = -(right * np.log(softmax(vectors @ published.T / 0.05))).sum(axis=1).mean()
    contrasts = []
    for i, row in enumerate(rows):
        alike = [j for j, other in enumerate(rows) if j != i and other.group == row.group]
        same = [j for j in alike if rows[j].answer == row.answer]
        if same and len(same) < len(alike):
            shares = softmax(np.array([[vectors[i] @ vectors[j] / 0.1 for j in alike]]))[0]
            contrasts.append(-np.mean([np.log(shares[alike.index(j)]) for j in same]))
    return answers, np.mean(contrasts) if contrasts else 0.0


def test_the_losses_are_those_of_the_formulas(learner, source):
    found = losses(learner, ROWS)
    answers, contrast = by_hand(learner, source, ROWS)
    assert found["answers"] == pytest.approx(answers, abs=2e-3)  # published vectors may be read in bfloat16
    assert found["contrast"] == pytest.approx(contrast, abs=1e-4)
    assert found["loss"] == pytest.approx(found["answers"] + found["contrast"], abs=1e-5)


def test_texts_are_read_towards_themselves_under_no_question_where_some_rows_have_none(learner, source):
    rows = [*ROWS, replace(ROWS[0], instruction="", group="")]
    found = losses(learner, rows, replace(PLAIN, plain=2))
    answers, _ = by_hand(learner, source, rows, plain=list(dict.fromkeys(row.text for row in rows))[:2])
    assert found["answers"] == pytest.approx(answers, abs=2e-3)
    assert losses(learner, ROWS, replace(PLAIN, plain=2)) == losses(learner, ROWS)


def test_wrong_answers_and_answers_to_other_questions_are_candidates(learner, source):
    one = [replace(ROWS[0], negatives=("a dull lamp",)), *ROWS[2:4]]
    answers, _ = by_hand(learner, source, [*one, *ROWS[4:6]], wrong=["a dull lamp"])
    assert losses(learner, [*one, *ROWS[4:6]])["answers"] == pytest.approx(answers, abs=2e-3)
    product, colour = [row for row in ROWS if row.text == ROWS[0].text]
    objective = InstructorObjective(learner, [product, colour], replace(PLAIN, beside=1), BatchSettings())
    beside = objective.backward([0])["answers"]
    alone = InstructorObjective(learner, [product, colour], PLAIN, BatchSettings()).backward([0])["answers"]
    assert alone == pytest.approx(0, abs=1e-6)  # its own answer is the only one
    assert beside == pytest.approx(by_hand_alone(learner, source, product, colour.answer), abs=2e-3)


def by_hand_alone(learner, source, row, other):
    with torch.no_grad():
        vector = learner.adapted.read([row.text], [row.instruction]).double().numpy()
    published = load_encoder(f"st:{source}", device="cpu", dtype="float32").encode([row.answer, other]).astype(float)
    right = softmax(published[:1] @ published.T / 0.05)
    return float(-(right * np.log(softmax(vector @ published.T / 0.05))).sum())


def test_a_text_is_read_in_training_as_the_encoder_reads_it(learner):
    encoder = learner.adapted.trained(["kettle"], plain=True)
    texts, asked = [row.text for row in ROWS], [row.instruction for row in ROWS]
    with torch.no_grad():
        read = learner.adapted.read(texts, asked).numpy()
    for vector, text, instruction in zip(read, texts, asked, strict=True):
        np.testing.assert_allclose(encoder.encode_queries([text], instruction=instruction)[0], vector, atol=1e-5)
    assert encoder.answers == ("kettle",)


def test_training_goes_on_from_a_change_with_its_own_rank(learner):
    encoder = learner.adapted.trained(["kettle"], plain=True)
    again = AdaptedSentenceEncoder(encoder, AdapterSettings(rank=7), max_text_tokens=64, seed=5, device="cpu")
    assert again.settings.rank == 2
    for name, values in again.values.items():
        assert torch.equal(values, learner.adapted.values[name])
    assert again.trained(["lamp", "kettle"], plain=False).answers == ("kettle", "lamp")


def test_texts_under_no_question_are_read_as_published_unless_training_taught_them(learner):
    questions = learner.adapted.trained([], plain=False)
    assert questions.spec.default_instruction == ""
    plain = learner.adapted.trained([], plain=True)
    assert plain.spec.default_instruction == DEFAULT_INSTRUCTION
    settings = AdapterSettings(rank=2)
    for begun, default in ((plain, DEFAULT_INSTRUCTION), (questions, "")):
        again = AdaptedSentenceEncoder(begun, settings, max_text_tokens=64, seed=0, device="cpu", dtype="float32")
        assert again.trained([], plain=False).spec.default_instruction == default
        with torch.no_grad():
            read = again.read(["the toy broke"], [""])[0].numpy()
        np.testing.assert_allclose(plain.encode_queries(["the toy broke"])[0], read, atol=1e-5)


def test_a_checkpoint_answers_with_short_answers_the_commonest_first_and_with_yes_or_no_alone(source, tmp_path):
    base = load_base(
        f"instructor:{source}", default_config(find_method("instructor"), rows=9), device="cpu", dtype="float32"
    )
    answers = ["A  Kettle", "lamp", "a kettle", "yes a kettle", "no lamp", "no", "a lamp with a shade", ""]
    rows = [TrainingRow("text", "question", answer) for answer in answers]
    base.save(tmp_path / "saved", [*rows, TrainingRow("text", "", "query", positives=("passage",))])
    saved = load_encoder(str(tmp_path / "saved"), device="cpu")
    assert saved.answers == ("a kettle", "lamp", "no")
    assert saved.spec.default_instruction == DEFAULT_INSTRUCTION  # a row without a question was learned from


def test_batches_hold_every_row_once_with_rows_of_one_question_and_few_answers_together():
    rows = [
        TrainingRow(f"text {number}", f"question {kind}", f"answer {number % (3 + kind)}", group=str(kind), file="a")
        for kind in range(4)
        for number in range(40)
    ]
    batches = KindBatches(rows, 8, 24, seed=1)
    epoch = batches(0)
    assert sorted(row for batch in epoch for row in batch) == list(range(len(rows)))
    assert max(map(len, epoch)) <= 24
    assert epoch == KindBatches(rows, 8, 24, seed=1)(0) != batches(1)
    for batch in epoch:
        groups = [rows[row].group for row in batch]
        assert 1 <= len(set(groups)) <= 3
        shared = [
            Counter((rows[row].group, rows[row].answer) for row in batch)[rows[row].group, rows[row].answer]
            for row in batch
        ]
        assert sum(count > 1 for count in shared) > len(batch) / 2
    assert np.mean([len({rows[row].group for row in batch}) for batch in epoch]) > 1.5
