import pytest

from retriever.index.verdicts.measured import MEASURED, Measured

ASKED = "Which product is it?"
ROWS = [
    {"id": f"{row:02}", "text": f"I {mood} this {product}, says number {row}.", "stars": row % 5 + 1}
    for row, (product, mood) in enumerate([(a, b) for a in ("kettle", "lamp", "toy") for b in ("love", "hate")] * 6)
]
TEACH = f"teach it with examples: retriever teach --instruction '{ASKED}' EXAMPLES.jsonl"
HARDLY = f"This model hardly follows this question; {TEACH}"


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
    assert f'"{ASKED}": {HARDLY}\n' in ran.err
    document = run("index", write(ROWS), "--json").document
    assert [(one["instruction"], one["level"]) for one in document["verdicts"]] == [(ASKED, "hardly")]


def test_a_search_says_it_behind_its_hits_and_finds_it_out_once(made, chance):
    ran = made("search", "kettle", "--instruction", ASKED, "-k", "2")
    assert ran.err.endswith(f"{HARDLY}\n")
    chance(0.99)
    assert HARDLY in made("search", "kettle", "--instruction", ASKED).err
    document = made("search", "kettle", "--instruction", ASKED, "--json").document
    assert document["verdict"]["sentence"] == HARDLY
    assert (document["verdict"]["level"], document["verdict"]["texts"]) == ("hardly", 36)
    assert document["verdict"]["answers"][0] == {"word": "kettle", "texts": 12}


def test_a_question_that_is_followed_is_not_talked_about(made, chance):
    chance(0.99)
    ran = made("search", "kettle", "--instruction", ASKED)
    assert "follow" not in ran.out + ran.err
    assert made("search", "kettle", "--instruction", ASKED, "--json").document["verdict"]["level"] == "followed"
    assert "follow" not in made("cluster", "--instruction", ASKED, "-k", "3").err


def test_without_an_instruction_or_by_words_there_is_no_verdict(made):
    assert made("search", "kettle", "--json").document["verdict"] is None
    words = made("search", "kettle", "--instruction", ASKED, "--mode", "lexical", "--json").document
    assert words["verdict"] is None
    assert made("cluster", "-k", "2", "--json").document["verdict"] is None


def test_clusters_are_named_as_what_they_are(made):
    chosen = made("cluster", "--instruction", ASKED)
    assert f"clusters are what sets the texts most apart, not answers to the question. {HARDLY}\n" in chosen.err
    given = made("cluster", "--instruction", ASKED, "-k", "2", "--json").document
    assert given["caution"] == f"These clusters are what sets the texts apart, not answers to the question. {HARDLY}"
    assert given["verdict"]["instruction"] == ASKED


def test_a_comparison_has_a_verdict_for_each(made, tmp_path):
    both = ["--instruction", ASKED, "--instruction", "Which mood is it?"]
    hits = made("compare", *both, "--query", "kettle", "--html", "page.html")
    assert HARDLY in hits.err
    assert (tmp_path / "page.html").read_text().count("This model hardly follows this question; teach it") == 2
    document = made("compare", *both, "--query", "kettle", "--json").document
    assert [one["level"] for one in document["verdicts"]] == ["hardly", "hardly"]
    assert [one["level"] for one in made("compare", *both, "--json").document["verdicts"]] == ["hardly", "hardly"]


def test_views_and_status_show_it(made, chance):
    chance((MEASURED.followed + MEASURED.hardly) / 2)
    made("views", "--complete", ASKED)
    head, base, asked = made("views").out.splitlines()[:3]
    assert head.split()[:5] == ["view", "instruction", "coverage", "filled", "followed"]
    assert base.split()[4] == "-"
    assert asked.split("whole")[1].split()[0] == "unclear"
    assert "It is unclear whether this model follows this question: look twice, or teach" in made("views").err
    assert made("views", "--json").document["views"][1]["verdict"]["level"] == "unclear"
    assert [one["verdict"] is None for one in made("status", "--json").document["views"]] == [True, False]
    assert "unclear" in made("status").out


def test_categories_say_it_of_their_question(made, chance):
    asked = ["classify", "--instruction", ASKED, "--into", "kettle, lamp"]
    assert HARDLY in made(*asked).err
    assert made(*asked, "--json").document["verdict"]["level"] == "hardly"
    chance(0.99)
    made("views", "--drop", ASKED)
    assert "follow" not in made(*asked).err


def test_a_report_says_what_its_groups_are(made, tmp_path):
    made("cluster", "--instruction", ASKED, "-k", "2", "--save", "products")
    ran = made("report", "products", "-o", "report.md")
    assert ran.out.startswith("These clusters are what sets the texts apart, not answers to the question.\n")
    assert "This model hardly follows this question" in (tmp_path / "report.md").read_text()


def test_a_saved_clustering_tells_what_was_known_when_it_was_saved(made):
    made("cluster", "--instruction", ASKED, "-k", "3", "--save", "products")
    again = made("cluster", "--saved", "products")
    assert HARDLY in again.err
