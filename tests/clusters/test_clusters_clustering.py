import json
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from index_fakes import FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, add_to_base, documents

from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.material import read_material
from retriever.clusters.placing import Centroids
from retriever.clusters.saved import extended, kept
from retriever.core.errors import EncoderMismatchError, FilterError, IndexDamagedError, InputError, UsageError
from retriever.core.types import Document
from retriever.index import completing
from retriever.index.completing import complete
from retriever.index.reembedding import reembed
from retriever.workspace import Index

PRODUCTS, MOODS = KEYWORDS[PRODUCT][:3], KEYWORDS[MOOD][:4]
CORPUS = [
    Document(
        f"{product}-{mood}-{number}",
        f"the {product} and {mood} {'x' * number}",
        {"stars": 1 + MOODS.index(mood), "when": f"2024-0{1 + number}-09", "shop": {"town": product[0]}},
    )
    for product in PRODUCTS
    for mood in MOODS
    for number in range(4)
]


@pytest.fixture
def full(index):
    index.add(CORPUS)
    return index


def parts(found, place):
    """The part of the ids in every cluster: product (0) or mood (1)."""
    sets = [set() for _ in found.clusters]
    for id, number in found.assignments.items():
        sets[number].add(id.split("-")[place])
    return sets


def test_each_instruction_recovers_its_own_factor(full):
    by_product, by_mood = full.cluster(PRODUCT), full.cluster(MOOD)
    assert sorted(map(sorted, parts(by_product, 0))) == sorted([one] for one in PRODUCTS)
    assert sorted(map(sorted, parts(by_mood, 1))) == sorted([one] for one in MOODS)
    assert [cluster.keywords for cluster in by_mood.clusters] == [[one] for one in map(min, parts(by_mood, 1))]
    assert by_product.choice.k == 3
    silhouettes = {tried.k: tried.silhouette for tried in by_product.choice.curve}
    assert silhouettes[3] == pytest.approx(1, abs=1e-3)


def test_names_are_what_the_model_answered_and_what_the_texts_say_stands_beside(full):
    found = full.cluster(MOOD, k=4)
    for cluster, moods in zip(found.clusters, parts(found, 1), strict=True):
        assert [cluster.label] == list(moods) == list(cluster.keywords)
        assert cluster.text_keywords[0] in moods
        assert set(cluster.text_keywords[1:]) <= {*PRODUCTS, "xx", "xxx"}
        assert cluster.sentence.startswith("the ")


def test_examples_are_central_and_measures_those_of_the_cluster(full):
    found = full.cluster(PRODUCT, k=3)
    first = found.clusters[0]
    assert (first.number, first.size) == (0, 16)
    assert first.cohesion == pytest.approx(1, abs=1e-3)
    assert first.margin > 0.2
    assert len({found.documents[id].text for id in first.examples}) == 3


def test_fields_are_counted_in_every_cluster(full):
    found = full.cluster(PRODUCT, k=3, by=["stars", "shop.town"])
    for cluster, products in zip(found.clusters, parts(found, 0), strict=True):
        assert cluster.spreads["stars"].counts == {"1": 4, "2": 4, "3": 4, "4": 4}
        assert cluster.spreads["stars"].entropy == 1
        assert cluster.spreads["shop.town"].counts == {min(products)[0]: 16}
        assert cluster.spreads["shop.town"].entropy == 0


