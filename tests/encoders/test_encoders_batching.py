from hypothesis import given
from hypothesis import strategies as st

from retriever.encoders.batching import distinct, plan_batches, token_budget

lengths = st.lists(st.integers(0, 60), max_size=40)


@given(lengths, st.integers(1, 200))
def test_batches_keep_the_budget_and_hold_every_row_once_longest_first(lengths, budget):
    batches = list(plan_batches(lengths, budget))
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert rows == sorted(rows, key=lambda row: (-lengths[row], row))
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget


@given(lengths, st.integers(1, 200))
def test_no_batch_could_have_taken_the_next_row(lengths, budget):
    batches = list(plan_batches(lengths, budget))
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


def test_batches_by_hand():
    assert list(plan_batches([3, 9, 4, 4, 100, 1], 12)) == [[4], [1], [2, 3, 0], [5]]
    assert list(plan_batches([], 10)) == []


def test_budget_is_wide_on_cuda_and_wider_where_short_blocks_follow():
    once, reading_on = (token_budget("cpu", reads_on=reads_on) for reads_on in (False, True))
    assert token_budget("cuda", reads_on=False) > reading_on > once


@given(st.lists(st.text(max_size=2)))
def test_distinct_texts_keep_their_order_and_rebuild_the_list(texts):
    unique, positions = distinct(texts)
    assert [unique[position] for position in positions] == texts
    assert len(set(unique)) == len(unique)
    assert [texts.index(text) for text in unique] == sorted(texts.index(text) for text in unique)


def test_distinct_by_hand():
    assert distinct(["b", "a", "b", "", "a"]) == (["b", "a", ""], [0, 1, 0, 2, 1])
