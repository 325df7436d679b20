import pytest

from retriever.index.verdicts.measured import MEASURED, Measured

ASKED = "Which product is it?"
ROWS = [
    {"id": f"{row:02}", "text": f"I {mood} this {product}, says number {row}.", "stars": row % 5 + 1}
    for row, (product, mood) in enumerate([(a, b) for a in ("kettle", "lamp", "toy") for b in ("love", "hate")] * 6)
]
WAYS = "Word the question differently, teach it with examples, or let a language model read the texts."
NOT_FOLLOWED = f"This model does not follow this question; its commonest answers are kettle, lamp, toy. {WAYS}"
COMMANDS = f"To get answers, add --reader chat:MODEL, or run retriever teach --instruction '{ASKED}' EXAMPLES.jsonl"


@pytest.fixture
def chance(monkeypatch):
    """Make every question followed with this chance."""

    def set_to(value):
        monkeypatch.setattr(Measured, "chance", lambda self, features: value)

    set_to(0.01)
    return set_to


@pytest.fixture
def made(run, fake, write, chance):
    """Run commands on an index of the texts."""
    assert run("index", write(ROWS)).code == 0
    return run


def test_index_says_it_of_the_views_that_it_filled(run, fake, write, chance):
    ran = run("index", write(ROWS), "--instruction", ASKED)
    assert f'"{ASKED}": {NOT_FOLLOWED}\n{COMMANDS}\n' in ran.err
    document = run("index", write(ROWS), "--json").document
    assert [(one["instruction"], one["level"]) for one in document["verdicts"]] == [(ASKED, "not followed")]


def test_a_search_says_it_behind_its_hits_and_finds_it_out_once(made, chance):
    ran = made("search", "kettle", "--instruction", ASKED, "-k", "2")
    assert ran.err.endswith(f"{NOT_FOLLOWED}\n{COMMANDS}\n")
    chance(0.99)
    assert NOT_FOLLOWED in made("search", "kettle", "--instruction", ASKED).err
    document = made("search", "kettle", "--instruction", ASKED, "--json").document
    assert document["verdict"]["sentence"] == NOT_FOLLOWED
    assert (document["verdict"]["level"], document["verdict"]["texts"]) == ("not followed", 36)
    assert {answer["word"] for answer in document["verdict"]["answers"]} == {"kettle", "lamp", "toy"}


def test_words_are_no_answers_where_a_question_is_not_followed(made, chance):
    search = ("search", "kettle", "--instruction", ASKED, "-k", "2")
    assert "[kettle" not in made(*search).out
    assert "[kettle" in made(*search, "--explain").out
    assert made(*search, "--json").document["hits"][0]["words"] == ["kettle"]
    both = ("compare", "--instruction", ASKED, "--instruction", "Which mood is it?", "--query", "kettle")
    assert "kettle" not in made(*both).out


def test_words_are_shown_where_a_question_may_be_followed(made, chance):
    chance((MEASURED.followed + MEASURED.not_followed) / 2)
    assert "[kettle" in made("search", "kettle", "--instruction", ASKED, "-k", "2").out


def test_a_question_that_is_followed_is_told_too(made, chance):
    chance(0.99)
    assert made("search", "kettle", "--instruction", ASKED).err.endswith("This model follows this question.\n")
    assert made("search", "kettle", "--instruction", ASKED, "--json").document["verdict"]["level"] == "followed"
    assert "This model follows this question.\n" in made("cluster", "--instruction", ASKED, "-k", "3").err
    assert "follow" not in made("search", "kettle").err


def test_clusters_are_named_as_what_they_are(made):
    chosen = made("cluster", "--instruction", ASKED)
    groups = (
        "Without the question the texts fall into nearly the same groups (agreement 1.00 of 1): these probably do not "
        "answer it."
    )
    assert chosen.out.startswith(f"{NOT_FOLLOWED} {groups}\n")
    assert "clusters" not in chosen.err  # what is doubted is not praised
    assert "clusters" in made("cluster", "--instruction", ASKED, "--explain").err
    given = made("cluster", "--instruction", ASKED, "-k", "2", "--json").document
    assert given["caution"].startswith(f"{NOT_FOLLOWED} These are groups of similar texts")
    assert given["verdict"]["instruction"] == ASKED


