import pytest
import torch
from objective_checks import BATCH, EVERY, ONE_BY_ONE, ROWS, agree, learner, row, vector

from retriever.training.loss_parts import Negatives
from retriever.training.losses import DiclEmbeddings, dicl, tiered
from retriever.training.objectives import reading
from retriever.training.objectives.dicl import DiclObjective, DiclSettings, wrong_parts
from retriever.training.pairs import dicl_examples

PLAIN = DiclSettings(margin=0.6, temperature=0.3, negatives=2)
TIERED = DiclSettings(margin=0.6, temperature=0.3, negatives=2, tiered=True)
GROUPS = [0, 1, 0, 2, 3, 4, 3, 5, 6]
LONE = [row("x", "mood", "love")]


def side_by_side(rows):
    """Vectors padded to the widest row with what no loss may read, and the mask of the real ones."""
    widest = max(map(len, rows))
    nothing = torch.full((32,), float("nan"))
    vectors = [torch.stack([*row, *[nothing] * (widest - len(row))]) for row in rows]
    mask = [[True] * len(row) + [False] * (widest - len(row)) for row in rows]
    return Negatives(torch.stack(vectors), torch.tensor(mask))


def reference(one, rows=ROWS, groups=GROUPS, settings=PLAIN, mined=None):
    """Every part of every row read by itself, and the losses taken once."""
    examples = dicl_examples(rows, seed=one.seed, negatives=settings.negatives, mined=mined)
    batch = DiclEmbeddings(
        query=torch.stack([vector(one, each.text, each.instruction) for each in rows]),
        query_text=torch.stack([vector(one, each.text) for each in rows]),
        query_instruction=torch.stack([vector(one, "", each.instruction) for each in rows]),
        positive=torch.stack([vector(one, each.positive) for each in examples]),
        negatives=side_by_side([[vector(one, text) for text in each.negatives] for each in examples]),
        groups=torch.tensor(groups),
    )
    total = sum(dicl(batch, margin=settings.margin, temperature=settings.temperature).values())
    if not settings.tiered:
        return total
    lower, taken = [], []
    nothing = torch.full((32,), float("nan"))
    for each, parts in zip(rows, wrong_parts(rows, seed=one.seed), strict=True):
        text, asked = parts.text, parts.instruction
        wrong = [
            nothing if text is None else vector(one, text, each.instruction),
            nothing if asked is None else vector(one, each.text, asked),
            nothing if asked is None else vector(one, "", asked),
            nothing if text is None else vector(one, text),
        ]
        lower.append(torch.stack(wrong))
        taken.append([text is not None, asked is not None, asked is not None, text is not None])
    tiers = Negatives(torch.stack(lower), torch.tensor(taken))
    return total + sum(tiered(batch, tiers, temperature=settings.temperature).values())


def objective(one, batch=BATCH, rows=ROWS, settings=PLAIN, mined=None):
    return DiclObjective(one, rows, settings, batch, mined=mined)


@pytest.mark.parametrize(
    ("name", "template", "look_ahead", "settings"),
    [
        ("llama", "input-first", 0, PLAIN),
        ("llama", "input-first", 2, TIERED),
        ("mistral", "instruct-query", 0, TIERED),
    ],
    ids=["last-state", "look-ahead-tiered", "nothing-shared-tiered"],
)
def test_losses_and_gradients_are_those_of_prompts_read_alone_cached_or_not(
    tiny, monkeypatch, name, template, look_ahead, settings
):
    monkeypatch.setattr(reading, "PIECE_TOKENS", 250)
    one = learner(tiny(name), template, look_ahead=look_ahead)
    losses = agree(
        one,
        lambda: reference(one, settings=settings),
        lambda: objective(one, settings=settings).backward([*EVERY]),
        lambda: objective(one, ONE_BY_ONE, settings=settings).backward([*EVERY]),
    )
    assert losses.pop("loss") == pytest.approx(sum(losses.values()), rel=1e-5)
    assert ("tiered" in losses) == settings.tiered


