import pytest

from retriever.core.errors import UsageError
from retriever.training.pairs import (
    HardNegatives,
    answer_examples,
    answer_set,
    dicl_examples,
    gircse_examples,
    remove_stopwords,
    set_numbers,
)
from retriever.training.rows import TrainingRow


def row(text, answer, group="kind", **more):
    return TrainingRow(text, f"{group}?", answer, group=group, **more)


ROWS = [
    row("boils fast", "kettle"),
    row("whistles", "Kettle."),
    row("shines", "lamp"),
    row("flickers", "lamp"),
    row("boils fast", "happy", "mood"),
    row("squeaks", "toy"),
]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("it is a kettle", "kettle"),
        ("The battery, and the screen.", "battery, screen."),
        ("It IS what It's", "It IS what It's"),
        ("It\u2019s loud", "loud"),
        ("not good", "not good"),
        ("it isn't any good", "isn't good"),
        ("no", "no"),
        ("kettle", "kettle"),
    ],
)
def test_stopwords_go_but_for_negations_and_what_is_nothing_else(answer, expected):
    assert remove_stopwords(answer) == expected


def test_answer_examples_share_a_set_by_question_group_and_answer():
    examples = answer_examples(ROWS)
    assert [one.text for one in examples] == [one.text for one in ROWS]
    assert examples[1].answer == "Kettle."
    assert examples[0].instruction == "kind?"
    assert set_numbers([one.same for one in examples]) == [0, 0, 1, 1, 2, 3]
    assert set_numbers([one.same for one in examples], strict=True) == [0, 1, 2, 3, 4, 5]
    assert answer_set(ROWS[1]) == ("kind", "kettle") != answer_set(row("x", "kettle", "use"))


def test_gircse_pairs_texts_with_the_same_answer_and_takes_texts_with_another_as_negatives():
    first, *_, mood, toy = gircse_examples(ROWS, seed=0)
    assert (first.text, first.positive, first.symmetric) == ("boils fast", "whistles", True)
    assert set(first.negatives) == {"shines", "flickers", "squeaks"}
    assert (first.instruction, first.positive_instruction) == ("kind?", "kind?")
    assert (toy.positive, toy.symmetric, toy.positive_instruction) == ("toy", False, "")
    assert sorted(toy.negatives) == ["kettle", "lamp"]
    assert (mood.positive, sorted(mood.negatives)) == ("happy", ["kettle"])


def test_a_text_is_no_partner_of_itself_and_no_negative_where_an_answer_of_it_is_right():
    rows = [row("both", "a"), row("Both.", "a"), row("both", "b"), row("other", "b")]
    first, _, third, fourth = gircse_examples(rows, seed=3)
    assert (first.positive, first.symmetric, first.negatives) == ("a", False, ())
    assert (third.positive, third.negatives) == ("other", ())
    assert fourth.positive in ("both", "Both.")
    assert fourth.negatives == ()
    assert dicl_examples(rows, seed=0)[0].negatives == ()
    assert dicl_examples(rows, seed=0)[3].negatives == ("a",)


def test_dicl_takes_the_answer_with_an_empty_instruction_and_other_answers_to_the_question():
    examples = dicl_examples(ROWS, seed=0)
    assert (examples[0].positive, examples[0].positive_instruction) == ("kettle", "")
    assert sorted(examples[0].negatives) == ["lamp", "toy"]
    assert examples[4].negatives == ("kettle",)


def test_positives_and_negatives_that_rows_name_come_first():
    rows = [
        row("q1", "p1", "", positives=("p1", "p2"), negatives=("n1",)),
        row("q2", "p3", "", positives=("p3",)),
    ]
    for examples in (gircse_examples(rows, seed=0), dicl_examples(rows, seed=0)):
        assert examples[0].positive in ("p1", "p2")
        assert examples[0].negatives == ("n1", "p3")
        assert not examples[0].symmetric
    assert {gircse_examples(rows, seed=seed)[0].positive for seed in range(20)} == {"p1", "p2"}


def test_mined_negatives_come_before_random_ones_and_fit_the_positives_kind():
    mined = [HardNegatives(("flickers",), ("lamp",))] * len(ROWS)
    examples = gircse_examples(ROWS, seed=0, negatives=2, mined=mined)
    assert examples[0].negatives[0] == "flickers"
    assert len(set(examples[0].negatives)) == 2
    assert examples[5].negatives == ("lamp", "kettle")
    assert dicl_examples(ROWS, seed=0, negatives=1, mined=mined)[0].negatives == ("lamp",)
    with pytest.raises(UsageError, match="1 mined negatives were given for 6 rows"):
        dicl_examples(ROWS, seed=0, mined=mined[:1])


@pytest.mark.parametrize("make", [gircse_examples, dicl_examples])
def test_the_seed_decides_everything(make):
    rows = [row(f"text {number}", f"answer {number % 30}") for number in range(300)]
    assert make(rows, seed=5) == make(rows, seed=5)
    assert make(rows, seed=5) != make(rows, seed=6)


def test_many_rows_give_as_many_negatives_as_wanted_and_rare_answers_among_them():
    rows = [row(f"text {number}", "rare" if number < 3 else f"answer {number % 5}") for number in range(600)]
    examples = gircse_examples(rows, seed=0, negatives=4)
    answers = {one.text: one.answer for one in rows}
    assert all(len(one.negatives) == 4 for one in examples)
    for one, of in zip(examples, rows, strict=True):
        assert answers[one.positive] == of.answer
        assert one.positive != of.text
        assert of.answer not in {answers[negative] for negative in one.negatives}
    rare = sum(answers[negative] == "rare" for one in examples for negative in one.negatives)
    assert rare > 150


def test_without_rows_there_are_no_examples():
    assert gircse_examples([], seed=0) == dicl_examples([], seed=0) == answer_examples([]) == []
