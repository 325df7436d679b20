import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_fakes import ALL_WORDS, KEYWORDS, MOOD, PRODUCT, FakeEncoder, documents, found

from retriever.core.errors import EncoderError, InputError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index.generations import IndexType
from retriever.index.search.calibration import USUAL_SPREAD
from retriever.index.search.rounds import Rounds
from retriever.store.database import Store
from retriever.workspace import Index

POINT = SearchOptions().word_weight * USUAL_SPREAD  # what one of BM25 is worth in a view of few vectors

PLAIN = FakeEncoder()
PRODUCTS, MOODS = KEYWORDS[PRODUCT], KEYWORDS[MOOD]


def firsts(corpus, keep=lambda document: True):
    """The first document, by id, of every text."""
    return {one.text: one for one in sorted(filter(keep, corpus), key=lambda one: one.id, reverse=True)}.values()


def oracle(corpus, query, k, instruction="", keep=lambda document: True):
    """Ids and cosines of the k best texts, each of its first document: all compared, sorted in Python."""
    query = PLAIN.vectors([query], instruction)[0]
    scored = [(one.id, float(PLAIN.vectors([one.text], instruction)[0] @ query)) for one in firsts(corpus, keep)]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]


def assert_plain(result, corpus, query, k, instruction="", keep=lambda document: True):
    """The hits are the k best texts, all compared in Python; under an instruction, by what sets them apart."""
    if not instruction:
        assert found(result) == oracle(corpus, query, k, instruction, keep)
        assert [hit.fused for hit in result.hits] == [hit.score for hit in result.hits]
        return
    rows = {one.text: PLAIN.vectors([one.text], instruction)[0] for one in corpus}
    asked = PLAIN.vectors([query], instruction)[0]
    mean = np.mean(list(rows.values()), axis=0) if len(rows) >= 30 else np.zeros_like(asked)
    off = (mean @ mean) * mean
    accepted = [one.id for one in corpus if keep(one)]
    everyone = [id for hit in result.hits for id in (hit.document.id, *hit.equal)]
    assert len(everyone) == len(set(everyone))
    assert set(everyone) <= set(accepted)
    assert len(result.hits) == k or len(everyone) == len(accepted)
    order = {one.id: float(rows[one.text] @ (asked - off)) for one in firsts(corpus, keep)}
    ids = [hit.document.id for hit in result.hits]
    assert len(ids) == len(set(ids))
    assert [order[id] for id in ids] == pytest.approx(sorted(order.values(), reverse=True)[:k], abs=1e-5)
    assert [hit.fused for hit in result.hits] == pytest.approx([order[id] for id in ids], abs=1e-5)
    assert [(-hit.fused, hit.document.id) for hit in result.hits] == sorted(
        (-hit.fused, hit.document.id) for hit in result.hits
    )
    assert [hit.score for hit in result.hits] == [float(rows[hit.document.text] @ asked) for hit in result.hits]


