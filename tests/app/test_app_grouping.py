import pytest

from retriever_app import state
from retriever_app.view_models.grouping import DEEPEST, MOST_GROUPS, Ask, Grouping, Part, read_part

PART = Part('What broke? "It", they say', 4, (0, 2), (-1000, 20, -5, 300, 0, 0))


def test_a_part_survives_its_spelling():
    assert read_part(PART.spell()) == PART


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        "[]",
        "null",
        "[1,2]",
        '["a",0,[],[]]',
        '["a",0,["x"],[]]',
        '["a",0,[],[1,2,3]]',
        '["a",0,[1e999],[]]',
        '["a",0,[],[1,2,3,4,5,1e30]]',
        '["a",0,[],[1,2,3,4,5,6,7]]',
        "[" * 100_000,
    ],
)
def test_what_spells_no_part_is_none(spelled):
    assert read_part(spelled) is None


def test_a_link_keeps_what_can_be_meant():
    parsed = state.parse(
        Grouping,
        {
            "groups": ["900"],
            "within": ["nonsense", PART.spell(), *[Part("b", 0, (1,)).spell()] * 9],
            "area": ["10", "-5", "7", "3", "1", "1"],
            "flow": ["1"],
            "clusters": ["3", "1"],
        },
    )
    assert (parsed.groups, parsed.area, parsed.flow) == (MOST_GROUPS, (10, -5, 7, 3, 1, 1), ())
    assert parsed.parts[0] == PART
    assert len(parsed.parts) == DEEPEST
    assert state.parse(Grouping, state.params(parsed)) == parsed


def test_the_way_up_from_a_part_leads_to_the_clustering_it_is_of():
    outer = Part("A", 3, (1,))
    ask = Ask("C", 2, "stars = 1", (outer, PART))
    assert ask.parent == Ask(PART.instruction, 4, "stars = 1", (outer,))
    assert ask.parent.parent == Ask("A", 3, "stars = 1", ())
