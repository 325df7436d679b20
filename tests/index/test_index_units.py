import random

import pytest
from index_fakes import ALL_WORDS, MOOD, FakeEncoder, RichEncoder, documents

from retriever.core.errors import InputError, UsageError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document, Span
from retriever.index.counting import count_documents
from retriever.index.indexing import IndexingOptions
from retriever.index.profiling import profile, read_columns
from retriever.workspace import Index

SENTENCES = IndexingOptions(units="sentences", batch=2)
TEXTS = (
    "My kettle is nice . The lamp was bad .",
    "The lamp was bad . A phone and a sofa came too .",
    "One knife only came .",
)


@pytest.fixture
def divided(index):
    index.add(documents(*TEXTS), options=SENTENCES)
    return index


def units(result):
    return [hit.unit.id for hit in result.hits]


def test_sentences_are_embedded_each_once_and_documents_kept_whole(divided, encoder):
    assert [text for text, _ in encoder.read] == [
        "My kettle is nice .", "The lamp was bad .", "A phone and a sofa came too .", "One knife only came ."
    ]  # fmt: skip
    assert {id: one.text for id, one in divided.get(["a", "b"]).items()} == dict(zip("ab", TEXTS, strict=False))
    assert divided.get(["b#2", "b#3", "z#1"])["b#2"].text == "A phone and a sofa came too ."
    status = divided.status()
    assert (status.documents, status.units, status.unit_count, status.texts) == (3, "sentences", 5, 4)
    assert [(view.vectors, view.coverage) for view in status.views] == [(4, 1.0)]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid", "auto"])
def test_a_hit_is_a_document_with_its_best_sentence(divided, mode):
    hits = divided.search("kettle nice", mode=mode).hits
    assert hits[0].document == Document("a", TEXTS[0])
    unit = hits[0].unit
    assert (unit.id, unit.text, unit.number) == ("a#1", "My kettle is nice .", 1)
    assert len({hit.document.id for hit in hits}) == len(hits)
    for hit in hits:
        span = hit.unit.part.span
        assert hit.document.text[span.start : span.end] == hit.unit.text
    found = divided.search("phone", mode=mode).to_json()["hits"][0]
    assert (found["id"], found["text"]) == ("b", TEXTS[1])
    assert found["unit"] == {
        "id": "b#2", "number": 2, "start": 19, "end": 48, "text": "A phone and a sofa came too ."
    }  # fmt: skip


def test_a_document_found_whole_has_no_unit(index):
    index.add(documents(*TEXTS))
    assert index.search("lamp").to_json()["hits"][0]["unit"] is None
    assert index.status().units == "documents"
    assert index.status().unit_count == 3


def corpus(seed, count=40):
    chance = random.Random(seed)
    rows = []
    for row in range(count):
        sentences = [
            " ".join([*chance.sample(ALL_WORDS, chance.randint(1, 4)), "was it ."]) for _ in range(chance.randint(1, 9))
        ]
        rows.append(Document(f"d{row:02}", " ".join(sentences), {"stars": chance.randint(1, 3)}))
    return rows


@pytest.mark.parametrize("instruction", ["", MOOD])
@pytest.mark.parametrize("where", [None, "stars = 2"])
def test_k_documents_are_found_and_they_are_the_best_ones(index, encoder, instruction, where):
    rows = corpus(1)
    index.add(rows, options=SENTENCES, instructions=[MOOD])
    held = {}
    for row in rows:
        for unit in (found := index._opened.store.documents.get([f"{row.id}#{number}" for number in range(1, 12)])):
            held.setdefault(row.id, []).append(found[unit].text)
    assert sum(map(len, held.values())) == index.status().unit_count > 100
    for query in ("kettle love", "toy lamp sad", "sofa mad phone"):
        vector = encoder.vectors([query], instruction)[0]
        views = index._opened.store.views.all()
        shift = index._opened.views.loaded(next(one for one in views if one.key.instruction == instruction)).shift
        best = {id: max(encoder.vectors(texts, instruction) @ (vector - shift)) for id, texts in held.items()}
        allowed = [row.id for row in rows if where is None or row.metadata["stars"] == 2]
        expected = sorted((float(best[id]) for id in allowed), reverse=True)
        for k in (1, 5, 12, 40):
            hits = index.search(query, instruction=instruction, mode="dense", k=k, where=where).hits
            ids = [hit.document.id for hit in hits]
            assert len(set(ids)) == len(ids) and set(ids) <= set(allowed)
            assert [float(best[id]) for id in ids] == pytest.approx(expected[:k], abs=1e-3)


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_a_document_of_many_sentences_does_not_take_the_place_of_others(index, mode):
    many = " ".join(f"The kettle number{row} is hot ." for row in range(150))
    others = [Document(f"o{row}", f"A kettle of row{row} came . It is blue .") for row in range(5)]
    index.add([Document("many", many), *others], options=SENTENCES)
    assert len(index.search("kettle", mode=mode, k=6).hits) == 6
    assert len(index.search("kettle", mode=mode, k=3).hits) == 3


