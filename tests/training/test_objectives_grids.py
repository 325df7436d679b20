import json
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import combinations, permutations

import pytest

from retriever.training.objectives.batching import BatchSettings, Keys, TextBatches, row_keys
from retriever.training.objectives.grids import Cell, find_grids
from retriever.training.rows import read_training_rows

NUMBERS = ["halves", "thirds", "fourths", "fifths", "sixths"]


def answer(text, question):
    return random.Random(f"{text} {question}").randrange(NUMBERS.index(question) + 2)


def table(texts=40, questions=NUMBERS, *, wordings=1, source="s"):
    """Every text under every question, a row for each wording."""
    return [
        Keys(source, f"{source} text {text}", (question, answer(text, question)), question)
        for text in range(texts)
        for question in questions
        for _ in range(wordings)
    ]


def batches(rows, *, epoch=0, seed=5, **settings):
    return TextBatches(rows, BatchSettings(**{"texts": 8, "questions": 3, "grid": True, **settings}), seed)(epoch)


def grids(rows, *, seed=5, texts=8, questions=3):
    cells = [Cell(number, one.text, one.question, one.same) for number, one in enumerate(rows)]
    return find_grids(cells, texts=texts, questions=questions, draw=random.Random(seed))


def columns(rows, batch):
    """The answers of a batch by question and text."""
    found = defaultdict(dict)
    for row in batch:
        found[rows[row].question][rows[row].text] = rows[row].same
    return found


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("texts", "questions"), [(2, 1), (8, 3), (100, 9)])
def test_every_row_comes_once_an_epoch_and_sources_stay_apart(texts, questions, paired):
    rows = [
        *table(wordings=2),
        *table(11, NUMBERS[:2], source="t"),
        Keys("t", "alone", 1, "what"),
        *table(3, source="u"),
    ]
    found = batches(rows, texts=texts, questions=questions, paired=paired)
    assert sorted(row for batch in found for row in batch) == [*range(len(rows))]
    assert all(len({rows[row].source for row in batch}) == 1 for batch in found)
    assert max(map(len, found)) <= texts * questions


def test_a_grid_asks_the_same_questions_of_all_its_texts():
    rows = table(wordings=2)
    found = grids(rows)
    assert sum(map(len, found)) > 0.8 * len(rows)
    for grid in found:
        asked = columns(rows, grid)
        texts = {text for column in asked.values() for text in column}
        assert 4 <= len(texts) <= 8
        assert 2 <= len(asked) <= 3
        assert all(column.keys() == texts for column in asked.values())
        assert len(grid) == len(texts) * len(asked)  # a cell has one row; its other wordings come elsewhere


def test_its_texts_have_positives_and_negatives_under_every_question():
    rows = table(texts=300)
    alone = one_sided = total = 0
    for grid in grids(rows):
        for column in columns(rows, grid).values():
            counts = Counter(column.values())
            total += len(column)
            alone += sum(count == 1 for count in counts.values())
            one_sided += len(column) * (len(counts) == 1)
    assert total > 0.8 * len(rows)
    assert alone < 0.05 * total
    assert one_sided < 0.1 * total


def test_of_two_texts_one_question_finds_alike_and_another_tells_apart():
    rows = table()
    for grid in [one for one in grids(rows) if len(one) == 24]:
        asked = columns(rows, grid)
        assert any(
            first[i] == first[j] != first[k] and second[i] == second[k] != second[j]
            for first, second in combinations(asked.values(), 2)
            for i, j, k in permutations(first, 3)
        )


def test_a_question_whose_answers_are_all_different_is_in_no_grid():
    rows = [*table(), *(Keys("s", f"s text {text}", ("name", text), "name") for text in range(40))]
    found = grids(rows)
    assert sum(map(len, found)) > 0.8 * len(rows)
    assert not any(rows[row].question == "name" for grid in found for row in grid)


