import json

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder, documents

from retriever.core.encoder import EncoderSpec
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document, Encoded
from retriever.evaluation.files import MAMS
from retriever.evaluation.instructed_retrieval import mams
from retriever.evaluation.run.search_path import LEAST_QUERIES, MOST_VIEWS, IndexSearchPath
from retriever.evaluation.suites import Bench
from retriever.workspace import Index

CORPUS = documents(
    "love my kettle leaks", "hate my kettle", "love my toy lamp", "angry toy is slow", "happy phone cable", "sad bike"
)
QUERIES = ["love a kettle", "hate a toy", "sad lamp leaks", "angry bike"]
PLAIN = FakeEncoder()


def expected(query, instruction="", documents_under=""):
    """Every id with its cosine, best first, equal ones by id: a plain comparison with all documents."""
    vectors = PLAIN.vectors([one.text for one in CORPUS], documents_under)
    cosines = (vectors @ PLAIN.vectors([query], instruction)[0]).tolist()
    return sorted(zip((one.id for one in CORPUS), cosines, strict=True), key=lambda pair: (-pair[1], pair[0]))


@pytest.fixture
def encoder():
    return FakeEncoder()


@pytest.fixture
def search(encoder, tmp_path):
    with IndexSearchPath(encoder, folder=tmp_path) as search:
        yield search


def test_without_instructions_the_base_view_is_searched(search):
    found = search(CORPUS, QUERIES, instructions=[""] * 4, mode="dense", k=6)
    assert [list(one) for one in found] == [expected(query) for query in QUERIES]
    (first,) = search(CORPUS, QUERIES[:1], instructions=[""], mode="dense", k=2)
    assert list(first) == expected(QUERIES[0])[:2]


def test_an_instruction_of_many_queries_has_its_view_completed(search, encoder):
    instructions = [MOOD, MOOD, "", MOOD] * 2
    found = search(CORPUS, QUERIES * 2, instructions=instructions, mode="dense", k=6)
    assert [list(one) for one in found] == [
        expected(query, asked, asked) for query, asked in zip(QUERIES * 2, instructions, strict=True)
    ]
    assert {text for text, instruction in encoder.read if instruction == MOOD} >= {one.text for one in CORPUS}


def test_an_instruction_of_few_queries_is_compared_with_the_base_view(search, encoder):
    instructions = [MOOD, FAULT, "", MOOD]
    assert len(QUERIES) < LEAST_QUERIES * 2
    found = search(CORPUS, QUERIES, instructions=instructions, mode="dense", k=6)
    assert [list(one) for one in found] == [
        expected(query, asked) for query, asked in zip(QUERIES, instructions, strict=True)
    ]
    assert {instruction for _, instruction in encoder.read} == {""}


def test_very_many_instructions_are_compared_with_the_base_view_too(search, monkeypatch):
    monkeypatch.setattr("retriever.evaluation.run.search_path.MOST_VIEWS", 1)
    assert MOST_VIEWS > 1
    instructions = [MOOD] * 4 + [FAULT] * 4
    found = search(CORPUS, QUERIES * 2, instructions=instructions, mode="dense", k=6)
    assert list(found[0]) == expected(QUERIES[0], MOOD)


def test_the_path_depends_on_the_call_alone(search):
    """A view that an earlier call completed is not used by one that would not have completed it."""
    alone = search(CORPUS, QUERIES[:1], instructions=[MOOD], mode="dense", k=6)
    search(CORPUS, QUERIES, instructions=[MOOD] * 4, mode="dense", k=6)
    again = search(CORPUS, QUERIES[:1], instructions=[MOOD], mode="dense", k=6)
    assert alone == again == [expected(QUERIES[0], MOOD)]


@pytest.mark.parametrize("mode", ["lexical", "hybrid", "auto", "dense"])
@pytest.mark.parametrize("instruction", ["", MOOD])
def test_every_mode_is_that_of_an_index(search, tmp_path, mode, instruction):
    found = search(CORPUS, QUERIES, instructions=[instruction] * 4, mode=mode, k=3)
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(CORPUS, instructions=[instruction])
        for query, ranking in zip(QUERIES, found, strict=True):
            hits = index.search(query, instruction=instruction, mode=mode, k=3).hits
            assert list(ranking) == [(hit.document.id, hit.fused) for hit in hits]


def test_auto_is_hybrid_under_an_instruction_of_its_own(search):
    auto, hybrid, lexical = (
        search(CORPUS, ["love kettle toy"], instructions=[MOOD], mode=mode, k=2)
        for mode in ("auto", "hybrid", "lexical")
    )
    assert auto == hybrid != lexical