def test_the_parts_of_a_batch_in_the_order_it_is_given(tiny):
    one = learner(tiny("llama"))
    chosen = [3, 1, 4]
    examples = dicl_examples(ROWS, seed=one.seed, negatives=2)

    def expected():
        batch = DiclEmbeddings(
            query=torch.stack([vector(one, ROWS[i].text, ROWS[i].instruction) for i in chosen]),
            query_text=torch.stack([vector(one, ROWS[i].text) for i in chosen]),
            query_instruction=torch.stack([vector(one, "", ROWS[i].instruction) for i in chosen]),
            positive=torch.stack([vector(one, examples[i].positive) for i in chosen]),
            negatives=side_by_side([[vector(one, text) for text in examples[i].negatives] for i in chosen]),
        )
        return sum(dicl(batch, margin=0.6, temperature=0.3).values())

    agree(one, expected, lambda: objective(one).backward(chosen))


@pytest.mark.parametrize(
    ("chosen", "groups"), [([1, 4, 6], [0, 1, 1]), ([3, 4], [0, 1])], ids=["one-question", "one-text"]
)
def test_tiers_that_a_batch_cannot_fill_stay_empty(tiny, chosen, groups):
    one = learner(tiny("llama"))
    rows = [ROWS[i] for i in chosen]
    empty = {(each.instruction is None, each.text is None) for each in wrong_parts(rows, seed=one.seed)}
    assert empty == {(len(chosen) == 3, len(chosen) == 2)}
    agree(
        one,
        lambda: reference(one, rows, groups, TIERED),
        lambda: objective(one, rows=rows, settings=TIERED).backward([*range(len(rows))]),
    )


def test_one_row_without_negatives_learns_from_its_own_parts(tiny):
    one = learner(tiny("llama"))
    losses = objective(one, rows=LONE, settings=TIERED).backward([0])
    assert losses["contrast"] == 0
    assert losses["batch"] == losses["symmetric"] == pytest.approx(0, abs=1e-6)
    assert losses["improvement"] > 0
    assert all(weight.grad.isfinite().all() for weight in one.adapted.parameters.values())


def test_wrong_parts_are_other_questions_and_texts_with_other_answers():
    rows = [
        row("boils", "kind?", "kettle", "kind"),
        row("boils", "mood?", "happy", "mood"),
        row("Boils.", "what?", "Kettle", "use"),
        row("shines", "which?", "lamp", "kind"),
        row("whistles", "kind?", "kettle", "kind"),
        row("whistles", "sad?", "lamp", "sad"),
    ]
    seen = [wrong_parts(rows, seed=seed) for seed in range(60)]
    assert seen[0] == wrong_parts(rows, seed=0)
    drawn = [{(one[place].instruction) for one in seen} for place in range(6)]
    assert drawn[0] == {"mood?"}  # asked of the text itself; "what?" has the same answer
    assert drawn[1] == {"kind?", "what?"}
    assert drawn[3] == {"mood?", "what?"}  # of other texts: "sad?" has the same answer
    texts = [{(one[place].text) for one in seen} for place in range(6)]
    assert texts[0] == {"shines"}  # asked the same question; "whistles" answers it the same
    assert texts[1] == {"boils", "Boils.", "shines", "whistles"} - {"boils", "Boils."}
    assert texts[3] == {"boils", "whistles"}


def test_what_is_right_elsewhere_in_the_batch_is_no_wrong_part():
    rows = [row("boils", "kind", "kettle"), row("boils", "use", "kettle"), row("shines", "use", "lamp")]
    first, *_ = wrong_parts(rows, seed=0)
    assert (first.instruction, first.text) == (None, "shines")  # "use" is answered "kettle" for the text too
    first, *_ = wrong_parts([*rows, row("shines", "kind", "kettle")], seed=0)
    assert (first.instruction, first.text) == (None, None)  # and now "shines" is a kettle
