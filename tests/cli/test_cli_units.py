import csv

import pytest

PRODUCT = "Which product is it?"
CORPUS = [
    {"id": "r1", "text": "The kettle broke at once. I love this lamp very much.", "stars": 2},
    {"id": "r2", "text": "My toy is fine. A kettle came too.", "stars": 5},
    {"id": "r3", "text": "This lamp is too dark. That toy is too loud.", "stars": 1},
]


@pytest.fixture
def divided(run, fake, write):
    """Run commands over an index of sentences."""
    assert run("index", write(CORPUS), "--units", "sentences").out.startswith("3 added")
    return run


def test_a_hit_shows_its_sentence_marked(divided):
    ran = divided("search", "lamp love", "-k", "1")
    assert ran.out.splitlines()[1].strip() == "The kettle broke at once. [I love this lamp very much.]"
    hit = divided("search", "lamp love", "-k", "3", "--json").document["hits"][0]
    assert hit["unit"] == {"id": "r1#2", "number": 2, "start": 26, "end": 53, "text": "I love this lamp very much."}
    assert hit["text"] == CORPUS[0]["text"]


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


def test_what_an_index_is_made_of_stays(divided, write, run):
    assert divided("index", write(CORPUS)).code == 0
    assert divided("index", write(CORPUS), "--units", "documents").failed_with(2, "sentences", "--index")
    assert divided("index", write(CORPUS), "--units", "words").code == 2


def test_reviews_with_this_topic_and_that_one(divided):
    ask = ["cluster", "--instruction", PRODUCT, "-k", "3", "--save", "products"]
    document = divided(*ask, "--json").document
    assert (document["documents"], document["units"]) == (3, 6)
    assert [(one["label"], one["size"], one["documents"]) for one in document["clusters"]] == [
        ("kettle", 2, 2), ("lamp", 2, 2), ("toy", 2, 2)
    ]  # fmt: skip
    ran = divided("cluster", "--saved", "products", "--having", "kettle and lamp")
    assert ran.out.splitlines() == [
        "r1",
        "     kettle: The kettle broke at once.",
        "     lamp: I love this lamp very much.",
    ]
    assert "1 of 3 documents: kettle and lamp." in ran.err
    found = divided("cluster", "--saved", "products", "--having", "0 or 2 and not 1", "--json").document["having"]
    assert found == {"expression": "0 or 2 and not 1", "clusters": [0, 2], "documents": ["r1", "r2"]}
    assert divided("cluster", "--saved", "products", "--having", "kettel").failed_with(
        2, "no cluster 'kettel'", "0 and not 1"
    )
    assert "2 documents" in divided("cluster", "--saved", "products").out


def test_a_cluster_of_more_sentences_than_reviews_says_so(run, fake, write):
    run("index", write([{"id": "a", "text": "A kettle is here. That kettle is there."}]), "--units", "sentences")
    assert "2 sentences of 1 documents" in run("cluster", "-k", "1").out


def test_a_table_of_sentences_names_their_documents(divided, tmp_path):
    divided("cluster", "--instruction", PRODUCT, "-k", "3", "--csv", "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(one["id"], one["document"], one["label"]) for one in rows][:2] == [
        ("r1#1", "r1", "kettle"), ("r1#2", "r1", "lamp")
    ]  # fmt: skip


def test_documents_that_resemble_one_are_found(divided):
    assert [hit["id"] for hit in divided("search", "--like", "r1", "--json").document["hits"]] != []
    ran = divided("search", "--like", "r1#1", "--json").document
    assert ran["hits"][0]["unit"]["id"] == "r2#2"
    assert "r1" not in [hit["id"] for hit in ran["hits"]]
