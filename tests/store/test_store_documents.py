import numpy as np
import pytest

from retriever.core.errors import FilterError, InputError
from retriever.core.types import Document, Span
from retriever.store.checking import checked
from retriever.store.filters import parse_filter

STARS = parse_filter("stars <= 2")


def count(store, table):
    return store._db.number(f"SELECT COUNT(*) FROM {table}")


def test_equal_texts_are_stored_once(store, reviews):
    result = store.documents.upsert(reviews)
    assert (result.added, result.updated, result.unchanged) == (3, 0, 0)
    assert result.content_ids[0] == result.content_ids[2] != result.content_ids[1]
    assert count(store, "contents") == store.documents.count_contents() == 2
    assert store.documents.get(["c", "none", "a"]) == {"c": reviews[2], "a": reviews[0]}
    assert len(store.documents) == 3
    assert [store.documents.count_to(most) for most in (1, 3, 9)] == [1, 3, 3]


def test_upsert_tells_what_changed(store, reviews):
    before = store.documents.upsert(reviews).content_ids
    reordered = Document("a", reviews[0].text, {"labels": {"category": "kitchen", "stars": 5}})
    other_type = Document("c", reviews[2].text, {"labels": {"stars": 2.0}})
    new_text = Document("b", "The drone flies again", reviews[1].metadata)
    result = store.documents.upsert([reordered, other_type, new_text, Document("d", "new")])
    assert (result.added, result.updated, result.unchanged) == (1, 2, 1)
    assert result.content_ids[:2] == before[::2]
    assert result.content_ids[2] not in before
    assert store.documents.get(["b"])["b"] == new_text
    assert type(store.documents.get(["c"])["c"].metadata["labels"]["stars"]) is float


def test_the_later_of_two_equal_ids_wins(store):
    result = store.documents.upsert([Document("a", "one"), Document("a", "two")])
    assert (result.added, result.updated) == (1, 1)
    assert store.documents.get(["a"])["a"].text == "two"


def test_an_old_text_is_out_of_sight_after_an_update(store):
    old, new = (store.documents.upsert([Document("a", text)]).content_ids[0] for text in ("old words", "new words"))
    assert store.documents.live_contents().tolist() == [new]
    assert [hit.content_id for hit in store.documents.lexical("old words", 5)] == [new]
    assert store.documents.texts([new, old, 99]) == {new: "new words", old: "old words"}


def test_delete_hides_everywhere_and_returns_what_was_there(store, reviews):
    kettle, drone, _ = store.documents.upsert(reviews).content_ids
    assert store.documents.delete(["b", "zzz", "b", "a"]) == ["b", "a"]
    assert list(store.documents.ids()) == ["c"]
    assert store.documents.live_contents().tolist() == [kettle]
    assert store.documents.expand([drone, kettle]) == {kettle: [reviews[2]]}
    assert store.documents.lexical("drone", 5) == []


def test_delete_absent_keeps_exactly_the_ids_named(store):
    store.documents.upsert([Document(f"d{n}", f"text {n}") for n in range(25_000)])
    assert store.documents.delete_absent({"d3", "d24999", "other"}) == 24_998
    assert list(store.documents.ids()) == ["d24999", "d3"]


def test_expand_sorts_by_id_and_obeys_the_filter(store, reviews):
    kettle, drone, _ = store.documents.upsert(reviews[::-1]).content_ids
    assert store.documents.expand([drone, kettle]) == {kettle: [reviews[0], reviews[2]], drone: [reviews[1]]}
    assert store.documents.expand([drone, kettle], STARS) == {kettle: [reviews[2]], drone: [reviews[1]]}
    assert store.documents.expand([]) == {}


def test_matching_gives_sorted_distinct_contents(store, reviews):
    twin = Document("d", reviews[0].text, {"labels": {"stars": 1}})
    kettle, drone, *_ = store.documents.upsert([*reviews, twin]).content_ids
    found = store.documents.matching(STARS)
    assert found.tolist() == sorted([kettle, drone])
    assert found.dtype == np.int64
    assert store.documents.matching(parse_filter("stars > 5")).tolist() == []
    with pytest.raises(FilterError, match="No document has a field 'star'"):
        store.documents.matching(parse_filter("star = 1"))


