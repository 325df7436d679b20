from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import finetune_fakes as fakes
import pytest
import torch
from objective_checks import ROWS, learner
from torch.autograd.graph import saved_tensors_hooks
from training_models import gradients

from retriever import load_encoder
from retriever.core.errors import TrainingError
from retriever.training.adapters import AdapterSettings
from retriever.training.config import default_config
from retriever.training.merging import merged
from retriever.training.methods import find_method
from retriever.training.objectives.base import BatchSettings
from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
from retriever.training.objectives.instructor import InstructorObjective, InstructorSettings
from retriever.training.rows import TrainingRow
from retriever.training.run import memory
from retriever.training.sentence import AdaptedSentenceEncoder, SentenceLearner

KINDS = [
    TrainingRow(row["text"], row["question"], row["answer"], group=row["question"], file="a.jsonl")
    for row in fakes.rows(24)
]
LONG = [replace(row, text=" ".join([row.text] * 9)) for row in KINDS]
EVERY = range(len(KINDS))


class Kept:
    """A tensor that is kept for the way back, and the most bytes that were kept at once."""

    alive: ClassVar = {}
    most = 0

    def __init__(self, tensor):
        self.tensor, self.place = tensor, tensor.untyped_storage().data_ptr()
        count, size = Kept.alive.get(self.place, (0, 0))
        Kept.alive[self.place] = (count + 1, max(size, tensor.untyped_storage().nbytes()))
        Kept.most = max(Kept.most, sum(size for _, size in Kept.alive.values()))

    def __del__(self):
        count, size = Kept.alive.pop(self.place)
        if count > 1:
            Kept.alive[self.place] = (count - 1, size)


def most_kept(step, model):
    """Return the most bytes of tensors, weights aside, that a step keeps at once."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    Kept.alive, Kept.most = {}, 0
    with saved_tensors_hooks(
        lambda tensor: tensor if tensor.untyped_storage().data_ptr() in weights else Kept(tensor),
        lambda kept: kept.tensor if isinstance(kept, Kept) else kept,
    ):
        step()
    return Kept.most


@pytest.fixture
def sentences(tiny):
    """A tiny sentence encoder in training."""
    pytest.importorskip("sentence_transformers")
    encoder = load_encoder(f"instructor:{tiny('sentence')}", device="cpu")
    settings = AdapterSettings(rank=2)
    adapted = AdaptedSentenceEncoder(encoder, settings, max_text_tokens=512, seed=0, device="cpu", dtype="float32")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in adapted.parameters.values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return SentenceLearner(adapted, 0)


def instructor(one, rows=LONG, **batch):
    return InstructorObjective(one, rows, InstructorSettings(beside=0), BatchSettings(**batch))


def test_a_batch_beyond_the_held_tokens_keeps_one_pack_at_a_time_with_the_same_gradients(sentences, monkeypatch):
    monkeypatch.setattr("retriever.training.sentence.PIECE_TOKENS", 300)
    whole, pieces = instructor(sentences, held_tokens=10**6), instructor(sentences, held_tokens=1000)
    tokens = sum(whole.lengths(EVERY))
    assert tokens > 2000
    at_once = most_kept(lambda: whole.backward(EVERY), sentences.adapted._model)
    expected = gradients(sentences.adapted)
    one_by_one = most_kept(lambda: pieces.backward(EVERY), sentences.adapted._model)
    assert one_by_one < at_once * 2 * 300 / tokens
    for name, gradient in gradients(sentences.adapted).items():
        assert expected[name].abs().max() > 1e-6
        assert torch.allclose(gradient, expected[name], atol=1e-5, rtol=2e-3), name


def test_what_is_worked_out_is_what_a_sentence_encoder_keeps(sentences):
    objective = instructor(sentences)
    kept = most_kept(lambda: objective.backward(EVERY), sentences.adapted._model)
    assert kept / 1.3 < sentences.adapted.footprint.kept(objective.lengths(EVERY)) < 1.5 * kept


def instemb(one, views):
    rows = [replace(row, text=" ".join([row.text] * 9)) for row in ROWS]
    settings = InstEmbSettings(distillation=("ce",), views=views, compared="daap", form="outside")
    return InstEmbObjective(one, rows, settings, BatchSettings())


@pytest.mark.parametrize("views", [("answer",), ("answer", "document")])
def test_what_is_worked_out_is_what_a_language_model_keeps(tiny, views):
    one = learner(tiny("llama"), look_ahead=2)
    objective = instemb(one, views)

    def step():
        with merged(one.adapted.backbone):
            objective.backward(range(len(ROWS)))

    kept = most_kept(step, one.adapted.backbone.model)
    assert kept / 1.3 < one.adapted.footprint.kept(objective.lengths(range(len(ROWS)))) < 1.5 * kept


def test_nothing_is_said_of_models_and_views_that_transformers_reads(tiny):
    assert learner(tiny("mistral"), look_ahead=2).adapted.footprint is None
    assert instemb(learner(tiny("llama"), look_ahead=2), ("dropout", "answer")).lengths(range(2)) == []


CONFIG = default_config(find_method("instructor"), rows=len(LONG))


@pytest.fixture
def fitted(sentences, monkeypatch):
    """Fit a training on long rows into so much memory that so many bytes are left for what is kept."""
    base = SimpleNamespace(learner=sentences, place=(torch.device("cpu"), torch.float32))
    fixed = sentences.adapted.footprint.fixed

    def fit(room):
        monkeypatch.setattr(memory, "free_memory", lambda: memory.LIBRARIES + memory.MARGIN * (fixed + room + 1))
        return memory.fit(base, CONFIG, LONG)

    return fit


def test_with_room_for_all_a_training_is_left_as_it_is_and_says_what_it_takes(fitted):
    fit = fitted(10**9)
    assert fit.config == CONFIG
    assert fit.sentence.startswith("Training takes about ")
    assert "pieces" not in fit.sentence


def test_a_batch_that_does_not_fit_is_read_in_pieces(sentences, fitted, monkeypatch):
    monkeypatch.setattr(memory, "PIECE_TOKENS", 300)
    objective, footprint = instructor(sentences, texts=CONFIG.batch.texts), sentences.adapted.footprint
    read = [objective.lengths(batch) for batch in objective.batches(0)]
    room = max(map(footprint.kept, read)) - 2
    fit = fitted(room)
    held = fit.config.batch.held_tokens
    assert all(footprint.kept(lengths) <= room for lengths in read if sum(lengths) <= held)
    assert held >= min(map(sum, read)) - 1
    assert f"more than {held} tokens are read in pieces" in fit.sentence
    assert replace(fit.config, batch=CONFIG.batch) == CONFIG


def test_a_piece_that_does_not_fit_is_refused_with_the_next_step(fitted):
    with pytest.raises(TrainingError, match=r"of memory beside .* are free") as caught:
        fitted(10)
    assert "max_text_tokens" in caught.value.hint


def test_what_is_free_ends_at_the_limit_of_the_container(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    whole = memory.free_memory()
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 300\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() == pytest.approx(whole, rel=0.5)
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory.free_memory() == 400
