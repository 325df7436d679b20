import pytest

from retriever.core.requests import SearchOptions

PRODUCT, MOOD = "Which product is it?", "What is the mood?"
COMPLETE = f"retriever views --complete '{MOOD}'"
BOTH = ["--instruction", PRODUCT, "--instruction", MOOD]


def test_hits_side_by_side(indexed):
    ran = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2", "--json")
    assert " ".join(ran.document) == "schema_version query instructions paths known_answers verdicts overlap documents"
    assert ran.document["instructions"] == [PRODUCT, MOOD]
    ranks = {one["id"]: one["ranks"] for one in ran.document["documents"]}
    assert 1 in ranks["r4"]
    shown = indexed("compare", *BOTH, "--query", "I love this lamp", "--hits", "2")
    assert shown.out.splitlines()[0].split() == ["A", "B", "id", "A", "answers", "B", "answers"]
    assert f"A: {PRODUCT}\nB: {MOOD}\n" in shown.err


def test_an_answer_from_candidates_is_called_approximate(indexed, tmp_path, monkeypatch):
    indexed("views", "--complete", PRODUCT)
    frugal = SearchOptions(rounds=1, token_budget=40)  # for one text
    monkeypatch.setattr("retriever.index.opened.SearchOptions", lambda: frugal)
    ran = indexed("compare", *BOTH, "--query", "I love this lamp", "--html", "page.html")
    assert (tmp_path / "page.html").read_text().count("is approximate: candidates alone were read") == 1
    assert "A is approximate" not in ran.err
    assert f"B is approximate: candidates alone were read under its instruction. `{COMPLETE}` makes it exact" in ran.err
    indexed("views", "--complete", MOOD)
    assert "approximate" not in indexed("compare", *BOTH, "--query", "I love this lamp").err
    paths = indexed("compare", *BOTH, "--query", "I love this lamp", "--json").document["paths"]
    assert paths == ["complete", "complete"]


def test_clusters_are_compared_without_reading_outside_of_the_filter(indexed):
    ran = indexed("compare", *BOTH, "-k", "2", "--where", "category = 'kitchen'", "--json")
    assert sum(one["size"] for one in ran.document["flows"]) == 2
    assert [one["vectors"] for one in indexed("views", "--json").document["views"]] == [5, 2, 2]


@pytest.mark.parametrize("k", ["many", "6"])
def test_what_cannot_be_clustered_is_refused_before_anything_is_embedded(indexed, k):
    assert indexed("compare", *BOTH, "-k", k).failed_with(2, k)
    assert len(indexed("views", "--json").document["views"]) == 1


def test_flows_between_clusters(indexed, tmp_path):
    ran = indexed("compare", *BOTH, "-k", "2", "--html", "page.html", "--json")
    assert sum(one["size"] for one in ran.document["flows"]) == 5
    assert [len(each) for each in ran.document["clusters"]] == [2, 2]
    assert "cluster under A" in (tmp_path / "page.html").read_text()
    shown = indexed("compare", *BOTH, "-k", "2")
    assert f"{ran.document['moved']} of 5 documents are in another cluster" in shown.err


@pytest.mark.parametrize(
    ("argv", "says"),
    [(["--query", "a lamp", "-k", "2"], "-k is the number of groups"), (["--hits", "3"], "--hits needs a query")],
)
def test_an_option_of_the_other_comparison_is_refused(indexed, argv, says):
    assert indexed("compare", *BOTH, *argv).failed_with(2, says)


@pytest.mark.parametrize("instructions", [[], ["--instruction", "a"], [*BOTH, "--instruction", "c"]])
def test_two_instructions_are_asked_for(indexed, instructions):
    assert indexed("compare", *instructions).failed_with(2, "Two instructions or saved groups are needed")


@pytest.fixture
def saved(indexed):
    """Run commands where the groups by product are saved as they are, and once merged and with a document in none."""
    ask = ["cluster", "--instruction", PRODUCT, "-k", "3", "--save"]
    assert [indexed(*ask, name).code for name in ("products", "edited")] == [0, 0]
    assert (
        indexed("cluster", "--saved", "edited", "--merge", "2,3", "--rename", "2=Other", "--move", "r1=none").code == 0
    )
    return indexed