def test_the_last_part_of_a_field_is_enough_where_it_is_unique(full):
    found = full.cluster(PRODUCT, k=3, by=["town"])
    assert found.to_json()["clusters"] == [
        {**one, "by": {"town": one["by"]["shop.town"]}}
        for one in full.cluster(PRODUCT, k=3, by=["shop.town"]).to_json()["clusters"]
    ]
    full.add([Document("other", "a toy", {"maker": {"town": "x"}, "a.b": "2024-05-01"})])
    with pytest.raises(FilterError, match="The field 'town' is ambiguous") as caught:
        full.cluster(PRODUCT, k=3, by=["town"])
    assert caught.value.hint == "Write one of: maker.town, shop.town."
    spreads = [one.spreads["a.b"].counts for one in full.cluster(PRODUCT, k=3, by=["a.b"]).clusters]
    assert sum(counts.get("2024-05-01", 0) for counts in spreads) == 1


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_filter_is_none(full, blank):
    found = full.cluster(MOOD, k=4, where=blank)
    assert (found.request.where, len(found.assignments)) == (None, len(CORPUS))
    assert not full.views()[1].lazy
    assert len(full.upkeep.lacking([MOOD], where=blank)) == 0
    full.add([Document("new", "the toy and mad")])
    full.upkeep.complete([MOOD], where=blank)
    assert full.views()[1].coverage == 1
    assert full.search("toy", where=blank, mode="dense").hits == full.search("toy", mode="dense").hits
    assert full.search(like="new", where=blank).hits == full.search(like="new").hits


def test_values_that_are_missing_or_rare_are_counted_together(index):
    index.add([Document(f"d{i:03}", f"toy {i}", {"n": i} if i else {}) for i in range(40)])
    (cluster,) = index.cluster(k=1, by=["n"]).clusters
    counts = cluster.spreads["n"].counts
    assert next(iter(counts.items())) == ("(others)", 20)
    assert sum(counts.values()) == 40


def test_a_view_is_completed_once_and_then_only_read(full, encoder):
    encoder.forget()
    full.cluster(MOOD, k=4)
    assert len(encoder.read) == len(CORPUS)
    runs = full.status().runs
    assert runs[0]["command"] == "complete"
    encoder.forget()
    full.cluster(MOOD, k=2)
    assert encoder.read == []
    assert full.status().runs == runs
    add_to_base(full, [Document("new", "the toy and mad")])
    encoder.forget()
    assert "new" in full.cluster(MOOD, k=2).assignments
    assert encoder.read == [("the toy and mad", MOOD)]


def test_the_same_request_gives_the_same_json(full):
    first = json.dumps(full.cluster(MOOD, by=["stars"]).to_json())
    assert first == json.dumps(full.cluster(MOOD, by=["stars"]).to_json())
    document = json.loads(first)
    assert list(document["assignments"]) == sorted(document["assignments"])
    assert document["k"] == 4
    assert {one["k"] for one in document["chosen"]["curve"]} == {2, 3, 4}
    assert document["clusters"][0]["by"]["stars"]["entropy"] == 0


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"k": 0}, UsageError, "0 clusters"),
        ({"k": 49}, UsageError, "49 clusters cannot be made of 48"),
        ({"k": 13, "where": "stars = 1"}, UsageError, "13 clusters cannot be made of 12"),
        ({"by": ["price"]}, UsageError, "No document has a field 'price'"),
        ({"where": "price > 9"}, FilterError, "price"),
        ({"where": "stars > 9"}, InputError, "No document matches"),
        ({"where": "stars = 1", "ids": ["unknown"]}, InputError, "No document matches"),
        ({"ids": []}, InputError, "No document matches"),
    ],
    ids=str,
)
def test_what_cannot_be_clustered_says_why_before_anything_is_embedded(full, encoder, options, error, says):
    encoder.forget()
    with pytest.raises(error, match=says):
        full.cluster(MOOD, **options)
    assert encoder.calls == []
    assert [view.instruction for view in full.views()] == [""]
    assert full.status().runs[0]["command"] == "index"


def test_a_filter_that_matches_nothing_leaves_no_view(full):
    with pytest.raises(InputError, match="No document matches"):
        full.upkeep.complete([MOOD], where="stars > 9")
    assert len(full.upkeep.lacking([MOOD], where="stars > 9")) == 0
    assert [view.instruction for view in full.views()] == [""]
    full.upkeep.complete([MOOD])
    full.upkeep.complete([MOOD], where="stars > 9")


def test_an_instruction_of_an_empty_index_leaves_no_view(index):
    index.add([])
    with pytest.raises(InputError, match=r"The index holds no documents.*retriever index"):
        index.upkeep.complete(["never read"])
    assert [view.instruction for view in index.views()] == [""]


