from itertools import chain, combinations

import pytest

from retriever.core.errors import UsageError
from retriever.evaluation.labelled import LABELLED
from retriever.evaluation.wordings import WORDING_KINDS, all_wordings, find_wordings

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


def test_an_unknown_criterion_suggests_the_nearest():
    with pytest.raises(UsageError, match=r"No wordings for 'categories' of 'reviews'.*'reviews category'"):
        find_wordings("reviews", "categories")
