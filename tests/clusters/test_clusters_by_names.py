"""Documents in categories that somebody names, over a real index."""

import json

import numpy as np
import pytest
from index_fakes import MOOD, PRODUCT, FakeEncoder, gives

from retriever.clusters.categories import MOST, Category, read_categories
from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.placing import BASE, FLOOR, GAP, CategoryNames, Fit
from retriever.core.errors import InputError, UsageError
from retriever.core.protocols import EncoderSpec
from retriever.core.types import Document
from retriever.index.reembedding import reembed
from retriever.workspace import Index

TEXTS = ["kettle 1", "kettle 2", "toy 1", "toy 2", "toy kettle", "lamp 1", "pan knife drone"]
NAMES = ["kettle", "toy", "lamp"]


@pytest.fixture
def full(index):
    index.add([Document(f"d{row}", text, {"row": row}) for row, text in enumerate(TEXTS)])
    return index


def test_every_document_goes_to_its_category_or_to_none(full):
    found = full.cluster(PRODUCT, into=NAMES)
    assert found.assignments == {"d0": 0, "d1": 0, "d2": 1, "d3": 1, "d4": 0, "d5": 2, "d6": -1}
    document = found.to_json()
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [("kettle", 3), ("toy", 2), ("lamp", 1)]
    assert document["clusters"][0]["keywords"][0] == "kettle"
    assert document["margins"]["d0"] > document["margins"]["d4"] == 0
    assert "places" not in document


def test_several_apply_where_several_are_asked_for_and_describe_them_all(full):
    found = full.cluster(PRODUCT, into=NAMES, several=True)
    assert set(found.places["d4"]) == {0, 1}
    assert found.places["d0"] == (0,)
    assert found.to_json()["places"] == {"d4": [number + 1 for number in found.places["d4"]]}
    kettle, toy, lamp = found.to_json()["clusters"]
    assert (kettle["size"], toy["size"], lamp["size"]) == (3, 3, 1)
    assert set(kettle["examples"]) == {"d0", "d1", "d4"}
    assert set(toy["examples"]) == {"d2", "d3", "d4"}


def test_a_filter_is_kept_to_and_an_empty_category_is_told(full):
    found = full.cluster(PRODUCT, into=[*NAMES, "shoe"], where="row < 4")
    assert sorted(found.assignments) == ["d0", "d1", "d2", "d3"]
    empty = found.to_json()["clusters"][3]
    assert (empty["label"], empty["size"], empty["examples"], empty["sentence"]) == ("shoe", 0, [], "")
    with pytest.raises(InputError, match="No document matches"):
        full.cluster(PRODUCT, into=NAMES, where="row > 90")


def test_examples_say_what_a_name_does_not(full):
    strange = [Category("xyz", examples=("d2", "d3")), Category("kettle")]
    assert [full.cluster(PRODUCT, into=strange).assignments[id] for id in ("d0", "d2", "d3")] == [1, 0, 0]
    with pytest.raises(InputError, match="no document 'gone'"):
        full.cluster(PRODUCT, into=[Category("a", examples=("gone",)), Category("b")])


def test_a_question_and_two_categories_are_needed_and_no_number(full):
    with pytest.raises(UsageError, match="answers to a question"):
        full.cluster(" ", into=NAMES)
    with pytest.raises(UsageError, match="There is 1 category"):
        full.cluster(PRODUCT, into=["kettle"])
    with pytest.raises(UsageError, match="exclude each other"):
        full.cluster(PRODUCT, into=NAMES, k=3)
    with pytest.raises(UsageError, match="none is named"):
        full.cluster(PRODUCT, several=True)


def test_saved_categories_take_what_comes_later(full):
    full.clusterings.save("products", full.cluster(PRODUCT, into=NAMES))
    full.add([Document("new", "lamp new"), Document("odd", "pan knife drone bike"), Document("same", "toy 1")])
    found = full.clusterings.get("products")
    assert found.new == ["new", "odd", "same"]
    assert [found.assignments[id] for id in found.new] == [2, -1, 1]
    document = found.to_json()
    assert (document["made"], document["several"], document["fits_none"]) == ("names", False, ["odd"])
    assert [one["size"] for one in document["clusters"]] == [3, 3, 2]
    assert not {"texts", "margins", "names", "floors"} & document.keys()


