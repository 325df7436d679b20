import pytest

from retriever.clusters.fields import MISSING, OTHERS, growth, spread
from retriever.core.fields import names_of


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("a", ["a"]),
        (3, ["3"]),
        (None, []),
        ([], []),
        (["a", "b", "a"], ["a", "b"]),
        ([None, ["a"], {"b": 1}, 5], ["5"]),
    ],
)
def test_a_value_counts_under_its_name_and_a_list_under_those_of_its_items(value, names):
    assert names_of(value) == names


def test_a_document_with_a_list_counts_once_under_each_item():
    first, second = spread([["a", "b"], ["a", "a"], "b", [], None], [0, 0, 0, 1, 1], 2)
    assert first.counts == {"a": 2, "b": 2}
    assert second.counts == {MISSING: 2}
    assert second.entropy == 0


def test_rare_items_of_one_document_stand_together_and_count_once():
    common = [[f"tag{number}" for number in range(20)]] * 2
    [found] = spread([*common, ["rare", "rarer", "tag0"]], [0, 0, 0], 1)
    assert found.counts == {"tag0": 3, OTHERS: 1} | {f"tag{number}": 2 for number in range(1, 20)}


def test_growth_reads_dates_as_numbers_do():
    values = ["2024-05-31", "2024-05-01T10:00:00Z", "3. Mai 2024", "June 2, 2024", 1717113600, "soon", None]
    assert growth(values, [0, 1, 0, 1, 0, 1, 0], 2) == {"2024-05": [3, 1], "2024-06": [0, 1], MISSING: [1, 1]}