def test_content_ids_are_never_reused(store):
    (first,) = store.documents.upsert([Document("a", "one")]).content_ids
    store.documents.delete(["a"])
    assert store.documents.collect_garbage() == 1
    (second,) = store.documents.upsert([Document("a", "two")]).content_ids
    (third,) = store.documents.upsert([Document("b", "one")]).content_ids
    assert first < second < third


def test_garbage_takes_vectors_and_words_with_it(store, view_id):
    ids = store.documents.upsert([Document("a", "keep this"), Document("b", "drop that")]).content_ids
    store.vectors.put(view_id, ids, np.eye(2, dtype=np.float32))
    store.documents.delete(["b"])
    assert store.vectors.count(view_id) == 2
    assert store.documents.collect_garbage() == 1
    assert store.documents.texts(ids) == {ids[0]: "keep this"}
    assert store.vectors.get(view_id, ids).content_ids.tolist() == ids[:1]
    assert store._db.rows("SELECT rowid FROM contents_fts WHERE contents_fts MATCH 'drop OR keep'") == [(ids[0],)]
    assert store.inspection.structure() == []


def test_lexical_orders_by_bm25_then_document(store):
    texts = ["kettle", "kettle and more words here", "nothing", "kettle kettles boiling", "kettle"]
    documents = [Document(str(n), text + " " * n) for n, text in enumerate(texts)]
    ids = store.documents.upsert([*documents, *(Document(f"x{n}", f"filler {n}") for n in range(9))]).content_ids
    hits = store.documents.lexical("Kettles, boiled?", 10)
    assert [hit.content_id for hit in hits] == [ids[3], ids[0], ids[4], ids[1]]
    assert hits[0].score > hits[1].score == hits[2].score > hits[3].score > 0
    assert store.documents.lexical("kettle boil", 2) == hits[:2]
    assert store.documents.lexical("kettle", 0) == []


@pytest.mark.parametrize("condition", [None, "kept = true"])
def test_lexical_ties_at_the_cut_go_by_document(store, condition):
    names = ["k", "c", "x", "a", "m", "b", "z"]
    documents = [Document(name, f"kettle {n}", {"kept": True}) for n, name in enumerate(names)]
    documents += [Document("0", "kettle 0", {"kept": False}), Document("y", "kettle 5", {"kept": True})]
    documents += [Document("w", "kettle kettle", {"kept": True})]
    contents = dict(zip((one.id for one in documents), store.documents.upsert(documents).content_ids, strict=True))
    order = ["w", "0", *"abcmxz"] if condition is None else ["w", *"abckmxz"]  # "0" and "k" have one text
    where = parse_filter(condition) if condition else None
    for k in range(1, 10):
        hits = store.documents.lexical("kettle", k, where)
        assert [hit.content_id for hit in hits] == [contents[id] for id in order[:k]]


def test_lexical_filters_before_it_cuts(store):
    documents = [Document(f"d{n}", f"kettle {'x ' * n}", {"n": n}) for n in range(50)]
    ids = store.documents.upsert(documents).content_ids
    assert [hit.content_id for hit in store.documents.lexical("kettle", 1, parse_filter("n = 49"))] == [ids[49]]


@pytest.mark.parametrize(
    "query",
    [
        *('"', '""""', "*", "^kettle", "-kettle", "kettle*", "a:b:c", "text:kettle", "{kettle}", "(", "+", "\\", "_"),
        *("kettle AND", "NEAR(", "NOT", "OR OR", "'; DROP TABLE", "\0", "\ud800"),
        "kettle " * 10_000,
        " ".join(map(str, range(5000))),
    ],
)
def test_no_query_is_a_syntax_error(store, reviews, query):
    store.documents.upsert(reviews)
    found = [hit.content_id for hit in store.documents.lexical(query, 5)]
    assert found == ([1] if "kettle" in query else [])


def test_stopwords_count_only_when_there_is_nothing_else(store):
    ids = store.documents.upsert([Document("a", "the who"), Document("b", "the kettle")]).content_ids
    assert [hit.content_id for hit in store.documents.lexical("the kettle", 5)] == [ids[1]]
    assert {hit.content_id for hit in store.documents.lexical("The Who", 5)} == set(ids)