def test_what_was_seen_of_saved_categories_does_not_move_when_others_come(full, monkeypatch):
    full.clusterings.save("products", full.cluster(PRODUCT, into=NAMES))
    full.add([Document("seen", "toy kettle seen")])
    assert full.clusterings.get("products").assignments["seen"] == 0
    full.add([Document("unseen", "toy kettle unseen")])
    full.add([Document(f"many{row:02}", f"kettle {row}") for row in range(10, 70)])
    found = full.clusterings.get("products").assignments
    assert (found["seen"], found["unseen"]) == (0, 0)
    monkeypatch.setattr(CategoryNames, "place", lambda self, rows, material, base: [(2,)] * len(rows))
    full.add([Document("later", "toy later")])
    assert full.clusterings.get("products").assignments == {**found, "later": 2}


def test_categories_that_overlap_are_saved_so(full):
    full.clusterings.save("products", full.cluster(PRODUCT, into=NAMES, several=True))
    full.add([Document("both", "kettle toy new")])
    found = full.clusterings.get("products")
    assert {id: set(one) for id, one in found.to_json()["places"].items()} == {"d4": {1, 2}, "both": {1, 2}}
    found = full.clusterings.edit("products", ClusterEdits(move={"both": "kettle, la", "d4": "toy"}))
    assert found.to_json()["places"] == {"both": [1, 3]}
    merged = full.clusterings.edit("products", ClusterEdits(merge=[["kettle", "lamp"]]))
    assert merged.places["both"] == (0,)


def test_nothing_is_embedded_twice(full, encoder):
    full.cluster(MOOD, into=["love", "hate"])
    read = len(encoder.read)
    full.cluster(MOOD, into=["love", "sad"])
    assert len(encoder.read) == read == 2 * len(TEXTS)


def test_scores_and_reach_by_hand():
    vectors = np.array([[1, 0], [0.6, 0.8]], dtype=np.float32)
    names = np.array([[1, 0], [0, 1]], dtype=np.float32)
    mean = vectors.mean(axis=0)  # (0.8, 0.4); its length is the root of 0.8
    fit = CategoryNames(names, mean).fit(vectors, None)
    half = np.sqrt(0.5)  # the directions are (half, -half) and (-half, half); 0.75 of the mean scores 0.3 half
    assert fit.scores == pytest.approx(np.array([[0.7, -0.7], [-0.5, 0.5]]) * half, abs=1e-6)
    assert fit.reach == pytest.approx(np.array([[1, 0], [0.6, 0.8]]) / np.sqrt(0.8), abs=1e-6)


def test_the_best_is_chosen_and_what_is_nearly_as_good():
    scores = np.array([[0.5, 0.5 - GAP / 2, 0.5 - 2 * GAP], [0.1, 0, 0], [0.3, 0.3, 0]], dtype=np.float32)
    reach = np.array([[1, 1, 1], [FLOOR - 0.01, 1, 1], [FLOOR + 0.01, 0.1, 0]], dtype=np.float32)
    names, fit = np.eye(3, dtype=np.float32), Fit(scores, reach)
    assert CategoryNames(names, names[0], several=False).chosen(fit) == [(0,), (-1,), (0,)]
    assert CategoryNames(names, names[0], several=True).chosen(fit) == [(0, 1), (-1,), (0,)]
    assert fit.margins == pytest.approx([GAP / 2, 0.1, 0], abs=1e-6)


def test_the_base_encoders_part_by_hand():
    vectors, names = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)
    alone = CategoryNames(names, vectors.mean(axis=0)).fit(vectors, None)
    both = CategoryNames(names, vectors.mean(axis=0), base=names[::-1]).fit(vectors, vectors)
    assert both.scores == pytest.approx((1 - BASE) * alone.scores + BASE * np.array([[0, 1], [1, 0]]), abs=1e-6)
    assert both.reach == pytest.approx(alone.reach)


class Blank(FakeEncoder):
    """Sees nothing in any text: all names are equally near."""

    def _row(self, text, keywords):
        return [0.25] * 16


class Short(FakeEncoder):
    """Another base encoder, of fewer coordinates."""

    spec = EncoderSpec("s" * 64, 4, name="short")

    def __init__(self):
        super().__init__("short")

    def vectors(self, texts, instruction=""):
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


@pytest.fixture
def two(path):
    plain = FakeEncoder("plain")
    with Index(path, encoder=Blank("question"), plain=plain) as index:
        index.add([Document("a", "kettle 1"), Document("b", "toy 1"), Document("c", "kettle 2")])
        yield index