def test_several_instructions_are_read_in_one_pass_and_only_what_the_filter_accepts(full, encoder, monkeypatch):
    monkeypatch.setattr(completing, "wants_judging", lambda store, view: False)  # for which a sample of all is read
    encoder.forget()
    found = full.clusterings.each([MOOD, FAULT], k=2, where="stars = 1")
    assert [one.request.instruction for one in found] == [MOOD, FAULT]
    accepted = sorted(one.text for one in CORPUS if one.metadata["stars"] == 1)
    assert sorted(encoder.read) == sorted((text, each) for text in accepted for each in (MOOD, FAULT))
    assert found[1].assignments.keys() == found[0].assignments.keys()
    assert len(found[0].assignments) == len(accepted)


def test_one_document_and_equal_texts_are_one_cluster(index):
    index.add(documents("toy"))
    assert index.cluster().assignments == {"a": 0}
    index.add(documents("toy", "toy", "toy"))
    assert index.cluster().assignments == {"a": 0, "b": 0, "c": 0}
    assert index.cluster(k=2).assignments == {"a": 0, "b": 0, "c": 0}


@pytest.fixture
def saved(full):
    full.clusterings.save("products", full.cluster(PRODUCT, k=3))
    return full


def test_a_saved_clustering_is_what_it_was(saved):
    before = saved.cluster(PRODUCT, k=3).to_json()
    again = saved.clusterings.get("products").to_json()
    assert {key: again[key] for key in before} == before
    assert (again["saved"]["name"], again["new"], again["fits_none"]) == ("products", [], [])


def test_counts_of_fields_are_of_the_documents_that_a_saved_clustering_has_now(full):
    full.clusterings.save("counted", full.cluster(PRODUCT, k=3, by=["stars", "town"]))
    texts = {"new": f"a {PRODUCTS[0]} that is new", "odd": "nothing of that"}
    full.add([Document(id, text, {"stars": 9}) for id, text in texts.items()])
    full.delete([CORPUS[0].id])
    found = full.clusterings.get("counted")
    assert found.fits_none == ["odd"]
    for cluster in found.clusters:
        for field in ("stars", "town"):
            assert sum(cluster.spreads[field].counts.values()) == cluster.size
    assert [cluster.label for cluster in found.clusters if "9" in cluster.spreads["stars"].counts] == [PRODUCTS[0]]
    edited = full.clusterings.edit("counted", ClusterEdits(merge=[["1", "2"]]))
    counts = [sum(cluster.spreads["town"].counts.values()) for cluster in edited.clusters]
    assert counts == [cluster.size for cluster in edited.clusters]
    full.clusterings.undo("counted")
    assert full.clusterings.get("counted").clusters == found.clusters
    full.add([Document(document.id, document.text, {"stars": 1}) for document in full.documents()])
    assert {tuple(cluster.spreads) for cluster in full.clusterings.get("counted").clusters} == {("stars",)}


def test_new_documents_are_put_without_moving_the_old(saved):
    before = saved.clusterings.get("products").assignments
    home = {id.split("-")[0]: number for id, number in before.items()}
    toy = next(id for id in before if id.startswith("toy"))
    lamps = [Document(f"new-{number}", f"a lamp {'y' * number}") for number in range(30)]
    saved.add([*lamps, Document("odd", "a mug and a pan and a rug"), Document(toy, "now a kettle")])
    again = saved.clusterings.get("products")
    assert {id: number for id, number in again.assignments.items() if id in before and id != toy} == {
        id: number for id, number in before.items() if id != toy
    }
    assert {again.assignments[one.id] for one in lamps} == {home["lamp"]}
    assert again.assignments[toy] == home["kettle"]
    assert again.assignments["odd"] == -1
    assert set(again.new) == {"odd", toy, *(one.id for one in lamps)}
    document = again.to_json()
    assert document["fits_none"] == ["odd"]
    assert sum(cluster["size"] for cluster in document["clusters"]) == len(before) + 30