def test_saved_groups_are_compared_as_people_changed_them(saved, tmp_path):
    ran = saved("compare", "--saved", "edited", "--saved", "products", "--html", "page.html")
    assert any("none of these" in line and line.endswith("r1") for line in ran.out.splitlines())
    flows = saved("compare", "--saved", "edited", "--saved", "products", "--json").document["flows"]
    assert sorted((one["from"], one["to"], one["size"], one["stays"]) for one in flows) == [
        (-1, 1, 1, False), (1, 1, 1, True), (2, 2, 2, True), (2, 3, 1, False)
    ]  # fmt: skip
    assert "<td>Other</td>" in (tmp_path / "page.html").read_text()


def test_saved_groups_are_compared_with_those_of_an_instruction(saved):
    ran = saved("compare", "--saved", "products", "--instruction", MOOD, "-k", "2", "--json")
    assert ran.document["instructions"] == [MOOD, PRODUCT]
    assert [len(each) for each in ran.document["clusters"]] == [2, 3]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--saved", "products"], "Two instructions or saved groups"),
        (["--saved", "products", "--saved", "edited", "--query", "a"], "A query has hits under instructions"),
    ],
)
def test_what_cannot_be_compared_of_saved_groups(saved, argv, says):
    assert saved("compare", *argv).failed_with(2, says)


@pytest.fixture
def counted(run, fake, write):
    """Run commands on an index with a saved clustering of sixty reviews: kettles are hated in May, lamps loved."""
    rows = [
        {
            "id": f"r{row}",
            "text": ("A lamp to love." if row % 2 else "The kettle I hate.") + f" {row}",
            "stars": 5 if row % 2 else 1,
            "shop": "north" if row < 30 else ["west", "east"][row % 2],
            "date": f"2024-0{4 + row // 30}-10",
        }
        for row in range(60)
    ]
    run("index", write(rows))
    run("cluster", "--instruction", PRODUCT, "-k", "2", "--save", "mine")
    return run


def test_the_json_has_the_numbers_and_no_file_is_written(counted, tmp_path):
    report = counted("report", "mine", "--by", "shop", "--json").document
    found = report["numbers"]
    assert (report["name"], found["documents"], list(found["segments"])) == ("mine", 60, ["shop"])
    assert (found["trend"]["unit"], found["trend"]["periods"]) == ("month", ["2024-04", "2024-05"])
    assert not list(tmp_path.glob("report*"))


def test_a_filter_a_period_and_fields_by_name(counted):
    argv = ["--where", "stars = 1", "--period", "year", "--stars", "stars", "--date", "date"]
    report = counted("report", "mine", *argv, "--json").document
    found = report["numbers"]
    assert (found["documents"], report["where"], found["trend"]["periods"]) == (30, "(stars = 1)", ["2024"])
    assert [one["size"] for one in found["clusters"]] == [30, 0]
    assert [one["impact"] for one in found["clusters"]] == [None, None]


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["gone"], 1, "no saved clustering 'gone'"),
        (["mine", "--by", "colour"], 2, "field 'colour'"),
        (["mine", "--by", "product"], 2, "field 'product'"),
        (["mine", "--stars", "nope"], 2, "field 'nope'"),
        (["mine", "--stars", "shop"], 2, "'shop' holds no ratings"),
        (["mine", "--date", "shop"], 2, "'shop' holds no dates"),
        (["mine", "--period", "week"], 2, "'week' is no period"),
        (["mine", "--where", "stars > 9"], 1, "No document matches"),
    ],
)
def test_what_cannot_be_counted_says_why(counted, argv, code, says):
    assert counted("report", *argv).failed_with(code, says)


def test_a_report_is_written_as_a_page_and_as_markdown(counted, tmp_path):
    ran = counted("report", "mine", "-o", "out.html", "--by", "shop")
    page = (tmp_path / "out.html").read_text()
    assert PRODUCT in page
    assert "The kettle I hate." in page
    assert "<polyline" in page
    assert "follow this question" in page  # the verdict, found when its view was filled
    first, second = ran.out.splitlines()[:2]
    assert first.endswith("these probably do not answer it.")
    assert second.startswith("“")
    assert counted("report", "mine").err.endswith("The report is in report.html.\n")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    found = counted("report", "mine", "-o", "out.md", "--json").document
    text = (tmp_path / "out.md").read_text()
    assert text.startswith(f"# {PRODUCT}\n")
    assert found["numbers"]["documents"] == 60
    assert found["quotes"]["1"]
    assert all(quote["id"] in text for quote in found["quotes"]["1"])