def random_corpus(rng, n):
    """Few distinct texts and ids in no order, so that there are duplicates and ties everywhere."""
    texts = [" ".join(rng.choices(ALL_WORDS, k=rng.randint(1, 6))) for _ in range(max(1, 2 * n // 3))]
    ids = rng.sample([f"{letter}{number}" for letter in "abAB" for number in range(n)], n)
    return [Document(id, rng.choice(texts), {"stars": rng.randint(1, 5), "even": rng.random() < 0.5}) for id in ids]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A corpus of 60 in a generation, a tail and with deleted documents, under two instructions."""
    corpus = random_corpus(random.Random(0), 60)
    late = [Document(f"a0{row}", f"{one.text} lately", one.metadata) for row, one in enumerate(corpus[:3])]
    with Index(tmp_path_factory.mktemp("searched") / "index", encoder=FakeEncoder()) as index:
        index.add(corpus, instructions=[MOOD])
        index.add(late, instructions=[MOOD])
        corpus += late
        gone = {one.id for one in corpus[::9]}
        assert set(index.delete(gone)) == gone
        assert all(view.tail and view.generation for view in index.views())
        yield index, [one for one in corpus if one.id not in gone]


QUERIES = st.lists(st.sampled_from(ALL_WORDS), min_size=1, max_size=6, unique=True).map(" ".join)
ANY_K = st.integers(1, 70)
FILTERS = {
    None: lambda document: True,
    "stars <= 2": lambda document: document.metadata["stars"] <= 2,
    "stars in (1, 5) and not even = true": lambda document: (
        document.metadata["stars"] in (1, 5) and not document.metadata["even"]
    ),
    "stars > 5": lambda document: False,
}


@settings(max_examples=60, deadline=None)
@given(query=QUERIES, k=ANY_K, instruction=st.sampled_from(["", MOOD]), where=st.sampled_from(list(FILTERS)))
def test_a_dense_search_is_the_plain_one(searched, query, k, instruction, where):
    index, corpus = searched
    result = index.search(query, instruction=instruction, k=k, where=where, mode="dense")
    assert_plain(result, corpus, query, k, instruction, FILTERS[where])
    assert result.path == ("complete" if instruction else "base")


@settings(max_examples=25, deadline=None)
@given(query=QUERIES, k=ANY_K, instruction=st.sampled_from(["", MOOD]), where=st.sampled_from(list(FILTERS)))
def test_a_hybrid_search_gives_k_documents_or_all_with_their_true_cosines(searched, query, k, instruction, where):
    index, corpus = searched
    hits = found(index.search(query, instruction=instruction, k=k, where=where, mode="hybrid"))
    everything = dict(oracle(corpus, query, None, instruction, FILTERS[where]))
    assert len(hits) == min(k, len(everything)) == len(dict(hits))
    assert all(everything[id] == score for id, score in hits)


def test_many_ties_beyond_k(index):
    index.add([Document(f"{99 - row:02}", f"toy {row}") for row in range(60)])
    assert [hit.document.id for hit in index.search("toy", k=3, mode="dense").hits] == ["40", "41", "42"]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_deleted_document_is_gone_everywhere_at_once(index, compacted):
    index.add(documents("love this toy", "hate this toy", "love this lamp"), instructions=[MOOD])
    assert index.delete(["a", "unknown"]) == ["a"]
    if compacted:
        assert len(index.upkeep.repair().generations) == 2
    for instruction in ("", MOOD):
        for mode in ("dense", "lexical", "hybrid"):
            result = index.search("love this toy", instruction=instruction, mode=mode)
            assert {hit.document.id for hit in result.hits} == {"b", "c"}
        best = index.search("love this toy", instruction=instruction, k=1, mode="dense")
        assert found(best) == [("c" if instruction else "b", 1)]
    assert [view.vectors for view in index.views()] == [2 if compacted else 3] * 2
    assert index.delete(["a"]) == []


@pytest.mark.parametrize("compacted", [False, True])
def test_a_deleted_text_comes_back(index, encoder, compacted):
    index.add(documents("toy", "lamp"))
    index.delete(["a"])
    if compacted:
        index.upkeep.repair()
    encoder.forget()
    index.add([Document("z", "toy")])
    assert encoder.read == ([("toy", "")] if compacted else [])
    assert found(index.search("toy", mode="dense")) == [("z", 1), ("b", 1 - 2 / 8)]
    assert found(index.search("toy", mode="lexical")) == [("z", None)]


def test_a_tail_of_a_tenth_is_merged_and_a_longer_one_compacted(index):
    corpus = [Document(f"{row:02}", f"{ALL_WORDS[row % 48]} {ALL_WORDS[row * 7 % 48]}") for row in range(46)]
    index.add(corpus[:40])
    first = index.views()[0]
    assert (first.tail, first.factory, first.recall) == (0, "SQfp16", 1.0)
    index.add(corpus[40:44])
    second = index.views()[0]
    assert (second.generation, second.tail) == (first.generation, 4)
    assert found(index.search("kettle toy", k=44, mode="dense")) == oracle(corpus[:44], "kettle toy", 44)
    index.add(corpus[44:45])
    third = index.views()[0]
    assert (third.generation != first.generation, third.tail) == (True, 0)
    assert found(index.search("kettle toy", k=45, mode="dense")) == oracle(corpus[:45], "kettle toy", 45)


def test_one_file_a_view_is_left(index, path):
    for row in range(3):
        index.add([Document(str(row), PRODUCTS[row])], instructions=[MOOD])
        index.upkeep.repair()
        assert len(list(path.rglob("*.faiss"))) == 2
    index.upkeep.repair(IndexType(factory="Flat"))
    assert [view.factory for view in index.views()] == ["Flat", "Flat"]
    assert found(index.search("toy", mode="dense", k=1)) == [("1", 1)]


def test_everything_deleted_and_compacted(index, path):
    index.add(documents("toy", "lamp"), instructions=[MOOD])
    index.delete(["a", "b"])
    for _ in range(2):
        for mode in ("dense", "lexical", "hybrid"):
            assert index.search("toy", instruction=MOOD, mode=mode).hits == []
        index.upkeep.repair()
    assert list(path.rglob("*.faiss")) == []
    index.add(documents("knife"))
    assert found(index.search("knife", mode="dense")) == [("a", 1)]


def test_an_index_without_documents(index):
    index.add([])
    for mode in ("dense", "lexical", "hybrid", "auto"):
        for instruction in ("", MOOD):
            assert index.search("toy", instruction=instruction, mode=mode).hits == []
    assert [view.coverage for view in index.views()][:1] == [1.0]


def test_the_json_of_a_search(index):
    index.add(documents("happy toy", "lamp", stars=4))
    answer = index.search("toy lamp", k=2, mode="dense").to_json()
    assert answer.pop("took_ms") > 0
    assert answer == {
        "schema_version": 1,
        "query": "toy lamp",
        "instruction": "",
        "view": 1,
        "path": "base",
        "mode": "dense",
        "steps": None,
        "hits": [
            {
                "rank": rank,
                "id": id,
                "score": 0.875,
                "fused": 0.875,
                "rerank_score": None,
                "dense_rank": rank,
                "lexical_rank": None,
                "text": text,
                "metadata": {"stars": 4},
                "words": words,
                "percentile": None,
                "unit": None,
                "part": None,
                "equal": {"count": 0, "ids": []},
            }
            for rank, id, text, words in ((1, "a", "happy toy", ["toy"]), (2, "b", "lamp", ["lamp"]))
        ],
        "settling": None,
        "verdict": None,
        "known_answers": None,
        "reader_fault": None,
        "reranked_by": None,
        "rerank_fault": None,
    }


def test_a_lexical_search_has_no_scores_and_needs_no_encoder(index, encoder):
    index.add(documents("toy toy toy", "a toy among many other words", "lamp"))
    encoder.forget()
    result = index.search("toy", instruction=MOOD, mode="lexical")
    assert encoder.calls == []
    assert (result.view, result.path, result.mode) == (None, "base", "lexical")
    assert found(result) == [("a", None), ("b", None)]
    assert result.hits[0].percentile is None
    assert result.hits[0].fused > result.hits[1].fused > 0
    assert [hit["score"] for hit in result.to_json()["hits"]] == [None, None]


def test_hybrid_order_is_the_combination_of_both_scores(index):
    index.add(
        documents("kettle", "kettle lamp", "kettle lamp knife query", "kettle lamp knife drone query query query")
    )
    by_meaning = found(index.search("query", mode="dense"))
    assert by_meaning == [("a", 1 - 1 / 8), ("b", 1 - 2 / 8), ("c", 1 - 3 / 8), ("d", 1 - 4 / 8)]
    by_words = {hit.document.id: hit.fused for hit in index.search("query", mode="lexical").hits}
    assert list(by_words) == ["d", "c"]
    result = index.search("query", mode="hybrid")
    assert found(result) == by_meaning
    places = [(hit.dense_rank, hit.lexical_rank) for hit in result.hits]
    assert places == [(1, None), (2, None), (3, 2), (4, 1)]
    fused = [cosine + POINT * by_words.get(id, 0.0) for id, cosine in by_meaning]
    assert [hit.fused for hit in result.hits] == pytest.approx(fused, abs=1e-6)
    assert (result.view, result.path, result.mode) == (1, "base", "hybrid")


def test_a_rare_word_moves_a_text_further_than_a_common_one(index):
    texts = [f"toy common {'rare' if row == 7 else 'other'} {row}" for row in range(40)]
    index.add(Document(f"d{row:02}", text) for row, text in enumerate(texts))
    assert index.search("toy rare", mode="hybrid").hits[0].document.text == texts[7]
    by_words = {hit.document.id: hit.fused for hit in index.search("toy common rare", k=40, mode="lexical").hits}
    result = index.search("toy common rare", k=40, mode="hybrid")
    spread = result.hits[0].fused - result.hits[0].score
    assert spread > 5 * max(hit.fused - hit.score for hit in result.hits[1:])
    assert len(by_words) == 40


def test_one_common_word_does_not_outweigh_the_vectors(index):
    kinds = ["kettle"] * 20 + ["toy lamp knife"] * 20
    index.add(Document(f"d{row:02}", f"shared {one} {row}") for row, one in enumerate(kinds))
    hits = index.search("toy lamp knife shared", k=20, mode="hybrid").hits
    assert all("toy" in hit.document.text for hit in hits)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_short_hybrid_search_begins_as_the_long_one(index, k):
    index.add(documents("toy", "a toy lamp", "lamp", "lamp lamp knife", "toy lamp knife drone"))
    whole = [(hit.document.id, hit.score, hit.fused) for hit in index.search("toy lamp", mode="hybrid").hits]
    part = index.search("toy lamp", mode="hybrid", k=k)
    assert [(hit.document.id, hit.score, hit.fused) for hit in part.hits] == whole[:k]


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
@pytest.mark.parametrize("instruction", ["", MOOD])
def test_several_queries_answer_as_each_alone(index, encoder, mode, instruction):
    index.add(documents("love toy", "hate lamp", "sad toy lamp"), instructions=[MOOD])
    encoder.forget()
    queries = ["sad", "toy lamp", "nothing", "sad"]
    results = index.search_many([SearchRequest(query, instruction=instruction, k=2, mode=mode) for query in queries])
    assert len(encoder.calls) == (mode != "lexical")
    assert [one.query for one in results] == queries
    for query, result in zip(queries, results, strict=True):
        alone = index.search(query, instruction=instruction, k=2, mode=mode)
        assert (result.hits, result.path, result.view) == (alone.hits, alone.path, alone.view)


def test_like_a_document_but_not_itself(index):
    index.add(
        documents("love toy", "hate toy", "love lamp", "love this toy", "sad knife lamp", stars=2), instructions=[MOOD]
    )
    assert found(index.search(like="a", k=3)) == [("b", 1), ("d", 1), ("c", 1 - 2 / 8)]
    assert found(index.search(like="a", k=3, instruction=MOOD)) == [("c", 1), ("d", 1), ("b", 1 - 2 / 8)]
    for k in (1, 2, 4, 9):
        assert len(index.search(like="e", k=k).hits) == min(k, 4)
    assert found(index.search(like="a", where="stars = 2 and not stars > 2", k=1)) == [("b", 1)]
    assert index.search(like="a").mode == "dense"


def test_like_a_document_that_is_not_there(index):
    index.add(documents("toy"))
    with pytest.raises(InputError, match="no document 'b'"):
        index.search(like="b")
    index.delete(["a"])
    with pytest.raises(InputError, match="no document 'a'"):
        index.search(like="a")


def test_steps_with_an_encoder_that_has_none(index):
    index.add(documents("toy"))
    with pytest.raises(EncoderError, match=r"no steps\. Steps are for GIRCSE"):
        index.search("toy", steps=3, mode="dense")


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid", "auto"])
def test_a_document_that_comes_as_a_search_begins_takes_no_others_place(index, path, monkeypatch, mode):
    index.add(documents("toy sad", "toy"))
    with Index(path, encoder=FakeEncoder()) as other:
        version, added = Store.data_version, []

        def grown(store):
            if not added:
                added.append(other.add([Document("z", "toy hate")]))
            return version(store)

        monkeypatch.setattr(Store, "data_version", grown)
        assert {hit.document.id for hit in index.search("toy", mode=mode, k=5).hits} == {"a", "b", "z"}


def test_a_document_that_comes_while_candidates_are_read_takes_no_others_place(index, path, monkeypatch):
    index.add(documents("toy sad", "toy"))
    read = Rounds._embed
    with Index(path, encoder=FakeEncoder()) as other:

        def grown(*given):
            other.add([Document("z", "toy hate")])
            return read(*given)

        monkeypatch.setattr(Rounds, "_embed", grown)
        result = index.search("toy", instruction=MOOD, k=5)
        assert (result.path, {hit.document.id for hit in result.hits}) == ("complete", {"a", "b", "z"})
