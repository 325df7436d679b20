from dataclasses import replace

import pytest
import torch
from objective_checks import BATCH, EVERY, GRID, ONE_BY_ONE, ROWS, agree, learner, prompt, row

from retriever.core.errors import UsageError
from retriever.encoders.readout import daap
from retriever.training.losses import cross_entropy, kl, mse, view_contrast
from retriever.training.objectives import instemb, reading
from retriever.training.objectives.instemb import InstEmbObjective, InstEmbSettings
from retriever.training.pairs import remove_stopwords
from retriever.training.passes import lone_prompts, student_states, teacher_states
from retriever.training.prompt_batches import pad_rows

LENGTH = 3
SETS = torch.tensor([0, 1, 0, 2, 3, 4, 3, 5, 6])
ALL_VIEWS = ("dropout", "teacher", "answer")
EVERYTHING = InstEmbSettings(
    distillation=("mse", "kl", "ce"), direction="teacher-first", views=(*ALL_VIEWS, "document"), compared="daap"
)
SETTINGS = {
    "kl-and-paper-views": InstEmbSettings(),
    "ce-daap-document": InstEmbSettings(distillation=("ce",), compared="daap", views=("document",)),
    "mse-strict": InstEmbSettings(distillation=("mse",), strict=True, views=("teacher", "answer"), temperature=0.4),
    "everything-weighted": replace(EVERYTHING, contrast=0.3, form="outside"),
    "distillation-alone": InstEmbSettings(distillation=("kl", "ce"), contrast=0.0),
    "contrast-alone": InstEmbSettings(distillation=(), views=("answer",), compared="daap"),
}


def one_row(one, each):
    """Everything that is read of a row: last (d,) and tail (L, d) of student, teacher, answer and document."""
    adapted, asked = one.adapted, prompt(one, each.text, each.instruction)
    (answer,) = one.tokeniser.answers([remove_stopwords(each.answer)])
    return {
        "student": student_states(adapted, asked),
        "taught": teacher_states(adapted, asked, [answer], length=LENGTH),
        "told": pad_rows([answer[:LENGTH]], width=LENGTH),
        "answer": student_states(adapted, lone_prompts(adapted, [answer])),
        "document": student_states(adapted, prompt(one, each.answer, "")),
    }


def pooled(read, settings, *, length=LENGTH):
    if settings.compared == "input-last":
        return read.last[0]
    return daap(read.last, read.tail[:, :length])[0]


def distilled(one, rows, settings):
    """Every row read alone, every loss taken once: the distillation's part."""
    head = one.adapted.backbone.logits
    tail = torch.cat([row["student"].tail for row in rows])
    taught = torch.cat([row["taught"].tail for row in rows])
    ids = torch.cat([row["told"].ids for row in rows])
    counted = torch.cat([row["told"].counted for row in rows])
    terms = {
        "mse": lambda: mse(tail, taught, counted),
        "kl": lambda: kl(head(tail), head(taught), counted, direction=settings.direction),
        "ce": lambda: cross_entropy(head(tail), ids, counted),
    }
    return sum(terms[name]() for name in settings.distillation)


def contrast(rows, settings):
    """The same for the views; the dropout view is the student's own, without dropout."""
    views = [[pooled(row["student"], settings) for row in rows]]
    if "dropout" in settings.views:
        views.append(views[0])
    if "answer" in settings.views:
        views.append([pooled(row["answer"], settings) for row in rows])
    if "document" in settings.views:
        views.append([pooled(row["document"], settings) for row in rows])
    if "teacher" in settings.views:
        lengths = [int(row["told"].counted.sum()) for row in rows]
        taught = zip(rows, lengths, strict=True)
        views.append([pooled(row["taught"], settings, length=length) for row, length in taught])
    sets = torch.arange(len(rows)) if settings.strict else SETS
    vectors = torch.stack([torch.stack(view) for view in views])
    return view_contrast(vectors, sets, temperature=settings.temperature, form=settings.form)


def reference(one, settings):
    rows = [one_row(one, each) for each in ROWS]
    return distilled(one, rows, settings) + settings.contrast * contrast(rows, settings)


def objective(one, settings, batch=BATCH, rows=ROWS):
    return InstEmbObjective(one, rows, settings, batch)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_losses_and_gradients_are_those_of_rows_read_alone_cached_or_not(tiny, monkeypatch, settings):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 150)
    monkeypatch.setattr(instemb, "VIEW_DROPOUT", 0.0)
    one = learner(tiny("llama"), look_ahead=LENGTH)
    losses = agree(
        one,
        lambda: reference(one, settings),
        lambda: objective(one, settings).backward([*EVERY]),
        lambda: objective(one, settings, ONE_BY_ONE).backward([*EVERY]),
    )
    weights = {"contrast": settings.contrast}
    total = losses.pop("loss")
    if "mse" in settings.distillation:
        assert losses.pop("mse_per_dimension") == pytest.approx(losses["mse"] / one.adapted.backbone.dim)
    assert total == pytest.approx(sum(weights.get(name, 1) * value for name, value in losses.items()), rel=1e-5)