def test_a_clustering_saved_under_a_filter_reads_nothing_outside_of_it(full, encoder):
    full.clusterings.save("unloved", full.cluster(MOOD, k=2, where="stars <= 2"))
    full.add([Document("in", "the toy and hate y", {"stars": 2}), Document("out", "the toy and sad y", {"stars": 4})])
    encoder.forget()
    again = full.clusterings.get("unloved")
    assert encoder.read == [("the toy and hate y", MOOD)]
    assert again.new == ["in"]


def test_a_new_document_with_the_text_of_an_old_one_joins_it(saved):
    old = CORPUS[5]
    saved.add([Document("again", old.text)])
    stored = kept(saved._opened.store, saved._opened.store.clusterings.get("products"))
    unreachable = replace(stored, placing=replace(stored.placing, floors=np.full(3, 2.0)))
    material = read_material(saved._opened.store, complete(saved._opened, [PRODUCT])[0])
    places, new = extended(saved._opened, unreachable, material)
    assert new == ["again"]
    assert places["again"] == places[old.id]


@pytest.mark.parametrize(("above", "fits"), [(5e-5, True), (3e-4, False)])
def test_the_floor_of_a_saved_clustering_has_a_tolerance(saved, above, fits):
    new = Document("new", "the toy and a clock")
    saved.add([new])
    material = read_material(saved._opened.store, complete(saved._opened, [PRODUCT])[0], ids=frozenset([new.id]))
    stored = kept(saved._opened.store, saved._opened.store.clusterings.get("products"))
    nearest = float((stored.placing.vectors @ material.vectors[0]).max())
    floors = np.full(3, nearest + above)
    moved = replace(stored, placing=replace(stored.placing, floors=floors))
    places, _ = extended(saved._opened, moved, material)
    assert (places["new"] != (-1,)) == fits


def test_a_small_cluster_has_its_floor_three_deviations_below_the_mean(index):
    toys = [f"toy{' clock' * (row % 6 == 0)}{' x' * row}" for row in range(120)]
    index.add([Document(f"t{row:03}", text) for row, text in enumerate(toys)])
    index.add([Document(f"l{row:03}", f"lamp{' rug pan sofa' * (row == 0)}{' x' * row}") for row in range(10)])
    found = index.cluster(PRODUCT, k=2)
    index.clusterings.save("both", found)
    large, small = kept(index._opened.store, index._opened.store.clusterings.get("both")).placing.floors
    near = np.einsum("nd,nd->n", found.material.vectors, found.placing.vectors[found.labels])
    cosines = [near[found.labels == number].astype(float) for number in (0, 1)]
    assert [len(one) for one in cosines] == [120, 10]
    assert large == pytest.approx(np.percentile(cosines[0], 1))
    assert small == pytest.approx(cosines[1].mean() - 3 * cosines[1].std())
    assert small < np.percentile(cosines[1], 1)


def test_deleted_documents_leave_a_saved_clustering(saved):
    gone = saved.clusterings.get("products").to_json()["clusters"][0]["examples"][0]
    saved.delete([gone])
    again = saved.clusterings.get("products")
    assert gone not in again.assignments
    examples = [one["examples"] for one in again.to_json()["clusters"]]
    assert [len(one) for one in examples] == [2, 3, 3]
    assert gone not in examples[0]


def test_names_are_given_once_and_unknown_ones_listed(saved):
    with pytest.raises(UsageError, match="There is a clustering 'products' already"):
        saved.clusterings.save("products", saved.cluster(PRODUCT, k=2))
    with pytest.raises(UsageError, match="needs a name"):
        saved.clusterings.save(" ", saved.cluster(PRODUCT, k=2))
    with pytest.raises(InputError, match="no saved clustering 'moods'") as caught:
        saved.clusterings.get("moods")
    assert caught.value.hint == "Saved: products."


@pytest.mark.parametrize(
    ("column", "value"),
    {
        "document": "replace(document, '16', '17')",
        "centroids": "CAST(x'ff' || substr(centroids, 2) AS BLOB)",
        "fingerprint": "'other'",
        "name": "'moods'",
    }.items(),
)
def test_a_damaged_saved_clustering_is_refused(saved, column, value):
    name = "moods" if column == "name" else "products"
    with sqlite3.connect(saved.path / "corpus.sqlite3") as raw:
        raw.execute(f"UPDATE clusterings SET {column} = {value}")
    raw.close()
    with pytest.raises(IndexDamagedError, match=f"'{name}'"):
        saved.clusterings.get(name)
    assert list(saved._opened.store.clusterings.damaged().values()) == [name]


