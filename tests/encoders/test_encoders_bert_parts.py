import math

import numpy as np
import pytest

from retriever.encoders.bert.arrays import gelu
from retriever.encoders.bert.packs import plan_packs


@pytest.mark.parametrize("budget", [1, 7, 10, 1000])
def test_packs_hold_every_text_once_longest_first_without_padding(budget):
    texts = [[1], [2, 3], [4, 5, 6, 7, 8, 9, 10, 11], [12, 13], [14], [15, 16, 17]]
    packs = list(plan_packs(texts, budget))
    assert sorted(row for pack in packs for row in pack.rows) == list(range(6))
    assert [row for pack in packs for row in pack.rows] == [2, 5, 1, 3, 0, 4]
    for pack in packs:
        assert len(pack.ids) <= budget or len(pack.rows) == 1
        assert pack.ids.tolist() == [token for row in pack.rows for token in texts[row]]
        assert pack.places.tolist() == [place for row in pack.rows for place in range(len(texts[row]))]
        lengths = [len(texts[row]) for row in pack.rows]
        assert [run.length for run in pack.runs for _ in range(run.texts)] == lengths
        assert [run.start for run in pack.runs] == [sum(lengths[: lengths.index(run.length)]) for run in pack.runs]
    assert len(packs) == {1: 6, 7: 3, 10: 2, 1000: 1}[budget]
    assert list(plan_packs([], budget)) == []


def test_gelu_is_the_exact_one():
    values = np.concatenate([np.linspace(-9, 9, 4001), [-1e4, 1e4, 0]]).astype(np.float32)
    exact = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in values.tolist()]
    assert (abs(gelu(values) - exact) / np.maximum(1, values)).max() < 3e-7