def test_a_comparison_has_a_verdict_for_each(made, tmp_path):
    both = ["--instruction", ASKED, "--instruction", "Which mood is it?"]
    hits = made("compare", *both, "--query", "kettle", "--html", "page.html")
    assert NOT_FOLLOWED in hits.err
    page = (tmp_path / "page.html").read_text()
    assert page.count("This model does not follow this question") == 2
    document = made("compare", *both, "--query", "kettle", "--json").document
    assert [one["level"] for one in document["verdicts"]] == ["not followed", "not followed"]
    assert [one["level"] for one in made("compare", *both, "--json").document["verdicts"]] == [
        "not followed",
        "not followed",
    ]


def test_views_and_status_show_it(made, chance):
    chance((MEASURED.followed + MEASURED.not_followed) / 2)
    made("views", "--complete", ASKED)
    head, base, asked = made("views").out.splitlines()[:3]
    assert head.split()[:5] == ["view", "instruction", "coverage", "filled", "followed"]
    assert base.split()[4] == "-"
    assert asked.split("completely")[1].split()[0] == "unclear"
    said = made("views").err
    assert f'"{ASKED}": It is unclear whether this model follows this question; its commonest answers are' in said
    assert said.endswith(
        "To get answers, add --reader chat:MODEL, or run retriever teach --instruction QUESTION EXAMPLES.jsonl\n"
    )
    assert made("views", "--json").document["views"][1]["verdict"]["level"] == "unclear"
    assert [one["verdict"] is None for one in made("status", "--json").document["views"]] == [True, False]
    assert "unclear" in made("status").out


REVIEWS = [
    {"id": f"{row}", "text": f"I {mood} this {product}, says number {row}."}
    for row, (product, mood) in enumerate([(a, b) for a in ("kettle", "lamp", "toy") for b in ("love", "hate")] * 5)
]
ASK = ["--instruction", "Which product is it?"]


@pytest.fixture
def diagnose(run, fake, write):
    """Run the command on an index of thirty reviews."""
    run("index", write(REVIEWS))
    return lambda *argv: run("diagnose", *argv)


def test_the_verdict_is_stored_and_shown_with_what_it_rests_on(diagnose, run):
    ran = diagnose(*ASK)
    lines = ran.out.splitlines()
    assert "answers over 30 texts: kettle (10), lamp (10), toy (10)" in lines
    assert "likely that it does; followed from " in lines[-1]
    document = diagnose(*ASK, "--json").document
    (view,) = (one for one in run("views", "--json").document["views"] if one["instruction"] == ASK[1])
    assert (view["verdict"]["chance"], view["verdict"]["texts"]) == (document["chance"], document["texts"])


def test_pairs_are_shown_and_decide(diagnose, write):
    texts = [row["text"] for row in REVIEWS]
    rows = [{"a": texts[0], "b": texts[1], "same": False}, {"a": texts[0], "b": texts[2], "same": True}]
    ran = diagnose(*ASK, "--pairs", write(rows, "pairs.jsonl"))
    assert "2 pairs: AUC 0.000 (base view " in ran.out
    assert diagnose(*ASK, "--pairs", "pairs.jsonl", "--json").document["level"] == "not followed"


@pytest.mark.parametrize(
    ("argv", "code", "parts"),
    [
        (["--instruction", " "], 2, ["The instruction is empty"]),
        ([*ASK, "--pairs", "none.jsonl"], 1, ["There is no file none.jsonl"]),
        ([*ASK, "--pairs", "bad.jsonl"], 1, ["bad.jsonl, line 2: 'same' is neither"]),
        ([], 2, ["--instruction"]),
        ([*ASK, "--index", "gone"], 1, ["gone"]),
    ],
)
def test_mistakes_in_diagnosing_are_named(diagnose, write, argv, code, parts):
    write([{"a": "x", "b": "y", "same": True}, {"a": "x", "b": "y", "same": "maybe"}], "bad.jsonl")
    assert diagnose(*argv).failed_with(code, *parts)