def test_a_saved_clustering_of_another_encoder_is_refused(saved):
    saved.close()
    reembed(saved.path, FakeEncoder("other"))
    with Index(saved.path, encoder=FakeEncoder("other")) as again:
        with pytest.raises(EncoderMismatchError, match="another encoder"):
            again.clusterings.get("products")


def test_chosen_documents_are_clustered_alone_and_only_they_are_read(full, encoder):
    chosen = [document.id for document in CORPUS if document.id.startswith(PRODUCTS[0])]
    before = len(encoder.calls)
    found = full.cluster(MOOD, k=4, ids=[*chosen, "unknown"])
    assert sorted(found.assignments) == sorted(chosen)
    assert sorted(map(sorted, parts(found, 1))) == sorted([one] for one in MOODS)
    view = next(view for view in full.views() if view.instruction == MOOD)
    assert view.vectors == len(chosen)
    assert len(encoder.calls) > before
    calls = len(encoder.calls)
    assert full.cluster(MOOD, k=4, ids=chosen).assignments == found.assignments
    assert len(encoder.calls) == calls
    assert len(full.cluster(MOOD, k=4, ids=chosen, where="stars = 1").assignments) == 4
    assert len(full.upkeep.lacking([MOOD])) == len(CORPUS) - len(chosen)


def test_under_a_filter_only_what_it_accepts_is_read(full):
    full.cluster(MOOD, k=1, where="stars = 1")
    view = next(view for view in full.views() if view.instruction == MOOD)
    assert view.vectors == sum(document.metadata["stars"] == 1 for document in CORPUS)
    assert len(full.upkeep.lacking([MOOD], where="stars = 1")) == 0
    assert len(full.upkeep.lacking(["", MOOD], where="stars <= 2")) == view.vectors


def test_equal_texts_are_documents_of_their_own(index):
    index.add([Document(id, text) for id, text in [("a", "toy"), ("b", "toy"), ("c", "lamp")]])
    found = index.cluster(k=2)
    assert found.assignments == {"a": 0, "b": 0, "c": 1}
    assert [cluster.size for cluster in found.clusters] == [2, 1]
    assert index.cluster(k=1, ids=["b"]).assignments == {"b": 0}


def test_a_clustering_of_chosen_documents_is_not_saved(full):
    with pytest.raises(UsageError, match="chosen documents cannot be saved"):
        full.clusterings.save("some", full.cluster(k=1, ids=["unknown", CORPUS[0].id]))


@pytest.mark.parametrize("asked", [{}, {"where": "stars <= 2"}, {"ids": [one.id for one in CORPUS[:5]]}], ids=str)
def test_a_clustering_holds_until_its_documents_change(full, asked):
    found = full.cluster(PRODUCT, k=2, **asked)
    full.upkeep.complete([MOOD])
    assert full.clusterings.still_holds(found)
    first = CORPUS[0]
    full.add([Document(first.id, first.text, {**first.metadata, "stars": 2})])
    assert not full.clusterings.still_holds(found)
    full.add([first])
    assert full.clusterings.still_holds(found)
    full.delete([first.id])
    assert not full.clusterings.still_holds(found)
    full.add([first])
    full.add([Document("new", "another toy", {"stars": 1})])
    assert full.clusterings.still_holds(found) == ("ids" in asked)


def test_what_was_seen_of_a_saved_clustering_stays_where_it_was_put(saved, monkeypatch):
    saved.add([Document("seen", "toy seen later")])
    before = saved.clusterings.get("products").assignments
    monkeypatch.setattr(Centroids, "place", lambda self, rows, material, base: [(-1,)] * len(rows))
    saved.add([Document("later", "toy later")])
    found = saved.clusterings.get("products")
    assert found.assignments == {**before, "later": -1}
    assert found.new == ["later", "seen"]
    assert "later" not in found.to_json()
