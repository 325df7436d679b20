import json
from collections import Counter

import asked
import pytest

from retriever.core.errors import InputError


def test_every_grid_divides_its_texts_by_every_question():
    found = asked.grids()
    assert len({grid.name for grid in found}) == len(found) >= 60
    assert len({grid.source for grid in found}) >= 12
    for grid in found:
        assert (len(grid.questions), len(grid.answers)) == (12, 40), grid.name
        assert len({question.kind for question in grid.questions}) == 12, grid.name
        assert all(len(answers) == 12 for answers in grid.answers.values()), grid.name
        for place, question in enumerate(grid.questions):
            assert len(set(question.wordings)) == 5, (grid.name, question.kind)
            counts = Counter(answers[place] for answers in grid.answers.values())
            assert len(counts) >= 3, (grid.name, question.kind)
            assert max(counts.values()) <= 28, (grid.name, question.kind)


def test_analysts_questions_have_wordings_to_learn_from_and_others_held_out():
    listed = json.loads((asked.FOLDER / "analyst_questions.json").read_text())
    learned = [wording for one in listed for wording in one["wordings"]]
    held = [wording for one in listed for wording in one["held_out"]]
    assert len(listed) >= 150
    assert {len(one["wordings"]) for one in listed} == {10}
    assert len({*learned, *held}) == len(learned) + len(held)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """One grid of two texts, one of them the beginning of a long one."""
    long = f"{'It was long ago. ' * 30}The end."
    texts = ["A kettle.", long]
    (tmp_path / "stories.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    questions = [asked.Question("what_broke", "fault", ["A?", "B?"]), asked.Question("who", "who", ["C?", "D?"])]
    answers = {asked.text_hash("a  KETTLE."): ["x", "y"], asked.text_hash(asked.beginning(long)): ["z", "y"]}
    monkeypatch.setattr(asked, "grids", lambda: [asked.Grid("one", "stories", questions, answers)])
    return tmp_path


def test_rows_find_their_texts_by_hash_and_ask_in_an_analysts_words_too(data):
    rows = list(asked.rows([data / "elsewhere", data]))
    assert len(rows) == 2 * 2 * asked.WORDINGS
    assert {(row["text"], row["answer"]) for row in rows if row["group"] == "what_broke"} == {
        ("A kettle.", "x"),
        (asked.beginning("It was long ago. " * 30), "z"),
    }
    known = asked.analyst_wordings()["what_broke"]
    asking = {row["question"] for seed in range(20) for row in asked.rows([data], seed) if row["group"] == "what_broke"}
    assert asking == {"A?", "B?", *known}
    assert {row["question"] for row in rows if row["group"] == "who"} <= {"C?", "D?"}


def test_a_file_that_is_gone_or_another_is_named(data):
    with pytest.raises(InputError, match=r"There is no stories\.jsonl"):
        list(asked.rows([data / "elsewhere"]))
    (data / "stories.jsonl").write_text('{"text": "A kettle."}\n')
    with pytest.raises(InputError, match=r"stories\.jsonl lacks 1 of the texts of grid one"):
        list(asked.rows([data]))


def test_grids_of_a_data_folder_bring_their_texts_and_those_held_out_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(asked, "grids", list)
    question = {"kind": "who", "family": "who", "wordings": ["C?", "D?"]}
    grid = {
        "grid": 3,
        "source": "x",
        "questions": [question],
        "rows": [{"id": "1", "text": "A lamp.", "answers": ["a"]}],
    }
    held = {**grid, "split": "dev", "rows": [{"id": "2", "text": "A chair.", "answers": ["b"]}]}
    (tmp_path / asked.FILE).write_text(f"{json.dumps({**grid, 'split': 'train'})}\n{json.dumps(held)}\n")
    rows = list(asked.rows([tmp_path / "elsewhere", tmp_path]))
    assert {(row["text"], row["answer"], row["group"]) for row in rows} == {("A lamp.", "a", "who")}
    assert {row["question"] for seed in range(20) for row in asked.rows([tmp_path], seed)} == {"C?", "D?"}