def test_where_the_view_tells_nothing_the_plain_reader_decides(two):
    found = two.cluster(PRODUCT, into=["kettle", "toy"])
    assert found.assignments == {"a": 0, "b": 1, "c": 0}
    assert (found.placing.vectors.shape, found.placing.base.shape) == ((2, 16), (2, 16))


def test_documents_that_come_later_are_read_by_both(two):
    two.clusterings.save("products", two.cluster(PRODUCT, into=["kettle", "toy"]))
    two.add([Document("d", "toy 2"), Document("A", "kettle 3")])
    assert {id: two.clusterings.get("products").assignments[id] for id in ("A", "d")} == {"A": 0, "d": 1}


def test_placing_a_document_that_came_later_reads_that_one_alone_of_the_base_view(two, monkeypatch):
    two.clusterings.save("products", two.cluster(PRODUCT, into=["kettle", "toy"]))
    two.add([Document("later", "a toy came later")])
    base, read = two._opened.store.views.find(two._opened.sources.encoders.view_key("")), []
    get = two._opened.store.vectors.get

    def counted(view_id, contents, **options):
        if view_id == base.view_id:
            read.extend(contents)
        return get(view_id, contents, **options)

    monkeypatch.setattr(two._opened.store.vectors, "get", counted)
    assert two.clusterings.get("products").assignments["later"] == 1
    assert len(read) == 1
    assert two.clusterings.get("products").assignments["later"] == 1
    assert len(read) == 1


def test_documents_that_the_base_view_lacks_are_read_by_the_plain_reader(two):
    expected = two.cluster(PRODUCT, into=["kettle", "toy"]).to_json()
    base = two._opened.store.views.find(two._opened.sources.encoders.view_key(""))
    two._opened.store.vectors.remove_oldest(base.view_id, 1)
    assert two.cluster(PRODUCT, into=["kettle", "toy"]).to_json() == expected


def test_saved_categories_are_shown_when_another_plain_reader_came(two, path):
    two.clusterings.save("products", two.cluster(PRODUCT, into=["kettle", "toy"]))
    two.add([Document("seen", "a toy came later")])
    before = two.clusterings.get("products").assignments
    question = two._opened.sources.encoders.question
    reembed(path, plain=Short(), load=gives(lambda: question))
    with Index(path, encoder=question, plain=Short()) as again:
        again.add([Document("unseen", "a kettle")])
        found = again.clusterings.get("products").assignments
    assert {id: found[id] for id in before} == before
    assert found.keys() - before.keys() == {"unseen"}


# Categories as they are typed or read.


def test_names_stand_between_commas():
    assert read_categories(" refund,  late  delivery ") == [Category("refund"), Category("late delivery")]


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_file_holds_names_descriptions_and_examples(tmp_path, suffix):
    rows = ["nothing", {"name": "refund", "description": "wants money back", "examples": ["r1", "r2"]}]
    path = tmp_path / f"categories.{suffix}"
    path.write_text(json.dumps(rows) if suffix == "json" else "\n\n".join(map(json.dumps, rows)))
    found = read_categories(str(path))
    assert found == [Category("nothing"), Category("refund", "wants money back", ("r1", "r2"))]


@pytest.mark.parametrize(
    ("into", "problem"),
    [
        ("refund", "There is 1 category"),
        ("refund,,repair", "A category has no name"),
        ("refund, Refund", "'Refund' is there twice"),
        (",".join(map(str, range(MOST + 1))), f"There are {MOST + 1} categories"),
    ],
)
def test_categories_that_cannot_be_told_apart_are_refused(into, problem):
    with pytest.raises(UsageError, match=problem):
        read_categories(into)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('"a"\n{"name": "b", "colour": "red"}', "line 2: this is no category"),
        ('"a"\n{"name": " "}', "line 2: this is no category"),
        ('"a"\n{"name": "b", "examples": "r1"}', "line 2: this is no category"),
        ('"a"\n{"name": ', "line 2: this is no JSON"),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, place):
    path = tmp_path / "categories.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=place):
        read_categories(str(path))


def test_a_bad_file_is_named(tmp_path):
    path = tmp_path / "categories.json"
    with pytest.raises(InputError, match="cannot be read"):
        read_categories(str(path))
    path.write_text('{"name": "refund"}')
    with pytest.raises(InputError, match="holds no list"):
        read_categories(str(path))
    path.write_bytes(b'["caf\xe9", "bar"]')
    with pytest.raises(InputError, match="is not UTF-8"):
        read_categories(str(path))
