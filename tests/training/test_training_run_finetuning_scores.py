from dataclasses import replace

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder

from retriever.core.errors import InputError
from retriever.evaluation.scores import Score
from retriever.training.rows import TrainingRow, normalise_text
from retriever.training.run import scores
from retriever.training.run.report import smoothed
from retriever.training.run.scores import (
    AnswerTask,
    Candidate,
    Change,
    RowTriplet,
    TripletTask,
    example_searches,
    examples_json,
    held_out_task,
    judge,
)


def row(text, answer, question=PRODUCT, **extra):
    return TrainingRow(text, question, answer, group=normalise_text(question), **extra)


def rows_by_answer(answers, question=PRODUCT):
    return [row(f"{answer} number {place}", answer, question) for place, answer in enumerate(answers)]


def test_a_triplet_is_won_by_the_text_with_the_same_answer_under_the_question():
    anchor = row("kettle love", "kettle")
    task = TripletTask(
        [
            RowTriplet(anchor, "a kettle hate", "a toy love"),
            RowTriplet(replace(anchor, instruction=MOOD), "a kettle hate", "a toy love"),  # read by mood it is lost
            RowTriplet(anchor, "a toy", "a lamp"),  # a tie is no success
            RowTriplet(anchor, "kettle", "kettle toy"),
        ]
    )
    encoder = FakeEncoder()
    found = task.measure(encoder, seed=0)
    assert (found.value, found.items, found.task) == (50.0, 4, "held-out triplets")
    assert sorted(text for call in encoder.calls for text in call.texts).count("a toy love") == 2  # once a question


def test_triplets_pair_texts_of_one_question_by_their_answers():
    rows = [*rows_by_answer(["kettle", "toy"] * 12), row("both 1", "kettle"), row("both 1", "toy")]
    task = held_out_task(rows, seed=1)
    assert isinstance(task, TripletTask)
    assert len(task.triplets) == 26
    answers = {"kettle": {one.text for one in rows if one.answer == "kettle"}}
    answers["toy"] = {one.text for one in rows if one.answer == "toy"}
    for triplet in task.triplets:
        other = "toy" if triplet.anchor.answer == "kettle" else "kettle"
        assert triplet.same in answers[triplet.anchor.answer] - {triplet.anchor.text}
        assert triplet.other in answers[other] - answers[triplet.anchor.answer]
    assert held_out_task(rows, seed=1) == task
    assert held_out_task(rows, seed=2) != task


def test_where_answers_seldom_repeat_they_are_to_be_found():
    assert isinstance(held_out_task(rows_by_answer(["kettle", "toy"] * 9), seed=0), AnswerTask)  # 18 anchors
    repeated = rows_by_answer(["kettle", "toy"] * 10)
    rare = [row(f"text {place}", f"answer {place}") for place in range(20)]
    assert isinstance(held_out_task([*repeated, *rare], seed=0), TripletTask)  # 20 of 40
    assert isinstance(held_out_task([*repeated, *rare, row("x", "y")], seed=0), AnswerTask)
    with_positives = [replace(one, positives=(one.answer,)) for one in repeated]
    assert isinstance(held_out_task(with_positives, seed=0), AnswerTask)


def test_the_rank_of_the_own_answer_by_hand():
    rows = [
        row("a kettle", "kettle"),  # first
        row("a lamp and a mug", "lamp"),  # as near to mug: second
        row("a rug a sofa", "rug"),  # sofa is right for the same text
        row("a rug a sofa", "sofa"),
        row("a pan", "mug"),  # behind pan itself; as near to all others
        row("the pan", "pan"),
    ]
    found = held_out_task(rows, seed=0).measure(FakeEncoder(), seed=0)
    assert found.value == pytest.approx(100 * np.mean([1, 1 / 2, 1, 1, 1 / 6, 1]))
    assert (found.metric, found.items, found.note) == ("reciprocal rank", 6, "among 6 answers")


def test_an_encoder_that_tells_nothing_apart_finds_nothing():
    class Constant(FakeEncoder):
        def vectors(self, texts, instruction=""):
            return np.full((len(texts), 16), 0.25, dtype=np.float32)

    answers = rows_by_answer(["kettle", "toy", "lamp", "pan"])
    assert held_out_task(answers, seed=0).measure(Constant(), seed=0).value == 25.0
    triplets = rows_by_answer(["kettle", "toy"] * 12)
    assert held_out_task(triplets, seed=0).measure(Constant(), seed=0).value == 0.0


def test_positives_are_found_among_positives():
    rows = [
        TrainingRow("kettle", "", "a kettle love", positives=("a kettle love", "kettle toy")),
        TrainingRow("toy", "", "a toy", positives=("a toy",)),
    ]
    task = held_out_task(rows, seed=0)
    assert task.answers == ["a kettle love", "kettle toy", "a toy"]
    assert task.measure(FakeEncoder(), seed=0).value == 100.0


def test_many_rows_are_sampled_and_equal_answers_refused(monkeypatch):
    monkeypatch.setattr(scores, "MOST_ITEMS", 30)
    assert len(held_out_task(rows_by_answer(["kettle", "toy"] * 100), seed=0).triplets) == 30
    with pytest.raises(InputError, match="held-out rows have 1 different answers"):
        held_out_task(rows_by_answer(["toy"] * 5), seed=0)