def test_a_lazy_search_reads_sentences_and_finds_documents(path):
    encoder, plain = FakeEncoder("question"), FakeEncoder("plain")
    with Index(path, encoder=encoder, plain=plain) as index:
        index.add(corpus(2, count=30), options=SENTENCES)
        first, last = index.search_progressively(request("sad", MOOD, k=8))
        assert (first.path, len(first.hits)) == ("base", 8)
        assert (last.path, len(last.hits)) in (("lazy", 8), ("complete", 8))
        assert {text for text, _ in encoder.read} <= {one.text for one in all_units(index)}
        index.upkeep.complete([MOOD])
        complete = index.search("sad", instruction=MOOD, k=8)
        assert complete.path == "complete"
        assert complete.hits[0].document.id == last.hits[0].document.id


def request(query, instruction, k):
    return SearchRequest(query, instruction=instruction, k=k)


def all_units(index):
    groups = index._opened.store.documents.expand(index._opened.store.documents.live_contents())
    return [one for group in groups.values() for one in group]


def test_what_resembles_a_document_or_a_sentence_leaves_the_document_out(divided):
    assert [hit.document.id for hit in divided.search(like="a", k=5).hits] == ["b", "c"]
    like = divided.search(like="a#2", k=5)
    assert units(like) == ["b#1", "c#1"]
    assert like.hits[0].score == 1
    with pytest.raises(InputError, match="no document 'a#3'"):
        divided.search(like="a#3")


def test_deleted_and_changed_documents_leave_no_sentence_behind(divided, encoder):
    divided.delete(["b"])
    assert "b" not in {hit.document.id for hit in divided.search("lamp phone").hits}
    assert divided.status().unit_count == 3
    encoder.forget()
    divided.add([Document("b", TEXTS[1])])
    assert encoder.read == []  # its sentences are still there
    assert units(divided.search("phone", k=1)) == ["b#2"]
    divided.add([Document("b", "The lamp was bad . A rug came .")])
    assert [text for text, _ in encoder.read] == ["A rug came ."]
    assert "b#2" in units(divided.search("rug", k=1))
    assert divided.search("phone", mode="lexical").hits == []
    before = divided._opened.store.size_bytes
    divided.upkeep.repair()
    assert divided._opened.store._db.rows("SELECT COUNT(*) FROM contents") == [
        (6,)
    ]  # three documents and four sentences, of which one is a document
    assert divided._opened.store._db.rows("SELECT COUNT(*) FROM documents WHERE parent IS NOT NULL") == [(5,)]
    assert divided._opened.store.size_bytes <= before
    assert len(divided.search("lamp", k=5).hits) == 3


def test_the_same_command_again_does_nothing_and_sync_deletes(divided, encoder):
    encoder.forget()
    again = divided.add(documents(*TEXTS), options=SENTENCES)
    assert (again.unchanged, encoder.read) == (3, [])
    divided.add(documents(*TEXTS[:1]), options=IndexingOptions(sync=True))
    assert divided.status().unit_count == 2


def test_what_is_embedded_is_settled_with_the_first_document(divided, path, encoder):
    with pytest.raises(UsageError, match="units of this index are sentences"):
        divided.add(documents("x"), options=IndexingOptions(units="documents"))
    with pytest.raises(UsageError, match="Unknown units 'words'"):
        divided.add(documents("x"), options=IndexingOptions(units="words"))
    divided.add([Document("n", "A rug came . A bike too .")])  # remembered
    assert divided.status().unit_count == 7
    with Index(path.with_name("whole"), encoder=encoder) as whole:
        whole.add(documents(*TEXTS))
        with pytest.raises(UsageError, match="another folder"):
            whole.add(documents("x"), options=SENTENCES)
        whole.delete(["a", "b", "c"])
        whole.add(documents(*TEXTS), options=SENTENCES)
        assert whole.status().unit_count == 5
        assert len(whole.search("lamp").hits) == 3


def test_documents_are_counted_not_sentences(divided):
    divided.add([Document("n", "A rug came . A bike too .", {"stars": 2})])
    assert count_documents(divided).documents == 4
    assert count_documents(divided, "stars = 2").documents == 1
    assert count_documents(divided, by="stars").values == {"2": 1}
    found = profile(divided, read_columns(divided))
    assert (found.documents, found.texts, found.duplicates) == (4, 4, 0)


