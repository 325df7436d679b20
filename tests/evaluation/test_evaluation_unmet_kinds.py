import json
from collections import Counter
from itertools import combinations

import asked
import mixture
import pytest
from label_types import load_label_types

from retriever.evaluation.suites import SUITES
from retriever.evaluation.unmet import by_file
from retriever.evaluation.unmet_kinds import FAMILIES, asked_in_training, unmet_kinds

KINDS = unmet_kinds()
MAY_BE_ASKED = {
    "comment_language",
    "comment_purpose",
    "debate_area",
    "dialogue_service",
    "document_type",
    "emobank_dominance",
    "pro_or_con",
    "subjectivity",
    "web_genre",
}
"""Kinds of labelled files with licences that allow training, which a recipe may come to ask."""


def trained_kinds():
    """Return the names of all kinds that the recipes ask."""
    derived = json.loads((asked.FOLDER / "derived_wordings.json").read_text())
    grids = {question.kind for grid in asked.grids() for question in grid.questions}
    return {*load_label_types(), *derived, *grids, *asked.analyst_wordings()}


def words(text):
    return set(text.lower().translate(str.maketrans("", "", "?.,:;'-")).split())


def test_there_are_at_least_sixteen_kinds_in_four_families():
    assert len({one.kind for one in KINDS}) == len(KINDS) >= 16
    counts = Counter(one.family for one in KINDS)
    assert tuple(counts) == FAMILIES
    assert min(counts.values()) >= 4


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.kind)
def test_a_kind_has_ten_wordings_that_differ(kind):
    assert len(kind.wordings) == 10
    assert all(one.isascii() and one == one.strip() for one in kind.wordings)
    assert kind.wordings[0].endswith("?")
    assert kind.wordings[1].endswith(".")
    assert not kind.wordings[2].endswith((".", "?"))
    for one, other in combinations(kind.wordings, 2):
        assert len(words(one) ^ words(other)) > 2, (one, other)


def test_no_two_kinds_share_a_wording():
    wordings = [wording.lower() for one in KINDS for wording in one.wordings]
    assert len(set(wordings)) == len(wordings)


def test_no_recipe_asks_for_the_kinds_or_learns_from_their_files():
    learned = {source.file for source in mixture.SOURCES} | {f"{grid.source}.jsonl" for grid in asked.grids()}
    assert not learned & {one.file for one in KINDS}
    assert not trained_kinds() & {one.kind for one in KINDS}
    recipes = [path.read_text() for path in asked.FOLDER.glob("*.py")] + [
        path.read_text() for path in asked.FOLDER.glob("*.toml")
    ]
    for file in {one.file for one in KINDS}:
        assert not any(file in text for text in recipes), file


def test_no_wording_is_one_that_recipes_ask_in():
    folder = asked.FOLDER
    trained = " ".join(path.read_text().lower() for path in folder.glob("*.json*"))
    for one in KINDS:
        for wording in one.wordings:
            assert json.dumps(wording).lower() not in trained, wording


def test_near_kinds_are_kinds_that_training_asks_or_may_ask():
    near = {name for one in KINDS for name in one.near}
    assert near <= trained_kinds() | MAY_BE_ASKED
    assert sum(not one.near for one in KINDS) >= 6
    assert asked_in_training() <= trained_kinds()


def test_the_suite_names_the_files_of_the_kinds():
    tasks = {task.name: task for task in SUITES["unmet"]}
    files = by_file(KINDS)
    assert set(tasks["triplets"].files) == set(files)
    assert set(tasks["reversal"].files) == {file for file, kinds in files.items() if len(kinds) > 1}
