import csv
import io
import sqlite3

import pytest
from cli_fakes import CORPUS, KeywordEncoder

PRODUCT = "Which product is it?"
KEYS = (
    "schema_version instruction where view documents units k seed chosen clusters levels months assignments taught "
    "verdict caution"
).split()


def test_clusters_are_named_by_what_the_model_answers(indexed):
    document = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--json").document
    assert list(document) == KEYS
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [("kettle", 2), ("lamp", 2), ("toy", 1)]
    assert document["assignments"] == {"r1": 0, "r2": 0, "r3": 1, "r4": 1, "r5": 2}
    assert document["chosen"] is None


def test_what_a_person_reads(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--by", "category")
    assert ran.out.splitlines()[:5] == [
        "  0  kettle  2 documents, cohesion 1.00, margin 0.50",
        "       in the texts: kettle",
        '       "The kettle broke."',
        "       nearest: r1, r2",
        "       category: kitchen 2 (entropy 0.00)",
    ]


def test_months_stand_under_the_numbers_of_the_clusters(run, fake, write):
    dates = ["2024-05-01", "soon", "2024-06-01"]
    texts = ["A kettle.", "Another kettle.", "A lamp."]
    run("index", write([{"id": str(row), "text": texts[row], "sold": {"on": dates[row]}} for row in range(3)]))
    ran = run("cluster", "--instruction", PRODUCT, "-k", "2", "--over", "on")
    assert ran.out.splitlines()[-4:] == [
        "cluster     0     1",
        "2024-05     1     0",
        "2024-06     0     1",
        "(none)      1     0",
    ]


def test_an_empty_filter_is_none(indexed):
    argv = ["--instruction", PRODUCT, "-k", "2", "--json"]
    document = indexed("cluster", "--where", "", *argv).document
    assert document == indexed("cluster", *argv).document
    hits = [indexed("search", "kettle", *where, "--json").document["hits"] for where in (["--where", " "], [])]
    assert hits[0] == hits[1]


def test_k_is_chosen_and_the_curve_shown(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT)
    assert "k = 1 by mean silhouette (the texts are too few or too alike)." in ran.err


def test_assignments_as_csv_are_no_formulas(run, fake, write, tmp_path):
    rows = [{"id": "=1+1", "text": "A kettle."}, {"id": "b;@x", "text": "A lamp."}]
    run("index", write(rows))
    run("cluster", "--instruction", PRODUCT, "-k", "2", "--csv", "out.csv")
    found = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert found == [["id", "cluster", "label"], ["'=1+1", "0", "kettle"], ["b;'@x", "1", "lamp"]]


def test_maps_are_written(indexed, tmp_path):
    indexed("cluster", "--instruction", PRODUCT, "-k", "2", "--html", "map.html", "--png", "map.png")
    assert "kettle" in (tmp_path / "map.html").read_text()
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_a_saved_clustering_is_shown_again_with_what_is_new(indexed, write):
    first = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--save", "mine", "--json").document
    again = indexed("cluster", "--saved", "mine", "--json").document
    assert {key: again[key] for key in KEYS} == first
    indexed("index", write([{"id": "r6", "text": "Another toy."}], "more.jsonl"))
    ran = indexed("cluster", "--saved", "mine")
    assert "1 documents are new; 0 of them fit none" in ran.err
    assert "  2  toy  2 documents" in ran.out


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["-k", "many"], 2, "-k is 'many'"),
        (["-k", "6"], 2, "6 clusters cannot be made of 5"),
        (["-k", "0"], 2, "0 clusters"),
        (["--levels", "0"], 2, "There cannot be 0 levels"),
        (["--saved", "x", "--levels", "2"], 2, "as it was saved"),
        (["--where", "stars > 9"], 1, "No document matches"),
        (["--by", "price"], 2, "No document has a field 'price'"),
        (["--over", "category"], 2, "is no date"),
        (["--saved", "x"], 1, "no saved clustering 'x'"),
        *(
            (["--saved", "x", name, value], 2, "as it was saved")
            for name, value in {
                "-k": "2",
                "--by": "category",
                "--over": "when",
                "--min-size": "2",
                "--seed": "1",
                "--save": "",
            }.items()
        ),
        (["-k", "2", "--png", "map.nonsense"], 2, "cannot be written"),
    ],
)
def test_what_cannot_be_done_says_why(indexed, argv, code, says):
    instruction = [] if "--saved" in argv else ["--instruction", PRODUCT]
    assert indexed("cluster", *instruction, *argv).failed_with(code, says)


