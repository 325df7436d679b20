import pytest

PRODUCT = "Which product is it?"
KEYS = (
    "view instruction pooling steps look_ahead dtype dim vectors coverage generation factory recall tail last_used "
    "encoder bytes lazy backend taught verdict windows"
).split()


def test_views_as_json(indexed):
    indexed("search", "kettle", "--instruction", "What mood?")
    document = indexed("views", "--json").document
    assert list(document) == ["schema_version", "lazy_limit", "views"]
    assert [list(one) for one in document["views"]] == [KEYS] * 2
    assert [(one["instruction"], one["lazy"], one["bytes"]) for one in document["views"]] == [
        ("", False, 70),
        ("What mood?", True, 70),
    ]


def test_what_a_person_reads(indexed):
    indexed("search", "kettle", "--instruction", f"What mood? {'very ' * 20}")
    head, base, mood = indexed("views").out.splitlines()
    assert head.split() == "view instruction coverage filled followed vectors size last used encoder taught".split()
    assert base.split()[:8] == "1 (base) 100% completely - 5 70 B".split()
    assert "What mood? very very very very very very very very very v..." in mood
    assert "100%      as needed" in mood


def test_completing_and_dropping(indexed):
    document = indexed("views", "--complete", PRODUCT, "--complete", "What mood?", "--json").document
    assert [(one["instruction"], one["coverage"], one["lazy"]) for one in document["views"]] == [
        ("", 1.0, False),
        (PRODUCT, 1.0, False),
        ("What mood?", 1.0, False),
    ]
    document = indexed("views", "--drop", PRODUCT, "--json").document
    assert [one["instruction"] for one in document["views"]] == ["", "What mood?"]


@pytest.mark.parametrize(("given", "limit"), [("2GB", 2 * 10**9), ("1.5 kB", 1500), ("70", 70), ("none", None)])
def test_a_limit_is_set_and_shown(indexed, given, limit):
    assert indexed("views", "--limit", given, "--json").document["lazy_limit"] == limit
    assert indexed("views", "--json").document["lazy_limit"] == limit


def test_a_limit_removes_what_is_over_it_and_says_what_it_is(indexed):
    indexed("search", "kettle", "--instruction", "What mood?")
    ran = indexed("views", "--limit", "50")
    assert "Views that are filled as needed use at most 50 B." in ran.err
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [["1", "(base)"], ["2", "What"]]
    assert [one["vectors"] for one in indexed("views", "--json").document["views"]] == [5, 3]


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["--drop", PRODUCT], 1, f"There is no view of '{PRODUCT}'."),
        (["--drop", ""], 2, "The base view cannot be dropped."),
        (["--limit", "much"], 2, "--limit is 'much'."),
        (["--limit", "-5"], 2, "--limit is '-5'."),
        (["--index", "gone"], 1, "There is no index at gone"),
        (["--drop", PRODUCT, "--index", "gone"], 1, "There is no index at gone"),
    ],
)
def test_what_cannot_be_done_says_why(indexed, argv, code, says):
    assert indexed("views", *argv).failed_with(code, says)
