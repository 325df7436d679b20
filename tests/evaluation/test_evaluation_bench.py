import numpy as np
import pytest
from embedding_server import EmbeddingModel, serving_embeddings
from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder, documents

from retriever import load_encoder
from retriever.core.protocols import Encoder
from retriever.encoders.answers import places
from retriever.evaluation.run import bench
from retriever.evaluation.run.bench import LEAST_QUERIES, MOST_VIEWS, IndexSearchPath, RememberingEncoder
from retriever.workspace import Index

TEXTS = ["kettle love leaks", "toy hate", "lamp happy slow", "kettle sad"]


def embedded(encoder):
    """Every (text, instruction) that reached the encoder, in order."""
    return [(text, asked) for call in encoder.calls for asked in call.instructions for text in call.texts]


def test_it_is_the_encoder_it_wraps():
    inner = RichEncoder()
    encoder = RememberingEncoder(inner)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.fingerprint) == (inner.dim, inner.fingerprint)
    assert (encoder.spec, encoder.count_tokens(["a b"])) == (inner.spec, [2])


def test_rows_are_the_encoder_s_own_and_embedded_once():
    inner = FakeEncoder()
    encoder = RememberingEncoder(inner)
    for _ in range(2):
        rows = encoder.encode([*TEXTS, TEXTS[0]], instruction=MOOD)
        np.testing.assert_array_equal(rows, inner.vectors([*TEXTS, TEXTS[0]], MOOD))
    assert sorted(embedded(inner)) == sorted((text, MOOD) for text in TEXTS)
    assert encoder.encode([]).shape == (0, inner.dim)


def test_only_what_is_missing_is_embedded_and_in_one_pass():
    inner = FakeEncoder()
    encoder = RememberingEncoder(inner)
    encoder.encode(TEXTS[:2], instruction=MOOD)
    inner.forget()
    mood, fault = encoder.encode_many(TEXTS, [MOOD, FAULT])
    np.testing.assert_array_equal(mood, inner.vectors(TEXTS, MOOD))
    np.testing.assert_array_equal(fault, inner.vectors(TEXTS, FAULT))
    calls = {(tuple(sorted(call.texts)), call.instructions) for call in inner.calls}
    assert calls == {(tuple(sorted(TEXTS[:2])), (FAULT,)), (tuple(sorted(TEXTS[2:])), (MOOD, FAULT))}


def test_the_default_instruction_and_none_are_one_and_blanks_around_it_do_not_count():
    inner = RichEncoder()
    encoder = RememberingEncoder(inner)
    encoder.encode(TEXTS, instruction=PRODUCT)
    inner.forget()
    base, named, padded = encoder.encode_many(TEXTS, ["", PRODUCT, f" {PRODUCT}\n"])
    np.testing.assert_array_equal(base, named)
    np.testing.assert_array_equal(base, padded)
    assert inner.calls == []


def test_progress_counts_texts_and_judges_the_rest_by_their_lengths(monkeypatch):
    monkeypatch.setattr(bench, "CHUNK_TEXTS", 3)
    told = []
    encoder = RememberingEncoder(FakeEncoder(), on_progress=told.append)
    encoder.encode_many(TEXTS, [MOOD, FAULT])
    assert [(one.done, one.total) for one in told] == [(6, 8), (8, 8)]
    longest, rest = sum(map(len, ["kettle love leaks", "lamp happy slow", "kettle sad"])) + 3, len("toy hate") + 1
    assert told[0].left == pytest.approx(told[0].seconds * rest / longest)
    assert told[1].left == 0
    encoder.encode_many(TEXTS, [MOOD, FAULT])
    assert len(told) == 2


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
    monkeypatch.setattr("retriever.evaluation.run.bench.MOST_VIEWS", 1)
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


def test_a_corpus_is_read_once_whatever_is_asked_of_it(search, encoder):
    for mode in ("dense", "lexical", "hybrid", "auto"):
        search(CORPUS, QUERIES, instructions=[""] * 4, mode=mode, k=3)
        search(CORPUS, QUERIES, instructions=[MOOD] * 4, mode=mode, k=3)
    read = [one for one in encoder.read if one[0] in {document.text for document in CORPUS}]
    assert sorted(read) == sorted((one.text, instruction) for one in CORPUS for instruction in ("", MOOD))
    search(CORPUS[:2], QUERIES, instructions=[""] * 4, mode="dense", k=3)
    assert len(encoder.read) > len(read)


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


def test_an_endpoint_that_is_named_to_be_measured_gets_the_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv(places.ALLOW_HTTP, "1")
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))
    model = EmbeddingModel()
    with serving_embeddings(model) as url:
        encoder = RememberingEncoder(load_encoder(f"http:{url}#tiny"))
        with IndexSearchPath(encoder, folder=tmp_path) as search:
            found = search(CORPUS, QUERIES, instructions=["", MOOD, MOOD, FAULT], mode="dense", k=6)
    assert [len(ranking) for ranking in found] == [6] * 4
    assert {*(document.text for document in CORPUS), f"{MOOD} {QUERIES[1]}"} <= set(model.texts)
    assert not (tmp_path / "config").exists()
