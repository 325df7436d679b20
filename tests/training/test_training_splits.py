from collections import Counter

import pytest

from retriever.core.errors import InputError, UsageError
from retriever.training.rows import TrainingRow
from retriever.training.splits import hold_out


def row(text, group="kind", answer="a", **more):
    return TrainingRow(text, group, answer, group=group, **more)


def test_no_text_is_on_both_sides_and_every_question_gives_its_share():
    rows = [row(f"text {number}", group) for group, many in (("kind", 200), ("mood", 20)) for number in range(many)]
    rows += [row(f"TEXT {number}.", "defect") for number in range(100, 140)]
    parts = hold_out(rows, share=0.1)
    assert not {one.text_key for one in parts.train} & {one.text_key for one in parts.held_out}
    assert sorted(map(id, [*parts.train, *parts.held_out])) == sorted(map(id, rows))
    assert len({one.text_key for one in parts.held_out}) == 20
    held = Counter(one.group for one in parts.held_out)
    assert held["mood"] == 2
    assert held["defect"] == 4


def test_questions_asked_once_give_their_share_together():
    parts = hold_out([row(f"text {number}", f"question {number}") for number in range(50)], share=0.2)
    assert (len(parts.train), len(parts.held_out)) == (40, 10)


def test_the_seed_decides_and_the_order_of_rows_does_not():
    rows = [row(f"text {number}") for number in range(60)]
    first = {one.text for one in hold_out(rows, seed=1).held_out}
    assert first == {one.text for one in hold_out(rows[::-1], seed=1).held_out}
    assert first != {one.text for one in hold_out(rows, seed=2).held_out}
    held = hold_out(rows, seed=1).held_out
    assert held == sorted(held, key=rows.index)


def test_both_sides_have_a_text():
    for share in (0.01, 0.99):
        parts = hold_out([row("a"), row("b"), row("c")], share=share)
        assert parts.train and parts.held_out


def test_what_cannot_be_split_is_refused():
    with pytest.raises(InputError, match="1 different texts"):
        hold_out([row("a"), row("A.")])
    with pytest.raises(UsageError, match="share is 1"):
        hold_out([row("a"), row("b")], share=1)