@pytest.mark.parametrize(("name", "says"), [("mine", "a clustering 'mine' already"), ("", "needs a name")])
def test_a_name_that_cannot_be_given_is_refused_before_anything_is_embedded(indexed, name, says):
    indexed("cluster", "-k", "2", "--save", "mine")
    assert indexed("cluster", "--instruction", PRODUCT, "-k", "2", "--save", name).failed_with(2, says)
    assert len(indexed("views", "--json").document["views"]) == 1


def test_the_same_command_prints_the_same_again(indexed):
    argv = ["cluster", "--instruction", PRODUCT, "-k", "3", "--by", "category", "--levels", "2", "--json"]
    assert indexed(*argv).document["k"] == 3
    assert indexed(*argv).out == indexed(*argv).out


def test_an_instruction_of_spaces_is_none(indexed):
    document = indexed("cluster", "--instruction", "  ", "-k", "2", "--json").document
    assert (document["instruction"], document["view"]) == ("", 1)
    assert document == indexed("cluster", "-k", "2", "--json").document
    assert len(indexed("views", "--json").document["views"]) == 1


@pytest.mark.parametrize("texts", [["A kettle."], ["A kettle."] * 4], ids=["one", "equal"])
@pytest.mark.parametrize("k", ["auto", "1"])
def test_one_document_or_equal_ones_are_one_cluster(run, fake, write, texts, k):
    run("index", write([{"id": str(row), "text": text} for row, text in enumerate(texts)]))
    document = run("cluster", "-k", k, "--json").document
    assert document["assignments"] == {str(row): 0 for row in range(len(texts))}
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [("kettle", len(texts))]


def test_an_instruction_of_5000_characters_is_refused_and_leaves_nothing(run, write, tiny):
    run("index", write(CORPUS), "--encoder", f"plain:{tiny('llama')}")
    ran = run("cluster", "--instruction", "which kind " * 455, "-k", "2", "--json")
    assert ran.failed_with(2, "The instruction has ", "at most 256 are allowed", "Say it in a sentence or two.")
    assert [view["instruction"] for view in run("views", "--json").document["views"]] == [""]
    assert run("cluster", "-k", "2", "--json").document["k"] == 2


def test_a_saved_clustering_that_is_damaged_is_refused(indexed, database):
    indexed("cluster", "-k", "2", "--save", "mine")
    with sqlite3.connect(database) as raw:
        raw.execute("UPDATE clusterings SET centroids = CAST(x'ff' || substr(centroids, 2) AS BLOB)")
    raw.close()
    assert indexed("cluster", "--saved", "mine").failed_with(4, "'mine'")


@pytest.mark.parametrize("command", ["index", "complete"])
def test_four_instructions_are_read_in_one_pass(run, write, monkeypatch, command):
    passes = []

    class Several(KeywordEncoder):
        def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
            if words:
                passes.append((len(texts), list(instructions)))
            return super().encode_views(texts, instructions, words=words)

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Several())
    four = [f"{PRODUCT} {number}" for number in range(4)]
    if command == "index":
        run("index", write(CORPUS), *(part for one in four for part in ("--instruction", one)))
        assert passes == [(5, ["", *four])]
    else:
        run("index", write(CORPUS))
        passes.clear()
        run("views", *(part for one in four for part in ("--complete", one)))
        assert passes == [(5, four)]
    assert [one["coverage"] for one in run("views", "--json").document["views"]] == [1.0] * 5
    before = list(passes)
    for one in four:
        assert run("cluster", "--instruction", one, "-k", "3", "--json").document["k"] == 3
    assert passes == before


def test_an_index_that_is_not_there(run, fake):
    assert run("cluster", "--index", "gone").failed_with(1, "There is no index at gone")