def change(before, after, task="held-out triplets"):
    spread = np.array([-1.0, 1.0])
    return Change(*(Score(task, "m", value, value - 1, value + 1, 9, value + spread) for value in (before, after)))


@pytest.mark.parametrize(
    ("held_out", "general", "passed", "parts"),
    [
        ((50, 60), (70, 69), True, ["better", "held-out 50.0 -> 60.0; general 70.0 -> 69.0"]),
        ((50, 60), (70, 68.9), False, ["lost 1.1 points, more than 1, in general", "general 70.0 -> 68.9"]),
        ((50, 50), (70, 75), False, ["did not get better", "held-out 50.0 -> 50.0; general 70.0 -> 75.0"]),
        ((50, float("nan")), (70, 75), False, ["did not get better"]),
        ((50, 60), (70, float("nan")), False, ["in general"]),
    ],
)
def test_the_verdict_has_the_numbers(held_out, general, passed, parts):
    verdict = judge(change(*held_out), change(*general, "general"))
    assert verdict.passed is passed
    assert [part for part in parts if part not in verdict.sentence] == []


def test_a_gain_within_chance_is_told():
    before, after = change(50, 51).before, change(50, 51).after
    doubtful = Change(before, replace(after, resampled=after.resampled[::-1]))
    assert "may be chance" in judge(doubtful, change(70, 70)).sentence
    assert "may be chance" not in judge(change(50, 51), change(70, 70)).sentence
    assert str(change(50, 51)) == "held-out triplets, m: 50.0 [49.0, 51.0] -> 51.0 [50.0, 52.0], +1.0 [+1.0, +1.0]"


def test_a_curve_is_smoothed_over_a_tenth_of_it():
    curve = [0.0] * 10 + [10.0] + [0.0] * 19
    assert smoothed(curve) == pytest.approx([0.0] * 8 + [2.0] * 5 + [0.0] * 17)
    assert smoothed([3.0, 9.0, 0.0]) == [3.0, 4.0, 0.0]
    assert smoothed([]) == []


def test_the_nearest_texts_are_found_and_those_with_the_same_answer_are_right():
    rows = [
        row("kettle love", "A kettle."),
        row("toy love", "toy"),
        row("kettle hate", "a kettle"),
        row("lamp", "lamp"),
    ]
    search = example_searches(rows)[0]
    assert (search.row, len(search.candidates)) == (rows[0], 3)
    assert search.find(FakeEncoder()) == [
        Candidate("kettle hate", "a kettle", True),
        Candidate("toy love", "toy", False),  # as far as the lamp, and listed before it
        Candidate("lamp", "lamp", False),
    ]


def test_where_no_text_has_the_same_answer_the_own_answer_is_looked_for():
    rows = [row("kettle", "kettle"), row("lamp", "a lamp"), row("lamp", "light"), row("x", "toy", "only once?")]
    search = example_searches(rows)[0]
    assert search.find(FakeEncoder())[0] == Candidate("kettle", "", True)
    lamps = example_searches(rows[1:])[0]
    assert {one.text for one in lamps.candidates if one.right} == {"a lamp", "light"}  # both answer this question


def test_positives_are_what_a_query_should_find():
    rows = [row("kettle", "kettle love", positives=("kettle love",)), row("toy", "toy love", positives=("toy love",))]
    assert example_searches(rows)[0].find(FakeEncoder()) == [
        Candidate("kettle love", "", True),
        Candidate("toy love", "", False),
    ]


def test_examples_are_of_different_questions_and_texts_the_most_asked_first():
    moods = [row(f"love {place}", "good", MOOD) for place in range(3)] + [row("hate", "bad", MOOD)]
    products = [row("love 0", "kettle"), row("toy", "toy"), row("lamp", "lamp")]
    faults = [row("love 0", "slow", FAULT)]
    found = [(one.row.text, one.row.instruction) for one in example_searches([*faults, *products, *moods])]
    assert found == [("love 0", MOOD), ("toy", PRODUCT)]


def test_equal_answers_give_nothing_to_find():
    assert example_searches([row("kettle", "yes"), row("toy", "yes")]) == []


def test_of_many_candidates_half_at_most_are_right(monkeypatch):
    monkeypatch.setattr(scores, "MOST_CANDIDATES", 6)
    rows = [row(f"kettle {place}", "kettle") for place in range(9)] + [row("toy", "toy")]
    candidates = example_searches(rows)[0].candidates
    assert [one.right for one in candidates] == [False, True, True, True]  # of equally near ones the wrong one is first


def test_a_report_holds_query_and_finds():
    rows = [row("kettle love", "kettle"), row("toy", "toy"), row("kettle hate", "kettle")]
    searches = example_searches(rows)
    found = [[one.find(FakeEncoder()) for one in searches]] * 2
    assert examples_json(searches, *found)[0] == {
        "query": "kettle love",
        "instruction": PRODUCT,
        "answer": "kettle",
        "before": [
            {"text": "kettle hate", "answer": "kettle", "right": True},
            {"text": "toy", "answer": "toy", "right": False},
        ],
        "after": examples_json(searches, *found)[0]["before"],
    }