def test_a_text_that_lacks_one_of_four_questions_is_taken_and_one_that_lacks_two_is_not():
    every = table(questions=NUMBERS[:4])
    lacking_one = [one for one in every if not (one.text.endswith("3") and one.question == "thirds")]
    taken = {row for grid in grids(lacking_one, questions=4) for row in grid}
    assert any(lacking_one[row].text.endswith("3") for row in taken)
    lacking_two = [one for one in lacking_one if not (one.text.endswith("3") and one.question == "fifths")]
    for grid in grids(lacking_two, questions=4):
        found = columns(lacking_two, grid)
        if len(found) == 4:
            assert not any(text.endswith("3") for text in found["halves"])


def test_few_texts_or_one_question_make_no_grid():
    assert grids(table(texts=3)) == []
    assert grids(table(questions=NUMBERS[:1])) == []
    assert grids([Keys("s", f"text {n}", n % 3, f"question {n}") for n in range(50)]) == []


def test_rows_that_make_no_grid_are_batched_as_without():
    rows = [Keys("s", f"text {n}", ("q", n % 20), f"question {n % 40}") for n in range(80)]
    found = batches(rows)
    assert sorted(map(len, found)) == sorted(map(len, batches(rows, grid=False)))
    share = sum(any(rows[o].same == rows[r].same for o in one if o != r) for one in found for r in one) / len(rows)
    assert share > 0.9  # and paired


def test_the_rows_in_grids_are_counted():
    rows = [*table(), *(Keys("s", f"text {n}", n, f"question {n}") for n in range(9))]
    made = TextBatches(rows, BatchSettings(texts=8, questions=3, grid=True), 5)
    assert 0.8 * len(table()) < made.in_grids() <= len(table())
    assert TextBatches(rows, BatchSettings(texts=8, questions=3), 5).in_grids() == 0


def test_small_grids_share_a_batch():
    rows = [
        Keys("s", f"text {text} of {part}", (part, question, text % 2), f"{question} {part}")
        for part in range(12)
        for text in range(5)
        for question in range(2)
    ]
    assert [len(one) for one in grids(rows, texts=10)] == [10] * 12
    found = batches(rows, texts=10)
    assert [len(one) for one in found] == [20] * 6
    assert all(len({rows[row].text for row in one}) == 10 for one in found)


def test_seed_and_epoch_alone_decide():
    rows = table(wordings=2)
    maker = TextBatches(rows, BatchSettings(texts=8, grid=True), 5)
    first = maker(0)
    assert maker(0) == first != maker(1)
    assert TextBatches(rows, BatchSettings(texts=8, grid=True), 6)(0) != first


def test_another_process_draws_the_same(tmp_path):
    script = tmp_path / "draw.py"
    script.write_text(
        "from retriever.training.objectives.batching import *\n"
        "rows = [Keys('s', f'text {n}', (f'q {m}', str(n % (m + 2))), f'q {m}') for n in range(50) for m in range(4)]\n"
        "print(TextBatches(rows, BatchSettings(texts=8, grid=True), 1)(0))\n"
    )
    drawn = {
        subprocess.run(
            [sys.executable, script], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in "12"
    }
    assert len(drawn) == 1


def test_a_plain_file_of_text_question_and_answer_makes_grids_by_itself(tmp_path):
    path = tmp_path / "qa.jsonl"
    asked = {"Which half?": "halves", "which  HALF": "halves", "Which third?": "thirds"}
    lines = [
        {"text": f"text {text}", "question": wording, "answer": str(answer(text, question))}
        for text in range(30)
        for wording, question in asked.items()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = row_keys(read_training_rows([path]).rows)
    found = grids(rows)
    assert sum(map(len, found)) >= 40
    assert {tuple(sorted(columns(rows, grid))) for grid in found} == {("which half", "which third")}


def test_many_texts_are_looked_at_block_by_block(monkeypatch):
    monkeypatch.setattr("retriever.training.objectives.grids.BLOCK_TEXTS", 500)
    rows = table(texts=2000)
    found = grids(rows)
    assert sum(map(len, found)) > 0.8 * len(rows)