def test_a_hyphenated_word_is_a_phrase(store):
    ids = store.documents.upsert([Document("a", "a wi-fi box"), Document("b", "fi before wi")]).content_ids
    assert [hit.content_id for hit in store.documents.lexical("wi-fi", 5)] == [ids[0]]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("", "text"), "empty id"),
        (Document("a\0b", "text"), "NUL"),
        (Document("a", " "), "empty text"),
        (Document("a", "x\0"), "NUL"),
        (Document("a", "\ud800"), "'a' holds a lone surrogate"),
        (Document("\ud800", "a"), "lone surrogate"),
        (Document("a", "b", {"x": float("nan")}), "metadata of document 'a' is not JSON"),
        (Document("a", "b", {"x": "\ud800"}), "metadata of document 'a' is not JSON"),
        (Document("a", "b", {"x": {1, 2}}), "metadata of document 'a' is not JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_id(store, document, message):
    with pytest.raises(InputError, match=message):
        store.documents.upsert([Document("good", "fine"), document])
    assert len(store.documents) == 0


def test_deep_metadata_is_refused(store):
    data = {}
    for _ in range(40):
        data = {"x": data}
    with pytest.raises(InputError, match="nests deeper than 32 levels"):
        store.documents.upsert([Document("a", "b", data)])


def test_odd_ids_are_themselves(store):
    ids = ["a'b", 'a"b', "a\\", "%", "héllo", "😀", "a\nb", "[1]", "null"]
    documents = [Document(id, f"text {id}") for id in ids]
    store.documents.upsert(documents)
    assert list(store.documents.get(ids).values()) == documents
    assert store.documents.get(["null\0x", "a"]) == {}
    assert store.documents.delete(["null\0x"]) == []
    assert store.documents.delete(ids) == ids


def divided(id, text, *, stars=1):
    """Return a document divided at its full stops."""
    ends = [place + 1 for place, letter in enumerate(text) if letter == "."]
    spans = [Span(start, end) for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]
    return checked(Document(id, text, {"stars": stars})).divided(spans)


def rows(store):
    return store._db.rows("SELECT parent, number, text FROM documents JOIN contents USING (content_id) "
                          "WHERE parent IS NOT NULL ORDER BY parent, number")  # fmt: skip


def test_a_divided_document_is_counted_once_and_its_parts_are_embedded(store):
    stored = store.documents.put(
        [divided("a", "One. Two. Three."), divided("b", "Two."), checked(Document("c", "Four."))]
    )
    assert list(stored.embedded) == ["One.", "Two.", "Three.", "Four."]
    assert (len(store.documents), store.documents.count_to(9), store.documents.count_embedded()) == (3, 3, 5)
    assert (store.documents.count_contents(), store.documents.count_texts()) == (4, 3)
    assert list(store.documents.ids()) == [one.id for one in store.documents.accepted()] == ["a", "b", "c"]
    embedded = store.documents.expand(store.documents.live_contents())
    assert [[one.id for one in group] for group in embedded.values()] == [["a#1"], ["a#2", "b#1"], ["a#3"], ["c"]]
    assert store.documents.contents_of(["b", "a#3", "x#1"]).tolist() == [
        stored.embedded[one] for one in ("Two.", "Three.")
    ]
    assert [store.parts.reach(count) for count in (1, 2, 3, 9)] == [1, 4, 5, 11]
    assert store.documents.types.held("$.stars").values == {"integer"}


def test_parts_that_are_no_longer_given_go_and_those_that_stay_are_the_same(store):
    store.documents.put([divided("a", "One. Two. Three."), divided("b", "Two.")])
    assert store.documents.put([divided("a", "One. Two. Three.")]).unchanged == 1
    assert store.documents.put([divided("a", "Two. One.", stars=2)]).updated == 1
    assert rows(store) == [("a", 1, "Two."), ("a", 2, "One."), ("b", 1, "Two.")]
    assert len(store.documents.matching(parse_filter("stars = 2"))) == 2
    store.documents.upsert([Document("a", "Two. One.", {"stars": 2})])
    assert rows(store) == [("b", 1, "Two.")]
    assert store.documents.delete(["b", "b#1"]) == ["b"]
    assert (rows(store), bool(store.parts)) == ([], False)


def test_a_batch_with_a_document_that_cannot_be_stored_leaves_the_parts_as_they_were(store):
    store.documents.put([divided("a", "One. Two.")])
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.documents.put([divided("a", "Three.")])
        raise ZeroDivisionError
    assert [text for *_, text in rows(store)] == ["One.", "Two."]
