from collections import Counter
from itertools import pairwise

import pytest

from retriever.core.errors import UsageError
from retriever.training.objectives.batching import BatchSettings, Keys, TextBatches


def keys(texts=40, questions=3, sources=2, answers=12):
    """Every text with some questions, each with its own answers."""
    return [
        Keys(f"source {text % sources}", f"text {text}", (question, text % answers))
        for text in range(texts)
        for question in range(1 + text % questions)
    ]


def batches(rows, *, epoch=0, seed=5, **settings):
    return TextBatches(rows, BatchSettings(**{"texts": 6, "questions": 2, **settings}), seed)(epoch)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("texts", [2, 6, 100])
def test_every_row_comes_once_an_epoch(texts, paired):
    rows = keys()
    found = batches(rows, texts=texts, paired=paired)
    assert sorted(row for batch in found for row in batch) == [*range(len(rows))]
    assert all(found)


@pytest.mark.parametrize("paired", [True, False])
def test_a_batch_is_of_one_source_and_no_larger_than_asked(paired):
    rows = keys()
    for batch in batches(rows, paired=paired):
        assert len({rows[row].source for row in batch}) == 1
        assert len(batch) <= 6 * 2
        assert len({rows[row].text for row in batch}) <= 6


def test_the_questions_of_a_text_stand_side_by_side():
    rows = keys(questions=5)
    for batch in batches(rows, questions=10):
        texts = [rows[row].text for row in batch]
        changes = sum(one != other for one, other in pairwise(texts))
        assert changes == len(set(texts)) - 1
    whole = Counter(text for batch in batches(rows, questions=10) for text in {rows[row].text for row in batch})
    assert set(whole.values()) == {1}


def test_a_text_with_many_questions_comes_in_parts():
    rows = [Keys("s", "one", number) for number in range(7)] + [Keys("s", f"text {n}", n) for n in range(7, 27)]
    parts = []
    for batch in batches(rows, questions=3, texts=2):
        runs = "".join("1" if rows[row].text == "one" else " " for row in batch).split()
        parts += map(len, runs)
    assert sum(parts) == 7


def share_with_a_positive(rows, found):
    with_one = 0
    for batch in found:
        for row in batch:
            same = [
                other for other in batch if rows[other].same == rows[row].same and rows[other].text != rows[row].text
            ]
            with_one += bool(same)
    return with_one / len(rows)


def test_pairing_raises_the_share_of_rows_with_a_positive():
    rows = [Keys("s", f"text {text}", text % 100) for text in range(400)]
    apart, paired = (share_with_a_positive(rows, batches(rows, texts=16, paired=one)) for one in (False, True))
    assert apart < 0.25
    assert paired > 0.9


def test_any_of_a_text_s_questions_may_find_the_partner():
    rows = [
        Keys("s", f"text {text}", ("shared", text // 2) if question == text % 3 else ("own", text, question))
        for text in range(80)
        for question in range(3)
    ]
    assert share_with_a_positive(rows, batches(rows, texts=8, questions=3)) == pytest.approx(1 / 3)


def test_a_text_is_not_its_own_partner():
    rows = [Keys("s", text, text.upper()[0]) for text in ("a one", "a two", "b one", "b two") for _ in range(2)]
    for seed in range(10):
        for batch in batches(rows, seed=seed, texts=2, questions=1):
            first, second = (rows[row] for row in batch)
            assert first.same == second.same
            assert first.text != second.text


def test_seed_and_epoch_alone_decide():
    rows = keys()
    maker = TextBatches(rows, BatchSettings(texts=6), 5)
    first = maker(0)
    assert maker(1) != first
    assert maker(0) == first == TextBatches(rows, BatchSettings(texts=6), 5)(0)
    assert TextBatches(rows, BatchSettings(texts=6), 6)(0) != first


def test_unpaired_changes_nothing_else():
    settings = BatchSettings(texts=3, questions=7, held_tokens=11)
    assert settings.unpaired() == BatchSettings(texts=3, questions=7, held_tokens=11, paired=False)


def test_what_makes_no_batch_is_refused():
    with pytest.raises(UsageError, match="nothing to compare"):
        BatchSettings(texts=1)
    for wrong in ({"questions": 0}, {"held_tokens": 0}):
        with pytest.raises(UsageError, match="at least 1"):
            BatchSettings(**wrong)
    with pytest.raises(UsageError, match="no rows"):
        TextBatches([], BatchSettings(), 0)
