import csv
import io

import pytest

PRODUCT = "Which product is it?"
KEYS = (
    "schema_version caution instruction where view documents units k chosen stability made several written_by fault "
    "clusters assignments taught verdict resembles sampled known_answers"
).split()


def test_clusters_are_named_by_what_the_model_answers(indexed):
    document = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--json").document
    assert list(document) == KEYS
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [("kettle", 2), ("lamp", 2), ("toy", 1)]
    assert document["assignments"] == {"r1": 1, "r2": 1, "r3": 2, "r4": 2, "r5": 3}
    assert document["chosen"] is None


def test_what_a_person_reads(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--by", "category")
    assert ran.out.splitlines()[:5] == [
        "  1  kettle  2 documents (2 of 5)",
        "       typical words: kettle",
        '       "The kettle broke."',
        "       nearest: r1, r2",
        "       category: kitchen 2",
    ]
    assert not [word for word in ("cohesion", "margin", "entropy", "silhouette") if word in ran.out + ran.err]


def test_the_figures_behind_clusters_are_explained_on_demand(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--by", "category", "--save", "mine", "--explain")
    figures = "cohesion 1.00, margin 0.50, name holds of 100%"
    assert ran.out.splitlines()[0] == f"  1  kettle  2 documents (2 of 5), {figures}"
    assert "category: kitchen 2 (entropy 0.00)" in ran.out
    assert indexed("cluster", "--saved", "mine", "--explain").out == ran.out


def test_a_field_that_no_document_has_is_refused_before_anything_is_read(indexed):
    ran = indexed("cluster", "--instruction", PRODUCT, "--by", "categry")
    assert ran.failed_with(2, "No document has a field 'categry'", "Did you mean 'category'?")
    assert len(indexed("views", "--json").document["views"]) == 1


@pytest.mark.parametrize("argv", [[], ["-k", "auto"]])
def test_k_is_chosen(indexed, argv):
    ran = indexed("cluster", "--instruction", PRODUCT, *argv)
    assert "1 cluster: the texts are too few, or too alike, for more." in ran.err


def test_assignments_as_csv_are_no_formulas(run, fake, write, tmp_path):
    rows = [{"id": "=1+1", "text": "A kettle."}, {"id": "b;@x", "text": "A lamp."}]
    run("index", write(rows))
    run("cluster", "--instruction", PRODUCT, "-k", "2", "--csv", "out.csv")
    found = list(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert found == [["id", "cluster", "label"], ["'=1+1", "1", "kettle"], ["b;'@x", "2", "lamp"]]


def test_maps_are_written(indexed, tmp_path):
    indexed("cluster", "--instruction", PRODUCT, "-k", "2", "--html", "map.html")
    assert "kettle" in (tmp_path / "map.html").read_text()


def test_a_saved_clustering_is_shown_again_with_what_is_new(indexed, write):
    first = indexed("cluster", "--instruction", PRODUCT, "-k", "3", "--save", "mine", "--json").document
    again = indexed("cluster", "--saved", "mine", "--json").document
    assert {key: again[key] for key in KEYS} == first
    indexed("index", write([{"id": "r6", "text": "Another toy."}], "more.jsonl"))
    ran = indexed("cluster", "--saved", "mine")
    assert "1 new document, 0 of which fit no cluster." in ran.err
    assert "  3  toy  2 documents (2 of 6)" in ran.out


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["-k", "many"], 2, "'many' is no number"),
        (["-k", "6"], 2, "6 clusters cannot be made of 5"),
        (["-k", "0"], 2, "0 is not 1 or more"),
        (["--where", "stars > 9"], 1, "No document matches"),
        (["--by", "price"], 2, "No document has a field 'price'"),
        (["--saved", "x"], 1, "no saved clustering 'x'"),
        *(
            (["--saved", "x", name, value], 2, "as they were saved")
            for name, value in {
                "-k": "2",
                "--by": "category",
                "--where": "stars = 1",
                "--save": "",
            }.items()
        ),
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


def test_fewer_clusters_than_were_asked_for_are_explained(run, fake, write):
    rows = [{"id": f"r{row}", "text": f"The {('kettle', 'lamp', 'toy')[row % 3]} broke."} for row in range(30)]
    run("index", write(rows))
    ran = run("cluster", "-k", "20")
    told = "20 clusters were asked for, but there are only 3 different texts: 3 clusters."
    assert ran.out.startswith(told)
    assert run("cluster", "-k", "20", "--json").document["caution"] == told
    assert run("cluster", "-k", "3", "--json").document["caution"] == ""


def test_equal_texts_are_shown_once_with_their_number(run, fake, write):
    run("index", write([{"id": f"r{row}", "text": "The kettle broke."} for row in range(8)]))
    shown = run("search", "kettle").out.splitlines()
    assert shown[2].strip() == "7 more with the same text: r1, r2, r3, r4, r5, ..."
    assert len(shown) == 3


SENTENCES = [
    {"id": "r1", "text": "The kettle broke at once. I love this lamp very much.", "stars": 2},
    {"id": "r2", "text": "My toy is fine. A kettle came too.", "stars": 5},
    {"id": "r3", "text": "This lamp is too dark. That toy is too loud.", "stars": 1},
]


@pytest.fixture
def divided(run, fake, write):
    """Run commands over an index of sentences."""
    assert run("index", write(SENTENCES), "--units", "sentences").out.startswith("Documents: 3 added")
    return run


def test_a_hit_shows_its_sentence_marked(divided):
    ran = divided("search", "lamp love", "-k", "1")
    assert ran.out.splitlines()[1].strip() == "The kettle broke at once. [I love this lamp very much.]"
    hit = divided("search", "lamp love", "-k", "3", "--json").document["hits"][0]
    assert hit["unit"] == {"id": "r1#2", "number": 2, "start": 26, "end": 53, "text": "I love this lamp very much."}
    assert hit["text"] == SENTENCES[0]["text"]


def test_a_long_review_is_shown_around_its_sentence(run, fake, write):
    filler = "Nothing of note was said here. " * 20
    run("index", write([{"id": "a", "text": f"{filler}The kettle broke. {filler}"}]), "--units", "sentences")
    shown = run("search", "kettle broke").out.splitlines()[1].strip()
    assert "said here. [The kettle broke.] Nothing of note" in shown
    assert shown.startswith("...")
    assert shown.endswith("...")
    assert len(shown) < 260


def test_status_tells_the_sentences(divided):
    assert (
        divided("status").out.splitlines()[0].split(": ")[1].startswith("3 documents in 6 sentences, 6 distinct texts")
    )
    document = divided("status", "--json").document
    assert (document["units"], document["unit_count"], document["documents"]) == ("sentences", 6, 3)


def test_a_document_has_a_part_in_the_groups_of_its_sentences(divided):
    document = divided("cluster", "--instruction", PRODUCT, "-k", "3", "--json").document
    assert (document["documents"], document["units"]) == (3, 6)
    assert [(one["label"], one["size"], one["documents"]) for one in document["clusters"]] == [
        ("kettle", 2, 2), ("lamp", 2, 2), ("toy", 2, 2)
    ]  # fmt: skip


def test_a_table_of_sentences_names_their_documents(divided, tmp_path):
    divided("cluster", "--instruction", PRODUCT, "-k", "3", "--csv", "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(one["id"], one["document"], one["label"]) for one in rows][:2] == [
        ("r1#1", "r1", "kettle"), ("r1#2", "r1", "lamp")
    ]  # fmt: skip