def test_equal_texts_share_units_and_every_document_is_found(divided, encoder):
    encoder.forget()
    divided.add([Document("twin", TEXTS[0], {"stars": 1})])
    assert encoder.read == []
    first = divided.search("kettle", k=2).hits[0]
    assert (first.unit.id, list(first.equal)) == ("a#1", ["twin"])
    assert units(divided.search("kettle", k=5, where="stars = 1")) == ["twin#1"]


def test_a_document_may_have_the_id_of_a_sentence(index):
    index.add(
        [Document("r", "My kettle is nice . The lamp was bad ."), Document("r#1", "A phone came .")], options=SENTENCES
    )
    assert {id: one.text for id, one in index.get(["r#1", "r#2", "r#1#1"]).items()} == {
        "r#1": "A phone came .", "r#2": "The lamp was bad .", "r#1#1": "A phone came ."
    }  # fmt: skip
    found = {query: index.search(query, k=1).hits[0] for query in ("kettle nice", "phone")}
    assert {query: (hit.document.id, hit.unit.id) for query, hit in found.items()} == {
        "kettle nice": ("r", "r#1"), "phone": ("r#1", "r#1#1")
    }  # fmt: skip
    index.add([Document("r#1", "A rug came .")])
    assert index.status().unit_count == 3
    assert index.delete(["r#1"]) == ["r#1"]
    assert (index.status().documents, index.status().unit_count) == (1, 2)
    assert index.get(["r#1"])["r#1"].text == "My kettle is nice ."
    assert index.delete(["r#1"]) == []
    index.add([Document("r#1", "A rug came .")])
    assert index.delete(["r"]) == ["r"]
    assert [hit.document.id for hit in index.search("rug kettle", k=5).hits] == ["r#1"]


def test_sentences_have_the_metadata_of_their_document_as_it_is_now(divided, encoder):
    encoder.forget()
    for stars in (5, 4):
        report = divided.add([Document("a", TEXTS[0], {"stars": stars})])
        assert (report.updated, encoder.read) == (1, [])
        assert units(divided.search("lamp bad", where=f"stars = {stars}")) == ["a#2"]
    assert divided.search("lamp bad", where="stars = 5").hits == []
    assert divided.get(["a#2"])["a#2"].metadata == {"stars": 4}


def test_a_regular_expression_finds_documents_by_their_sentences(divided):
    hits = divided.search(regex="came").hits
    assert [(hit.document.id, hit.unit.id, hit.fused) for hit in hits] == [("b", "b#2", 1.0), ("c", "c#1", 1.0)]
    assert units(divided.search(regex="was", k=1)) == ["a#2"]
    assert [hit.document.text for hit in divided.search(regex="lamp").hits] == list(TEXTS[:2])
    assert units(divided.search("kettle", regex="lamp|sofa", k=5)) == ["a#2", "b#1"]


def test_what_was_divided_once_stays_so_under_other_rules(divided, encoder, monkeypatch):
    monkeypatch.setattr("retriever.corpus.sentences.sentences", lambda text, language: [Span(0, len(text))])
    encoder.forget()
    report = divided.add([*documents(*TEXTS), Document("twin", TEXTS[0]), Document("n", "A rug came . A bike too .")])
    assert (report.unchanged, report.added) == (3, 2)
    assert [text for text, _ in encoder.read] == ["A rug came . A bike too ."]
    assert divided.get(["twin#2"])["twin#2"].text == "The lamp was bad ."
    assert divided.status().unit_count == 8


def test_a_document_that_lost_a_sentence_has_it_again_once_it_is_put(divided, encoder):
    divided._opened.store._db.write("DELETE FROM documents WHERE parent = 'b' AND number = 2")
    encoder.forget()
    assert divided.add(documents(*TEXTS)).updated == 1
    assert (divided.status().unit_count, encoder.read) == (5, [])
    assert divided._opened.store.parts.lacking() == []


def test_long_sentences_are_cut_noted_or_refused(path):
    rows = [Document("a", "My kettle . One two three four five six kettle ."), Document("b", "A toy .")]
    with Index(path, encoder=RichEncoder()) as index:
        report = index.add(rows, options=IndexingOptions(units="sentences"))
        assert (report.truncated, report.truncated_ids) == (1, ["a"])
    with Index(path.with_name("other"), encoder=RichEncoder()) as index:
        report = index.add(rows, options=IndexingOptions(units="sentences", on_long="skip"))
        assert (report.added, report.skipped) == (1, 1)
