import csv
import io

import pytest

PRODUCT = "Which product is it?"
KEYS = "schema_version instruction where view documents k seed chosen clusters levels months assignments".split()


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


def test_k_is_chosen_and_the_curve_shown(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT)
    assert "k = 1 by mean silhouette (the texts are too few or too alike)." in ran.err


def test_assignments_as_csv_are_no_formulas(run, fake, write, tmp_path):
    rows = [{"id": "=1+1", "text": "A kettle."}, {"id": "b", "text": "A lamp."}]
    run("index", write(rows))
    run("cluster", "--instruction", PRODUCT, "-k", "2", "--csv", "out.csv")
    found = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert found == [["id", "cluster", "label"], ["'=1+1", "0", "kettle"], ["b", "1", "lamp"]]


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
        (["--saved", "x", "-k", "2"], 2, "as it was saved"),
        (["-k", "2", "--html", "gone/map.html"], 2, "cannot be written"),
        (["-k", "2", "--csv", "gone/map.csv"], 2, "cannot be written"),
    ],
)
def test_what_cannot_be_done_says_why(indexed, argv, code, says):
    instruction = [] if "--saved" in argv else ["--instruction", PRODUCT]
    assert indexed("cluster", *instruction, *argv).failed_with(code, says)


def test_an_index_that_is_not_there(run, fake):
    assert run("cluster", "--index", "gone").failed_with(1, "There is no index at gone")
