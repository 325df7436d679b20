import json
from collections import Counter
from itertools import chain, combinations
from pathlib import Path

import mixture
import pytest
from label_types import load_label_types

from retriever.evaluation.labelled import LABELLED
from retriever.evaluation.wordings import FAMILIES, WORDING_KINDS, all_wordings, find_wordings, unmet_kinds

EVERY = list(all_wordings().items())


def words(text):
    return set(text.lower().strip("?.").split())


def test_every_criterion_of_every_source_has_its_wordings():
    expected = [(source.name, criterion) for source in LABELLED.values() for criterion in source.criteria]
    assert list(all_wordings()) == expected
    assert find_wordings("reviews", "category") is all_wordings()["reviews", "category"]


def test_wordings_are_of_the_kind_they_were_written_as():
    wordings = find_wordings("products", "polarity")
    assert "How many syllables does the sentence have?" in wordings.incorrect
    assert "Pro or con?" in wordings.implicit
    assert "Is the owner's opinion positive or negative?" in wordings.correct
    for kind in WORDING_KINDS:
        assert wordings.of(kind) == getattr(wordings, kind)


@pytest.mark.parametrize(("key", "wordings"), EVERY)
def test_there_are_ten_different_ones_of_each_kind(key, wordings):
    assert [len(wordings.of(kind)) for kind in WORDING_KINDS] == [10, 10, 10]
    everything = [wordings.instruction, *wordings.correct, *wordings.implicit, *wordings.incorrect]
    assert len(set(everything)) == 31
    assert all(one.isascii() and one[0].isupper() and one[-1] in ".?" for one in everything)


@pytest.mark.parametrize("source", LABELLED)
def test_both_criteria_of_a_source_share_no_wording(source):
    first, second = (find_wordings(source, criterion) for criterion in LABELLED[source].criteria)
    asked = [set(chain([one.instruction], *(one.of(kind) for kind in WORDING_KINDS))) for one in (first, second)]
    assert not asked[0] & asked[1]


def test_no_two_wordings_are_the_same_but_for_a_word():
    for _, wordings in EVERY:
        everything = chain([wordings.instruction], *(wordings.of(kind) for kind in WORDING_KINDS))
        for one, other in combinations(everything, 2):
            assert len(words(one) ^ words(other)) > 1, (one, other)


KINDS = unmet_kinds()
RECIPES = Path(mixture.__file__).parent


def trained_kinds():
    """Return the names of all kinds that the recipes ask."""
    return {*load_label_types(), *json.loads((RECIPES / "derived_wordings.json").read_text())}


def bare_words(text):
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
        assert len(bare_words(one) ^ bare_words(other)) > 2, (one, other)


def test_no_two_kinds_share_a_wording():
    wordings = [wording.lower() for one in KINDS for wording in one.wordings]
    assert len(set(wordings)) == len(wordings)


def test_no_recipe_asks_for_the_kinds_or_learns_from_their_files():
    assert not {source.file for source in mixture.SOURCES} & {one.file for one in KINDS}
    assert not trained_kinds() & {one.kind for one in KINDS}
    recipes = [path.read_text() for path in [*RECIPES.glob("*.py"), *RECIPES.glob("*.toml")]]
    for file in {one.file for one in KINDS}:
        assert not any(file in text for text in recipes), file


def test_no_wording_is_one_that_recipes_ask_in():
    trained = " ".join(path.read_text().lower() for path in RECIPES.glob("*.json"))
    for one in KINDS:
        for wording in one.wordings:
            assert json.dumps(wording).lower() not in trained, wording
