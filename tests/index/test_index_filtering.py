"""Filters over answers: which texts they accept, what they say of the others, and where there is nothing to ask for."""

import pytest
from answer_fakes import NAME, FakeReader
from index_fakes import MOOD, PRODUCT, FakeEncoder

from retriever.core.errors import FilterError, InputError
from retriever.core.results import KnownAnswers
from retriever.core.types import Document
from retriever.encoders.answers import loading
from retriever.index.counting import count_documents
from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index

WHO = "What does the customer want?"
READ = {"a": "Refund", "b": "repair", "c": "a refund, and soon", "d": "not said"}
TEXTS = ["toy sad", "lamp sad", "rug sad", "mug calm", "toy calm", "lamp calm"]


@pytest.fixture
def reader(monkeypatch):
    fake = FakeReader(["toy", "lamp"])
    monkeypatch.setattr(loading, "load_answerer", lambda name, fingerprint="": {NAME: fake}[name])
    return fake


@pytest.fixture
def open_index(tmp_path):
    made = []

    def opened(*, backend="faiss", units=None, texts=TEXTS, metadata=lambda row: {"row": row}):
        index = Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain"))
        made.append(index)
        rows = [Document(chr(ord("a") + row), text, metadata(row)) for row, text in enumerate(texts)]
        index.add(rows, options=IndexingOptions(units=units) if units else None)
        return index

    yield opened
    for index in made:
        index.close()


@pytest.fixture
def answered(open_index):
    """An index of six texts, four of them answered by hand."""
    index = open_index()
    index.teaching.give_answers(WHO, READ)
    return index


def ids(index, where, query="sad", **options):
    return sorted(hit.document.id for hit in index.search(query, instruction=WHO, where=where, **options).hits)


@pytest.mark.parametrize(
    ("where", "accepted"),
    [
        ("answer = 'refund'", "a"),
        ("answer = 'REPAIR'", "b"),
        ("@answer = 'refund'", "a"),
        ("answer != 'refund'", "bcd"),
        ("not answer = 'refund'", "bcd"),
        ("answer in ('refund', 'not said')", "ad"),
        ("answer contains 'REFUND'", "ac"),
        ("answer >= 'refund' and answer < 'rf'", "ab"),
        ("answer = 'refund' or row = 5", "a"),
        ("answer contains 'refund' and row > 0", "c"),
        ("not (answer = 'refund' or row = 1)", "cd"),
        ("answer = 'nothing like it'", ""),
    ],
)
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_search_finds_what_has_the_answer_and_no_text_without_one(answered, where, accepted, mode):
    shared = "sad calm"  # a word of every text
    assert ids(answered, where, shared, mode=mode) == list(accepted)


def test_the_result_says_how_many_texts_have_an_answer(answered):
    result = answered.search("sad", instruction=WHO, where="answer = 'refund'")
    assert result.known_answers == KnownAnswers(4, 6)
    assert result.to_json()["known_answers"] == {"answers": 4, "texts": 6}
    assert result.known_answers.sentence == "The filter uses the known answers of 4 of 6 texts."
    assert answered.search("sad", instruction=WHO, where="row = 0").known_answers is None
    answered.add([Document("g", "toy sad", {"row": 9})])  # a text that is there
    answered.delete(["d"])
    assert answered.search("sad", instruction=WHO, where="answer = 'refund'").known_answers == KnownAnswers(3, 5)
    assert ids(answered, "answer = 'refund' and row = 9") == ["g"]


def test_a_correction_goes_before_what_the_model_answers(open_index, reader):
    index = open_index()
    index.teaching.read_by(WHO, NAME)
    index.cluster(WHO, k=2, read="all")
    assert ids(index, "answer = 'toy'") == ["a", "e"]
    index.teaching.give_answers(WHO, {"e": "lamp"})
    assert (ids(index, "answer = 'toy'"), ids(index, "answer = 'lamp'")) == (["a"], ["b", "e", "f"])
    index.teaching.give_answers(WHO, {"e": None})
    assert ids(index, "answer = 'toy'") == ["a", "e"]


def test_answers_that_come_after_a_search_has_settled_are_in_the_next(answered):
    assert ids(answered, "answer contains 'refund'", "toy") == ["a", "c"]
    answered.teaching.give_answers(WHO, {"e": "refund"})
    result = answered.search("toy", instruction=WHO, where="answer contains 'refund'")
    assert {hit.document.id: list(hit.words) for hit in result.hits} == {
        "a": ["Refund"],
        "c": ["a refund, and soon"],
        "e": ["refund"],
    }
    assert result.path == "complete"


def test_a_search_with_a_new_reader_reads_nothing_for_the_filter(open_index, reader):
    index = open_index()
    result = index.search("toy", instruction=WHO, reader=NAME, where="answer = 'toy'")
    assert (result.hits, result.known_answers, reader.asked) == ([], KnownAnswers(0, 6), [])
    index.search("toy", instruction=WHO)
    asked = len(reader.asked)
    assert asked == 6
    assert ids(index, "answer = 'toy'", "toy") == ["a", "e"]
    assert len(reader.asked) == asked


def test_a_field_of_the_documents_goes_before_and_the_answer_has_a_name_of_its_own(open_index):
    index = open_index(metadata=lambda row: {"form": {"answer": "refund" if row > 3 else "no"}})
    index.teaching.give_answers(WHO, READ)
    assert ids(index, "answer = 'refund'") == ids(index, "[answer] = 'refund'") == ["e", "f"]
    assert ids(index, "@answer = 'refund'") == ["a"]
    assert ids(index, "@answer contains 'refund' and answer = 'no'") == ["a", "c"]
    assert index.search("sad", where="answer = 'refund'").known_answers is None


