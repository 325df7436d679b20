import objective_checks
import pytest
import torch
from objective_checks import ROWS, agree, learner, prompt, row
from training_models import model, tokeniser

from retriever.core.errors import UsageError
from retriever.training.objectives import reading
from retriever.training.objectives.base import Learner
from retriever.training.objectives.generic_questions import GENERIC_QUESTIONS
from retriever.training.objectives.inbedder import InBedderObjective, InBedderSettings
from retriever.training.objectives.keep import KeepObjective, KeepSettings
from retriever.training.passes import student_states
from retriever.training.rows import TrainingRow, normalise_text

SETTINGS = KeepSettings(weight=0.3, texts=3)
BATCH = [0, 1, 3, 4, 5, 6]


class Nothing:
    """An objective without losses of its own."""

    def batches(self, epoch):
        return [BATCH] * 4

    def backward(self, batch):
        return {"loss": 2.0, "other": 1.0}


def keeping(one, rows=ROWS, settings=SETTINGS):
    return KeepObjective(Nothing(), one, rows, settings)


def divergence(one, text, question):
    """The mean over the last prompt state and the first look-ahead token, read alone; float64."""
    asked = prompt(one, text, question)
    with torch.no_grad(), one.adapted.base():
        untrained = student_states(one.adapted, asked, look_ahead=0).last
    read = student_states(one.adapted, asked)
    head = one.adapted.backbone.logits
    wanted = head(untrained)[0].double().softmax(-1)
    places = [read.last[0], *read.tail[0, :1]]
    found = [(wanted * (wanted.log() - head(place).double().log_softmax(-1))).sum() for place in places]
    return torch.stack(found).mean()


@pytest.mark.parametrize(
    ("name", "settings"),
    [("llama", {"look_ahead": 2}), ("llama", {}), ("mistral", {"look_ahead": 1}), ("llama", {"kind": "layers"})],
    ids=["look-ahead", "last-state", "nothing-shared", "whole-layers"],
)
def test_divergence_and_gradients_are_those_of_prompts_read_alone(tiny, monkeypatch, name, settings):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 40)
    one = learner(tiny(name), **settings)
    trained = keeping(one)
    drawn = trained.drawn(BATCH)
    assert len(drawn) == 3

    def reference():
        return 2 + 0.3 * torch.stack([divergence(one, *each) for each in drawn]).mean()

    losses = agree(one, reference, lambda: trained.backward(BATCH))
    assert losses["other"] == 1
    assert losses["loss"] == pytest.approx(2 + 0.3 * losses["keep"])
    assert losses["keep"] > 0.01


def test_it_adds_to_the_gradients_of_the_other_objective(tiny):
    one = learner(tiny("llama"))
    inner = InBedderObjective(one, ROWS, InBedderSettings(), objective_checks.BATCH)
    trained = KeepObjective(inner, one, ROWS, SETTINGS)
    assert trained.batches(2) == inner.batches(2)

    def both():
        value = inner.backward([1, 4])["loss"]
        return value + 0.3 * torch.stack([divergence(one, *each) for each in trained.drawn([1, 4])]).mean()

    agree(one, both, lambda: trained.backward([1, 4]))


def test_an_untrained_adapter_has_left_nothing(tiny):
    adapted = model(tiny("llama"), moved=False)
    assert keeping(Learner(adapted, tokeniser(adapted), seed=3)).backward(BATCH)["keep"] == pytest.approx(0, abs=1e-6)


def test_texts_of_the_batch_are_read_under_generic_questions_that_no_row_asks(tiny):
    rows = [*ROWS, row("z", GENERIC_QUESTIONS[0].upper(), "x"), row("z", "", "y")]
    trained = keeping(learner(tiny("llama")), rows)
    seen = [trained.drawn([*BATCH[:4], 10, *[9] * number]) for number in range(200)]
    asked = {question for drawn in seen for _, question in drawn}
    assert asked == set(GENERIC_QUESTIONS[1:])
    for drawn in seen:
        texts = [text for text, _ in drawn]
        assert len(texts) == len(set(texts)) == 3
        assert set(texts) <= {rows[one].text for one in [*BATCH[:4], 9, 10]}


def test_generic_questions_are_different_and_none_is_the_default_one():
    assert len({normalise_text(one) for one in GENERIC_QUESTIONS}) == len(GENERIC_QUESTIONS) >= 40
    assert all(one == one.strip() != "" for one in GENERIC_QUESTIONS)


def test_other_files_questions_are_asked_in_their_wordings(tiny):
    def of(file, question, group):
        return TrainingRow(f"a text of {file}", question, "x", group=group, file=file)

    rows = [of("a", "one?", "one"), of("a", "two?", "two"), of("b", "three?", "three"), of("b", "3?", "three")]
    rows += [of("b", "uno?", "one"), of("b", "", "")]
    trained = keeping(learner(tiny("llama")), rows, KeepSettings(questions="files"))
    assert {trained.drawn([0] * count)[0] for count in range(1, 60)} == {
        ("a text of a", "three?"),
        ("a text of a", "3?"),  # and not "uno?", which the batch asks in other words
    }
    assert {trained.drawn([2] * count)[0][1] for count in range(1, 60)} == {"one?", "two?"}
    assert trained.drawn([0, 2]) == []
    assert trained.backward([0, 2])["keep"] == 0
    with pytest.raises(UsageError, match="All questions are of one file"):
        keeping(learner(tiny("llama")), rows[:2], KeepSettings(questions="files"))


def test_seed_and_batch_alone_decide_what_is_drawn(tiny):
    one = learner(tiny("llama"))
    assert keeping(one).drawn(BATCH) == keeping(one).drawn(BATCH) != keeping(one).drawn(BATCH[::-1])
    assert keeping(Learner(one.adapted, one.tokeniser, seed=4)).drawn(BATCH) != keeping(one).drawn(BATCH)


def test_training_brings_the_answers_back(tiny):
    one = learner(tiny("llama"), fresh=True, look_ahead=1)
    trained = keeping(one)
    optimizer = torch.optim.Adam(one.adapted.parameters.values(), lr=0.003)
    values = []
    for _ in range(12):
        optimizer.zero_grad()
        values.append(trained.backward(BATCH)["keep"])
        optimizer.step()
    assert values[-1] < 0.7 * values[0]


def test_what_makes_no_sense_is_refused(tiny):
    with pytest.raises(UsageError, match=r"weight is -0\.1"):
        KeepSettings(weight=-0.1)
    with pytest.raises(UsageError, match="at least 1"):
        KeepSettings(texts=0)
    with pytest.raises(UsageError, match="needs a causal one"):
        keeping(learner(tiny("bert")))