def test_a_grid_s_texts_are_apart_under_its_questions_and_equal_answers_to_two_are_neither_near_nor_far(tiny):
    one = learner(tiny("llama"), look_ahead=LENGTH)
    settings = InstEmbSettings(distillation=(), views=("document", "answer"), compared="daap", form="outside")

    def reference():
        read = [one_row(one, each) for each in GRID]
        vectors = torch.stack(
            [torch.stack([pooled(row[view], settings) for row in read]) for view in ("student", "answer", "document")]
        )
        places = [(view, each) for view in range(3) for each in GRID]
        left_out = [
            [
                (view > 0 or other > 0) and this.answer == that.answer and this.instruction != that.instruction
                for other, that in places
            ]
            for view, this in places
        ]
        sets = torch.tensor([2 * (each.answer == "yes") + (each.instruction == "mood") for each in GRID])
        return view_contrast(vectors, sets, form="outside", left_out=torch.tensor(left_out))

    agree(one, reference, lambda: objective(one, settings, rows=GRID).backward(range(len(GRID))))
    sets = [(each.instruction, each.answer) for each in GRID]
    together = [(0, 1), (6, 7)]  # one text, two questions, one answer
    assert all(sets[i] != sets[j] and GRID[i].text == GRID[j].text for i, j in together)


def test_an_answer_is_read_once_a_batch_however_many_rows_have_it(tiny, monkeypatch):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 60)
    one = learner(tiny("llama"), look_ahead=LENGTH)
    seen = []

    def spy(adapted, prompts, **options):
        seen.append(prompts)
        return student_states(adapted, prompts, **options)

    monkeypatch.setattr(instemb.passes, "student_states", spy)
    settings = InstEmbSettings(distillation=(), views=("answer", "document"), compared="daap")
    objective(one, settings, rows=GRID).backward(range(len(GRID)))
    alone = [tuple(ids) for prompts in seen for ids in getattr(prompts, "rows", ())]
    wanted = [*one.tokeniser.answers(["no", "yes"]), *one.tokeniser.separate(["no", "yes"], ["", ""]).rows]
    assert sorted(alone) == sorted(map(tuple, wanted))
    assert len(seen) > 4


@pytest.mark.parametrize(("name", "template"), [("mistral", "input-first"), ("llama", "instruct-query")])
def test_models_that_cannot_share_texts_learn_the_same(tiny, monkeypatch, name, template):
    monkeypatch.setattr(instemb, "VIEW_DROPOUT", 0.0)
    one = learner(tiny(name), template, look_ahead=LENGTH)
    agree(one, lambda: reference(one, EVERYTHING), lambda: objective(one, EVERYTHING).backward([*EVERY]))


def test_the_dropout_view_is_drawn_and_the_same_for_the_same_seed(tiny):
    one = learner(tiny("llama"), look_ahead=LENGTH)
    settings = InstEmbSettings(distillation=(), views=("dropout",))
    values = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        values.append(objective(one, settings).backward([*EVERY])["loss"])
    assert values[0] == values[1]
    assert abs(values[0] - values[2]) > 1e-4


def test_one_row_learns_from_its_own_views(tiny):
    one = learner(tiny("llama"), look_ahead=LENGTH)
    losses = objective(one, InstEmbSettings()).backward([5])
    assert losses["kl"] > 0
    alone = objective(one, InstEmbSettings(distillation=(), views=())).backward([5])
    assert alone["loss"] == 0  # a single view has neither a positive nor anything to compare with


def test_rows_of_one_set_have_nothing_to_be_told_apart_from(tiny):
    one = learner(tiny("llama"), look_ahead=LENGTH)
    rows = [row(text, "mood", "love") for text in ("x", "the toy broke", "light knife")]
    settings = InstEmbSettings(distillation=(), views=("answer",))
    assert objective(one, settings, rows=rows).backward([0, 1, 2])["loss"] == pytest.approx(0, abs=1e-5)
    strict = replace(settings, strict=True)
    assert objective(one, strict, rows=rows).backward([0, 1, 2])["loss"] > 0.1


def test_what_makes_no_sense_is_refused(tiny):
    with pytest.raises(UsageError, match="look-ahead"):
        objective(learner(tiny("llama")), InstEmbSettings())
    with pytest.raises(UsageError, match="nothing to learn"):
        InstEmbSettings(distillation=(), contrast=0.0)
