import pytest
from curation_fakes import TableEncoder

from retriever.core.errors import UsageError
from retriever.training.curation import CurationOptions, curate, vote
from retriever.training.curation_filters import (
    EXAMPLES_OF_A_REASON,
    ascii_share,
    duplicates,
    language_problem,
    length_problem,
)
from retriever.training.negatives import MiningOptions
from retriever.training.rows import TrainingRow


def row(text, answer="toy", instruction="Which product is it?", **more):
    return TrainingRow(text, instruction, answer, group="kind", file="qa.jsonl", **more)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (row("abcd"), ""),
        (row("abc  "), "text under 4 characters"),
        (row("x" * 1024), ""),
        (row("x" * 1025), "text over 1024 characters"),
        (row("some text", "x"), ""),
        (row("some text", "x" * 1025), "answer over 1024 characters"),
        (row("some text", instruction="why"), "instruction under 4 characters"),
        (row("some text", instruction=""), ""),
        (row("some text", "ok", positives=("ok", " ")), "answer under 1 characters"),
    ],
)
def test_length(bad, problem):
    assert length_problem(bad) == problem


def test_length_limits_can_be_changed_but_not_turned_round():
    assert length_problem(row("x" * 2000), 3000) == ""
    with pytest.raises(UsageError, match="4 to 3 characters"):
        CurationOptions(3)


ENGLISH = [
    "The kettle boils water quickly, but the lid broke after a week of use.",
    "METALLIC TASTE. Rinsed, boiled, vinegar, baking soda, lemon, everything twice.",
    "works great",
    "I ordered la Creuset's pan and it arrived broken, so I sent it back to them.",
    "10/10 :) !!!",
    "The record has La vie en rose on it, which is what they wanted from us.",
    "A caf\u00e9 near M\u00e1laga where the cr\u00e8me is very good",
]
FOREIGN = [
    "Der Toaster ist nicht gut und die Lieferung war langsam.",
    "De doos was kapot en het is niet zo mooi als ik dacht.",
    "Je ne suis pas content de la livraison, qui est en retard.",
    "Muy buen producto, lo recomiendo para los viajes.",
    "Il prodotto non funziona, che delusione per noi.",
    "O produto chegou quebrado e n\u00e3o funciona.",
    "Kedlen virker ikke, og det er for dyrt.",
    "Jag \u00e4r inte n\u00f6jd och det kostar mycket.",
    "\u0447\u0430\u0439\u043d\u0438\u043a \u0441\u043b\u043e\u043c\u0430\u043d",
    "Bu kettle iki hafta sonra bozuldu ve magazadan cevap alamadim kimseye tavsiye etmem artik param bosa gitti "
    "yazik oldu bana gercekten",
]  # fmt: skip


@pytest.mark.parametrize("text", ENGLISH)
def test_english_passes(text):
    assert language_problem(row(text)) == ""


@pytest.mark.parametrize("text", FOREIGN)
def test_other_languages_do_not(text):
    assert "not English" in language_problem(row(text))
    assert "not English" in language_problem(row("It broke.", positives=(text,)))


def test_the_share_the_language_rule_rests_on():
    assert ascii_share("ab\u00e9\u00e9 12") == 0.5
    assert ascii_share("12 :)") == 1


def test_duplicates_are_said_and_one_question_may_be_asked_about_many_texts():
    rows = [
        row("It boils."),
        row("it  BOILS", "lamp", "Which product is it"),
        row("It boils.", "happy", "How do they feel?"),
        row("It shines."),
        row("Which product is it?"),
        row("A lamp.", "a lamp"),
        row("A lamp.", "light", positives=("light", "a lamp")),
    ]
    found = {id(one.row): one.reason for one in duplicates(rows)}
    assert found == {
        id(rows[1]): "same question and text as an earlier row",
        id(rows[4]): "the text is the instruction",
        id(rows[5]): "the text is the answer",
        id(rows[6]): "the text is the answer",
    }


ROWS = [row(f"text {number}", f"answer {number}", line=number + 1) for number in range(5)]


