import numpy as np
import pytest
from label_fakes import BlindEncoder, bench, by_metric, write_rows

from retriever.core.errors import InputError
from retriever.evaluation import ice
from retriever.evaluation.ice import IceQuestion
from retriever.evaluation.rows import split_of
from retriever.evaluation.suites import DataFile

HELD_OUT = [name for name in (f"tale {number}" for number in range(60)) if split_of(name) == "test"][:3]
TRAINED_ON = next(name for name in ("tale a", "tale b", "tale c") if split_of(name) == "train")


class TableEncoder(BlindEncoder):
    """Looks a text under an instruction up in a table, and takes the text alone where it is not there."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def row(self, text, instruction):
        vector = self.table.get((text, instruction), self.table.get(text))
        return super().row(text, instruction) if vector is None else np.pad(vector, (0, self.dim - len(vector)))


def scored(folder, encoder, rows, **options):
    """Scores of rows of question, section, answer and wrong answer."""
    questions = [IceQuestion(None, "tale", section, asked, answer) for asked, section, answer, _ in rows]
    return by_metric(ice.ice_scores(questions, [wrong for *_, wrong in rows], bench(folder, encoder), **options))


def test_irs_igs_and_itds_by_hand(tmp_path):
    rows = [
        ("Who?", "A fox met a crow.", "a fox", "a crow"),
        ("What?", "A fox met a crow.", "cheese", "a fox"),
        ("Where?", "In the wood.", "wood", "a crow"),
    ]
    encoder = TableEncoder(
        {
            ("A fox met a crow.", "Who?"): (1, 0, 0),
            ("A fox met a crow.", "What?"): (0, 0.6, 0.8),
            ("In the wood.", "Where?"): (0, 0, 1),
            "a fox": (0.8, 0.6, 0),
            "a crow": (0.6, 0.8, 0),
            "cheese": (0, 1, 0),
            "wood": (0, 0.8, 0.6),
            "In the wood.": (0, 0, 1),  # the input itself beats the output
            "A fox met a crow.": (0, 0, -1),
            "Who?": (-1, 0, 0),
            "What?": (-1, 0, 0),
            "Where?": (-1, 0, 0),
        }
    )
    scores = scored(tmp_path, encoder, rows, note="noted")
    # Who?: a fox 0.8 is first. What?: cheese 0.6, but wood 0.96. Where?: wood 0.6, but the input itself 1.
    assert scores["IRS"].value == pytest.approx(100 / 3)
    # Who?: 0.8 > 0.6. What?: 0.6 > 0.36. Where?: 0.6 > 0.
    assert scores["IGS"].value == pytest.approx(100)
    assert scores["ITDS"].value == pytest.approx(100 * ((0.8 - 0.6) + (0.6 - 0.36) + 0.6) / 3)
    assert {one.items for one in scores.values()} == {3}
    assert scores["IRS"].note == "pool of 8 texts"
    assert scores["IGS"].note == scores["ITDS"].note == "noted"


def test_a_negative_as_near_as_the_output_is_not_beaten(tmp_path):
    table = {("x", "?"): (1, 0), "right": (0.8, 0.6), "near": (0.8, 0.6), "x": (0, 1), "?": (0, 1)}
    scores = scored(tmp_path, TableEncoder(table), [("?", "x", "right", "near")])
    assert (scores["IGS"].value, scores["ITDS"].value) == (0, 0)
    assert scores["IRS"].value == 100  # negatives of no row's own are not in the pool


def test_an_input_is_read_once_for_all_its_instructions(tmp_path):
    encoder = BlindEncoder()
    scored(tmp_path, encoder, [(one, text, "yes", "no") for one, text in (("A?", "x"), ("B?", "y"), ("C?", "x"))])
    asked = [call for call in encoder.calls if call[1] != [""]]
    assert asked == [(["x"], ["A?", "C?"]), (["y"], ["B?"])]
    assert encoder.calls[-1] == (["A?", "x", "yes", "B?", "y", "C?", "no"], [""])


def question(story, text, asked, answer):
    return {"text": text, "question": asked, "answer": answer, "split": "train", "meta": {"story": story}}


ROWS = [
    question(HELD_OUT[0], "A fox met a crow.", "Who met the crow?", "a fox"),
    question(HELD_OUT[0], "A fox met a crow.", "Who met the crow?", "the fox"),
    question(HELD_OUT[0], "A fox met a crow.", "Who met the fox?", "a crow"),
    question(HELD_OUT[0], "It fell.", "What fell?", "cheese"),
    question(HELD_OUT[0], "It fell.", "What was it?", "Cheese."),
    question(TRAINED_ON, "A wolf met a girl.", "Who met the girl?", "a wolf"),
    question(HELD_OUT[1], "A cat had boots.", "Who had boots?", "a cat"),
    question(HELD_OUT[1], "A cat had boots.", "What did it have?", "boots"),
]
NEARNESS = {
    "a fox": (1, 0, 0),
    "the fox": (1, 0.1, 0),
    "a crow": (0.6, 0.8, 0),
    "cheese": (0, 1, 0),
    "Cheese.": (0, 1, 0.1),
    "a cat": (1, 0, 0),
    "boots": (0, 0, 1),
    "a wolf": (1, 0, 0),
}


def fairytale(tmp_path, rows=ROWS, encoder=None, miner=None, **options):
    write_rows(tmp_path, DataFile.STORIES, rows)
    one = bench(tmp_path, encoder or BlindEncoder(), **options)
    return by_metric(ice.fairytale(one, miner=lambda: miner or TableEncoder(NEARNESS)))


def test_negatives_are_the_nearest_wrong_answers_of_the_story(tmp_path):
    write_rows(tmp_path, DataFile.STORIES, ROWS)
    questions = ice.held_out_questions(tmp_path)
    mined = ice.mine_negatives(questions, questions, TableEncoder(NEARNESS))
    assert [(one.answer, wrong) for one, wrong in zip(questions, mined, strict=True)] == [
        ("a fox", "a crow"),  # not "the fox", another right answer to the same question
        ("the fox", "a crow"),
        ("a crow", "cheese"),
        ("cheese", "a crow"),  # not "Cheese."
        ("Cheese.", "a crow"),
        ("a cat", "boots"),  # not "a fox" of another story
        ("boots", "a cat"),
    ]


def test_only_held_out_stories_are_scored(tmp_path):
    encoder = BlindEncoder()
    scores = fairytale(tmp_path, encoder=encoder)
    assert {score.items for score in scores.values()} == {7}
    assert [score.headline for score in scores.values()] == [True, True, False]
    assert not any("wolf" in text for texts, _ in encoder.calls for text in texts)
    assert "negatives by encoder blind0000000" in scores["IGS"].note


def test_an_encoder_that_answers_scores_everything(tmp_path):
    rows = [ROWS[0], *ROWS[2:]]
    axes = {row["answer"]: np.eye(8)[place] for place, row in enumerate(rows)}
    table = axes | {(row["text"], row["question"]): axes[row["answer"]] for row in rows}
    scores = fairytale(tmp_path, rows, encoder=TableEncoder(table))
    assert {score.value for score in scores.values()} == {100}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"question": ...}, "row 3: 'question' is missing"),
        ({"answer": ""}, "row 3: 'answer' is empty"),
        ({"meta": {}}, "row 3: 'meta.story' is missing"),
        ({"meta": {"story": HELD_OUT[2]}}, "row 3: no other answer on the story .* can serve as the negative"),
    ],
)
def test_a_broken_row_is_named(tmp_path, row, problem):
    rows = [*ROWS]
    rows[2] = {key: value for key, value in (rows[2] | row).items() if value is not ...}
    with pytest.raises(InputError, match=rf"{DataFile.STORIES}, {problem}"):
        fairytale(tmp_path, rows)


def test_a_file_without_a_held_out_story_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"fairytale.jsonl: no story is held out"):
        fairytale(tmp_path, [ROWS[5]])
    (tmp_path / DataFile.STORIES).write_text("")
    with pytest.raises(InputError, match=r"fairytale.jsonl has no rows"):
        list(ice.fairytale(bench(tmp_path, BlindEncoder())))