def test_a_field_of_the_reserved_name_stands_in_brackets(open_index):
    index = open_index(metadata=lambda row: {"@answer": "yes" if row == 2 else "no"})
    index.teaching.give_answers(WHO, READ)
    assert ids(index, "[@answer] = 'yes'") == ["c"]
    assert ids(index, "@answer = 'yes'") == []


@pytest.mark.parametrize(
    ("instruction", "where", "says"),
    [
        ("", "answer = 'x'", "An answer is one to an instruction, and there is none."),
        (MOOD, "row = 1 and answer = 'x'", f"Nobody answers '{MOOD}' in words."),
        (WHO, "answer = 5", "An answer is a text."),
        (WHO, "answer in ('x', null)", "An answer is a text."),
        (WHO, "answer has 'x'", "An answer is a text, and no list."),
        (WHO, "answers = 'x'", "No document has a field 'answers'."),
        (WHO, "[answer] = 'x'", "No document has a field 'answer'."),
        (WHO, "@answers = 'x'", "This is not understood."),
    ],
)
def test_an_answer_that_cannot_be_asked_for_is_refused(answered, instruction, where, says):
    with pytest.raises(FilterError) as refused:
        answered.search("sad", instruction=instruction, where=where)
    assert refused.value.message.startswith(says)
    if says.startswith(("An answer is one", "Nobody")):
        assert "--reader chat:MODEL" in refused.value.hint
        with pytest.raises(FilterError) as refused:
            answered.cluster(instruction, k=2, where=where)
        assert refused.value.message.startswith(says)


def test_counts_and_several_instructions_have_no_answer_to_ask_for(answered):
    with pytest.raises(FilterError, match="there is none"):
        count_documents(answered, "answer = 'refund'")
    answered.teaching.give_answers("Who wrote it?", {"a": "somebody"})
    with pytest.raises(FilterError, match="several are compared"):
        answered.clusterings.each([WHO, "Who wrote it?"], where="answer = 'refund'")


def test_clusters_and_categories_are_of_what_the_filter_accepts(answered):
    found = answered.cluster(WHO, k=1, where="answer contains 'refund'")
    assert sorted(found.assignments) == ["a", "c"]
    assert found.to_json()["known_answers"] == {"answers": 4, "texts": 6}
    sorted_ = answered.cluster(WHO, into=["refund", "repair"], where="answer != 'not said'")
    assert sorted(sorted_.assignments) == ["a", "b", "c"]
    with pytest.raises(InputError, match=r"No document matches\. The filter uses the known answers of 4 of 6 texts"):
        answered.cluster(WHO, where="answer = 'nothing like it'")


def test_categories_of_what_a_filter_accepts_send_no_text_again(open_index, reader):
    index = open_index()
    index.teaching.read_by(WHO, NAME)
    index.cluster(WHO, k=2, read="all")
    reader.asked.clear()
    found = index.cluster(WHO, into=["toy", "lights"], where="answer = 'toy'", read="all")
    assert found.assignments == {"a": 0, "e": 0}
    assert reader.asked == []


def test_a_saved_clustering_takes_in_what_is_answered_later_and_keeps_what_its_filter_means(answered):
    answered.clusterings.save("refunds", answered.cluster(WHO, k=1, where="answer contains 'refund'"))
    answered.teaching.give_answers(WHO, {"e": "refund", "c": "repair"})
    answered.add([Document("z", "rug calm", {"answer": "refund"})])
    again = answered.clusterings.get("refunds")
    assert (sorted(again.assignments), again.new) == (["a", "e"], ["e"])
    assert again.request.where.expression == "@answer contains 'refund'"
    assert again.known_answers == KnownAnswers(5, 7)


def test_clusters_hold_until_an_answer_changes_whom_the_filter_accepts(answered):
    found = answered.cluster(WHO, k=1, where="answer contains 'refund'")
    assert answered.clusterings.still_holds(found)
    answered.teaching.give_answers(WHO, {"b": "refund"})
    answered.upkeep.complete([WHO])
    assert not answered.clusterings.still_holds(found)


def test_of_sentences_those_with_the_answer_are_found(open_index):
    index = open_index(units="sentences", texts=["My toy was sad . My lamp was calm .", "My rug was sad ."])
    index.teaching.give_answers(WHO, {"a#1": "refund", "a#2": "repair", "b#1": "refund"})
    hits = index.search("lamp calm", instruction=WHO, where="answer = 'refund'").hits
    assert sorted(hit.unit.id for hit in hits) == ["a#1", "b#1"]
    assert [hit.unit.id for hit in index.search("sad", instruction=WHO, where="answer = 'repair'").hits] == ["a#2"]
    hits = index.search("sad", instruction=WHO, where="answer = 'refund' and row = 0").hits
    assert [hit.unit.id for hit in hits] == ["a#1"]
    assert index.search("sad", instruction=WHO, where="@answer = 'repair'").known_answers == KnownAnswers(3, 3)


def test_an_answer_to_another_instruction_is_none(answered):
    answered.teaching.give_answers(PRODUCT, {"f": "refund"})
    assert ids(answered, "answer = 'refund'") == ["a"]