def expert(name, degrees):
    """An expert for whom every text lies at 0 degrees and its answer as many degrees away as said."""
    angles = {one.text: 0 for one in ROWS} | {one.answer: away for one, away in zip(ROWS, degrees, strict=True)}
    return {name: TableEncoder(angles)}


def test_a_vote_is_the_similarity_of_question_and_text_to_the_answer():
    scores = vote(ROWS, expert("one", [0, 60, 90, 120, 180])["one"])
    assert scores.tolist() == pytest.approx([1, 0.5, 0, -0.5, -1], abs=1e-6)


def test_a_row_stays_above_the_median_of_every_expert():
    experts = expert("one", [10, 20, 30, 40, 50]) | expert("two", [50, 10, 30, 20, 40])
    done = curate(ROWS, experts, CurationOptions())
    assert [one.text for one in done.rows] == ["text 1"]
    [step] = [one for one in done.steps if one.step == "experts"]
    assert step.reasons == {
        "not above the median of two": 1,
        "not above the median of one and two": 2,
        "not above the median of one": 1,
    }
    assert step.notes == ["one: median 0.866", "two: median 0.866"]


def test_without_experts_and_judge_their_steps_are_skipped_and_said():
    done = curate(ROWS, {}, CurationOptions())
    assert done.rows == ROWS
    said = {one.step: one.skipped for one in done.steps}
    assert said == {
        "length": "",
        "language": "",
        "duplicates": "",
        "experts": "no expert encoder was named",
        "judge": "no judge was given",
        "hard negatives": "no expert encoder was named",
    }
    assert "judge: skipped, no judge was given" in done.lines()


def test_the_first_expert_mines_negatives_behind_the_rows_own():
    rows = [row("text 0", "answer 0", negatives=("mine",)), *ROWS[1:]]
    angles = {one.text: 0 for one in ROWS}
    near = TableEncoder(angles | {"answer 0": 10, "answer 1": 12, "answer 2": 50, "answer 3": 60, "answer 4": 70})
    done = curate(rows, {"near": near}, CurationOptions(mining=MiningOptions(count=2)))
    # Above the median, at 50 degrees, are the first two rows; each other's answer is over the margin.
    assert [one.negatives for one in done.rows] == [("mine",), ()]
    assert done.steps[-1].notes == [
        "1 negative for 1 row, mined by near",
        "skipped 2 candidates over 95% of the right answer's similarity",
    ]
    far = TableEncoder(angles | {"answer 0": 10, "answer 1": 40, "answer 2": 50, "answer 3": 60, "answer 4": 70})
    done = curate(rows, {"far": far}, CurationOptions(mining=MiningOptions(count=2)))
    assert [one.negatives for one in done.rows] == [("mine", "answer 1"), ()]


def test_every_step_tells_what_it_dropped_with_examples():
    rows = [row("no", line=number) for number in range(1, 6)] + [
        row("x" * 1025, line=6),
        row(FOREIGN[0], line=7),
        row("It boils.", line=8),
        row("It boils!", line=9),
    ]
    told = []
    done = curate(rows, {}, CurationOptions(announce=told.append))
    assert told == [one.step for one in done.steps]
    assert [one.line for one in done.rows] == [8]
    assert [(one.before, one.dropped, one.after) for one in done.steps[:4]] == [
        (9, 6, 3), (3, 1, 2), (2, 1, 1), (1, 0, 1)
    ]  # fmt: skip
    length = done.steps[0].to_json()
    assert length["reasons"] == {"text under 4 characters": 5, "text over 1024 characters": 1}
    assert [one["line"] for one in length["examples"]] == [1, 2, 3, 6]
    assert len(length["examples"]) == EXAMPLES_OF_A_REASON + 1
    assert length["examples"][0]["row"] == {
        "text": "no",
        "question": "Which product is it?",
        "answer": "toy",
        "group": "kind",
    }
    lines = done.lines()
    assert lines[0] == "length: 6 of 9 rows dropped, 3 left"
    assert lines[1] == "  5 x text under 4 characters"
    assert lines[2] == "    qa.jsonl, row 1: Which product is it? | no | toy"
    assert all(len(line) < 220 for line in lines)