def test_a_corpus_is_read_once_whatever_is_asked_of_it(search, encoder):
    for mode in ("dense", "lexical", "hybrid", "auto"):
        search(CORPUS, QUERIES, instructions=[""] * 4, mode=mode, k=3)
        search(CORPUS, QUERIES, instructions=[MOOD] * 4, mode=mode, k=3)
    read = [one for one in encoder.read if one[0] in {document.text for document in CORPUS}]
    assert sorted(read) == sorted((one.text, instruction) for one in CORPUS for instruction in ("", MOOD))
    search(CORPUS[:2], QUERIES, instructions=[""] * 4, mode="dense", k=3)
    assert len(encoder.read) > len(read)


def test_words_need_no_view(search, encoder):
    search(CORPUS, QUERIES, instructions=[MOOD] * 4, mode="lexical", k=3)
    assert {instruction for _, instruction in encoder.read} == {""}


def test_a_corpus_with_the_same_ids_and_other_texts_is_another(search):
    (before,) = search(CORPUS, ["love kettle"], instructions=[""], mode="dense", k=1)
    turned = [Document(one.id, other.text) for one, other in zip(CORPUS, reversed(CORPUS), strict=True)]
    (after,) = search(turned, ["love kettle"], instructions=[""], mode="dense", k=1)
    assert (before[0][0], after[0][0]) == ("a", "e")


def test_what_an_encoder_offers_besides_is_used(tmp_path):
    with IndexSearchPath(RichEncoder(), folder=tmp_path) as search:
        found = search(CORPUS, QUERIES, instructions=[MOOD, FAULT, PRODUCT, ""], mode="dense", k=6)
        assert [list(one) for one in found] == [
            expected(query, asked) for query, asked in zip(QUERIES, [MOOD, FAULT, "", ""], strict=True)
        ]


def test_nothing_is_left_behind(tmp_path):
    with IndexSearchPath(FakeEncoder(), folder=tmp_path) as search:
        search(CORPUS, QUERIES, instructions=[""] * 4, mode="hybrid", k=3)
        assert list(tmp_path.rglob("corpus.sqlite3"))
    assert list(tmp_path.iterdir()) == []


def test_an_indexing_that_failed_is_done_again(tmp_path):
    encoder = FakeEncoder(fail_at=1)
    with IndexSearchPath(encoder, folder=tmp_path) as search:
        with pytest.raises(RuntimeError, match="fell over"):
            search(CORPUS, QUERIES, instructions=[""] * 4, mode="dense", k=6)
        encoder._fail_at = 0
        found = search(CORPUS, QUERIES, instructions=[""] * 4, mode="dense", k=6)
        assert list(found[0]) == expected(QUERIES[0])


def test_bad_calls_are_refused(search):
    with pytest.raises(UsageError, match="4 queries have 1 instructions"):
        search(CORPUS, QUERIES, instructions=[""], mode="dense", k=3)
    with pytest.raises(InputError, match="Two documents have the id 'a'"):
        search([*CORPUS, CORPUS[0]], QUERIES, instructions=[""] * 4, mode="dense", k=3)


class ServiceEncoder(FakeEncoder):
    """Knows of service and food only; one that obeys takes every review that fits its instruction for a query."""

    spec = EncoderSpec("", 4)

    def __init__(self, *, obeys):
        super().__init__("obeys" if obeys else "blind")
        self._obeys = obeys

    def vectors(self, texts, instruction=""):
        rows = np.zeros((len(texts), 4), dtype=np.float32)
        for row, text in enumerate(texts):
            words = [word for word in ("bad service", "good service", "bad food", "good food") if word in text]
            rows[row, self._place(text, words, instruction)] = 1
        return rows

    def _place(self, text, words, instruction):
        if not self._obeys or not instruction:
            return len(words) % 4
        polarity = "bad" if "complain" in instruction else "good"
        aspect = "service" if "service" in instruction else "food"
        return 0 if not words or f"{polarity} {aspect}" in words else 1

    def _encoded(self, texts, instruction, top):
        return Encoded(self.vectors(texts, instruction), [[] for _ in texts])


@pytest.mark.parametrize("obeys", [True, False])
def test_instructed_retrieval_over_the_real_path(tmp_path, obeys):
    rows = [
        {
            "id": f"{aspect}-{mood}-{number}",
            "text": f"{mood} {aspect} {number}",
            "aspects": [{"aspect": aspect, "polarity": {"bad": "negative", "good": "positive"}[mood]}],
            "split": "test",
        }
        for aspect in ("service", "food")
        for mood in ("bad", "good")
        for number in range(3)
    ]
    (tmp_path / MAMS).write_text("\n".join(map(json.dumps, rows)))
    encoder = ServiceEncoder(obeys=obeys)
    with IndexSearchPath(encoder, folder=tmp_path) as search:
        ndcg, p_mrr = mams(Bench(tmp_path, encoder, search))
    if obeys:
        assert ndcg.value == pytest.approx(100)
        assert p_mrr.value > 50
    else:
        assert ndcg.value < 60
        assert (p_mrr.value, p_mrr.low, p_mrr.high) == (0, 0, 0)
