import pytest
from index_fakes import MOOD, PRODUCT, FakeEncoder, documents
from rerank_server import Scorer, reranking

from retriever.core.errors import ConsentError, EncoderError, ReadingLimitError, RetrieverError, UsageError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.encoders import cross_encoder
from retriever.encoders.answers import patience
from retriever.encoders.answers import reranking as endpoint
from retriever.encoders.cross_encoder import CrossEncoderReranker
from retriever.index.asking.limits import ReadingLimits
from retriever.index.indexing import IndexingOptions
from retriever.index.upkeep.archive import export_index, import_index
from retriever.workspace import Index

TEXTS = ["toy", "toy that is the longest text", "toy and lamp", "lamp", "kettle"]
USUAL = ["a", "b", "c", "d", "e"]  # by the vectors: texts with the query's keyword, by id


@pytest.fixture(autouse=True)
def short_waits(own_choices, monkeypatch):
    monkeypatch.setattr(patience, "BACKOFF", (0.001, 0.01))


@pytest.fixture
def make(tmp_path):
    """Give what opens the index of the texts, made at its first call."""
    opened = []

    def index(**options):
        made = Index(tmp_path / "index", encoder=FakeEncoder(), plain="none", **options)
        if not opened:
            made.add(documents(*TEXTS))
        opened.append(made)
        return made

    yield index
    for each in opened:
        each.close()


def search(index, query="toy", **options):
    return index.search(query, mode="dense", **{"k": 5, **options})


@pytest.mark.parametrize("dialect", ["documents", "texts"])
def test_the_first_hits_are_ordered_by_the_scores_of_an_endpoint_in_either_dialect(make, scorer, dialect):
    scorer.dialect = dialect
    result = search(make(), rerank=scorer.name)
    assert list(result.ids) == ["b", "c", "e", "d", "a"]
    assert [hit.rerank_score for hit in result.hits] == [28, 12, 6, 4, 3]
    assert (result.reranked_by, result.rerank_fault) == (scorer.name, None)
    document = result.to_json()
    assert (document["reranked_by"], document["rerank_fault"]) == (scorer.name, None)
    assert [hit["rerank_score"] for hit in document["hits"]] == [28, 12, 6, 4, 3]
    assert set(scorer.paths) == {"/v1/rerank"}
    assert sorted(scorer.read[0]) == sorted(TEXTS)


def test_a_search_without_a_reranker_says_so_and_asks_nobody(make, scorer):
    result = search(make())
    assert (result.reranked_by, result.rerank_fault, result.hits[0].rerank_score) == (None, None, None)
    assert scorer.requests == []


def test_the_dialect_of_a_server_is_found_once(make, scorer):
    scorer.dialect, index = "texts", make()
    search(index, rerank=scorer.name)
    assert ["texts" in request for request in scorer.requests] == [False, True]
    search(index, "lamp", rerank=scorer.name)
    assert ["texts" in request for request in scorer.requests] == [False, True, True]
    scorer.dialect = "documents"  # the server was replaced
    assert search(index, "kettle", rerank=scorer.name).ids[0] == "b"


def test_a_query_and_text_are_scored_once(make, scorer, tmp_path):
    index = make()
    first = search(index, rerank=scorer.name)
    scorer.dies = True
    for again in (index, make()):
        for k in (1, 5):
            result = search(again, k=k, rerank=scorer.name)
            assert list(result.ids) == list(first.ids)[:k]
            assert result.reranked_by == scorer.name
    assert len(scorer.requests) == 1
    assert index.rerankers() == [scorer.name]


def test_another_query_and_another_question_are_scored_anew(make, scorer):
    index = make()
    index.add([], instructions=[MOOD])
    search(index, rerank=scorer.name)
    search(index, "lamp", rerank=scorer.name)
    search(index, rerank=scorer.name, instruction=MOOD)
    assert [request["query"] for request in scorer.requests] == ["toy", "lamp", f"{MOOD} toy"]


def test_of_a_document_whose_text_changed_no_kept_score_is_used(make, scorer):
    index = make()
    search(index, rerank=scorer.name)
    index.add([Document("a", "toy, which is by far the longest text now")])
    result = search(index, rerank=scorer.name)
    assert scorer.read[1:] == [["toy, which is by far the longest text now"]]
    assert (result.ids[0], result.hits[0].rerank_score) == ("a", 41)
    index.add([Document("a", "toy")])
    assert search(index, rerank=scorer.name).hits[-1].rerank_score == 3
    assert scorer.read[2:] == []


def test_scores_go_with_their_texts(make, scorer):
    index = make()
    search(index, rerank=scorer.name)
    index.delete(list("abcde"))
    index.upkeep.repair()
    assert index.rerankers() == []


def test_no_more_hits_are_read_than_the_setting_says_and_the_others_follow(make, scorer):
    index = make(search_options=SearchOptions(reranked=2))
    usual = list(search(index).ids)
    assert usual[:2] == ["a", "b"]
    assert list(search(index, rerank=scorer.name).ids) == ["b", "a", *usual[2:]]
    assert [sorted(read) for read in scorer.read] == [sorted(TEXTS[:2])]
    assert list(search(index, k=1, rerank=scorer.name).ids) == ["b"]


def test_equal_scores_leave_hits_in_their_order(make, scorer):
    scorer.score = lambda query, text: 0.5
    index = make()
    assert search(index, rerank=scorer.name).ids == search(index).ids


REPLIES = {
    "one is missing": lambda usual: {"results": usual["results"][1:]},
    "one comes twice": lambda usual: {"results": [*usual["results"], {**usual["results"][0], "relevance_score": 0}]},
    "one too many": lambda usual: {"results": [*usual["results"], {"index": 5, "relevance_score": 1}]},
    "no numbers": lambda usual: {"results": [{**row, "relevance_score": "high"} for row in usual["results"]]},
    "not finite": lambda usual: {"results": [{**row, "relevance_score": float("nan")} for row in usual["results"]]},
    "no rows": lambda usual: {"results": 5},
    "rows that are none": lambda usual: [1, 2, 3, 4, 5],
    "an error": lambda usual: {"error": {"message": "no such model"}},
    "no JSON": lambda usual: b"scores",
    "a page": lambda usual: b"<!doctype html><html>proxy</html>",
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_wrong_reply_leaves_the_hits_in_their_order_and_the_result_says_why(make, scorer, reply):
    scorer.reply, index = reply, make()
    result = search(index, rerank=scorer.name)
    assert result.ids == search(index).ids
    assert result.reranked_by is None
    assert isinstance(result.rerank_fault, EncoderError)
    assert "127.0.0.1" in result.to_json()["rerank_fault"]
    scorer.reply = None
    assert search(index, rerank=scorer.name).reranked_by == scorer.name


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refused access"), (404, "no rerank endpoint"), (400, "400"), (500, "500")]
)
def test_a_refusal_leaves_the_hits_in_their_order_and_the_result_says_why(make, scorer, status, said):
    scorer.status, index = status, make()
    result = search(index, rerank=scorer.name)
    assert result.ids == search(index).ids
    assert said in str(result.rerank_fault)
    assert "Hits keep their order." in str(result.rerank_fault) or status in (400, 401, 404)


def test_a_slow_endpoint_is_waited_for_no_longer_than_its_limit(make, scorer, monkeypatch):
    monkeypatch.setattr(endpoint, "SECONDS", 0.2)
    scorer.seconds, index = 2, make()
    result = search(index, rerank=scorer.name)
    assert result.ids == search(index).ids
    assert "took longer than" in str(result.rerank_fault)


def test_an_endpoint_that_dies_and_one_that_is_gone_leave_the_hits_in_their_order(make, scorer):
    scorer.dies, index = True, make()
    assert "cannot be reached" in str(search(index, rerank=scorer.name).rerank_fault)
    with reranking(Scorer()) as gone:
        pass
    before = index.teaching.spent.reranked, index.status().sent
    result = search(index, rerank=gone)
    assert result.ids == search(index).ids
    assert "cannot be reached" in str(result.rerank_fault)
    assert (index.teaching.spent.reranked, index.status().sent) == before


def test_a_host_that_nobody_allowed_gets_nothing(make):
    index = make()
    result = search(index, rerank="http:https://scores.example/v1#tiny")
    assert result.ids == search(index).ids
    assert isinstance(result.rerank_fault, ConsentError)
    assert result.rerank_fault.host == "scores.example"
    assert index.teaching.spent.reranked == 0
    assert index.teaching.place("http:https://scores.example/v1#tiny").host == "scores.example"


def test_texts_and_tokens_that_are_sent_count_towards_the_limits(make, scorer):
    index = make(limits=ReadingLimits(texts=5))
    assert search(index, rerank=scorer.name).reranked_by
    assert index.teaching.spent.reranked == 5
    assert index.teaching.spent.tokens > 0
    second = search(index, "lamp", rerank=scorer.name)
    assert isinstance(second.rerank_fault, ReadingLimitError)
    tokens = search(make(limits=ReadingLimits(tokens=3)), "kettle", rerank=scorer.name)
    assert isinstance(tokens.rerank_fault, ReadingLimitError)
    assert len(scorer.requests) == 1


def test_a_long_text_is_sent_from_its_beginning(make, scorer):
    index = make()
    index.add([Document("long", "kettle " * 1000)])
    search(index, rerank=scorer.name)
    (longest,) = [text for text in scorer.read[0] if len(text) > 100]
    assert longest == ("kettle " * 1000)[: 4 * (endpoint.TEXT_TOKENS - 1)]


def test_in_an_index_of_sentences_the_sentence_that_was_found_is_read(tmp_path, scorer):
    with Index(tmp_path / "index", encoder=FakeEncoder(), plain="none") as index:
        texts = [Document("a", "The kettle is fine. The toy broke."), Document("b", "One toy. A lamp and a knife.")]
        index.add(texts, options=IndexingOptions(units="sentences"))
        result = search(index, rerank=scorer.name)
        assert sorted(scorer.read[0]) == ["One toy.", "The toy broke."]
        assert list(result.ids) == ["a", "b"]
        assert index.rerankers() == [scorer.name]


def test_the_final_answer_under_a_question_is_reranked_and_the_first_is_not(make, scorer):
    index = make(search_options=SearchOptions(token_budget=1, rounds=1, prompt_tokens=0))
    request = SearchRequest("toy", instruction=MOOD, k=2, rerank=scorer.name)
    first, *_, last = index.search_progressively(request)
    assert (first.final, first.reranked_by, len(first.hits)) == (False, None, 2)
    assert (last.final, last.reranked_by, last.ids[0]) == (True, scorer.name, "b")
    assert len(scorer.requests) == 1


def test_what_is_stored_is_searched_without_asking(make, scorer):
    index, request = make(), SearchRequest("toy", mode="dense", k=5, rerank=scorer.name)
    for stored in (index.search_stored, index.search_anew):
        assert (stored(request).ids, stored(request).reranked_by) == (search(index).ids, None)
    assert scorer.requests == []
    reranked = index.search("toy", mode="dense", k=5, rerank=scorer.name)
    assert index.search_stored(request).ids == reranked.ids
    assert len(scorer.requests) == 1


def test_several_queries_have_scores_of_their_own(make, scorer):
    scorer.score = lambda query, text: float(query in text)
    requests = [SearchRequest(query, mode="dense", rerank=scorer.name) for query in ("kettle", "and")]
    assert [result.ids[0] for result in make().search_many(requests)] == ["e", "c"]


def test_scores_and_names_of_rerankers_do_not_come_with_an_archive(make, scorer, tmp_path):
    index = make()
    search(index, rerank=scorer.name)
    export_index(index.path, tmp_path / "archive")
    import_index(tmp_path / "archive", tmp_path / "imported")
    with Index(tmp_path / "imported", encoder=FakeEncoder(), plain="none") as imported:
        assert imported.rerankers() == []
        assert search(imported, rerank=scorer.name).reranked_by
    assert len(scorer.requests) == 2


def test_nothing_found_is_reranked_by_nobody(make, scorer):
    result = make().search("zzz", mode="lexical", rerank=scorer.name)
    assert (result.hits, result.rerank_fault, scorer.requests) == ([], None, [])


@pytest.mark.parametrize("name", ["bge", "https://host/v1#m", "http://host/v1#m", "chat:m"])
def test_a_name_of_no_reranker_is_refused(name):
    with pytest.raises(UsageError, match="is no name of a reranker"):
        SearchRequest("toy", rerank=name)


def test_a_reranker_needs_a_query():
    for subject in ({"like": "a"}, {"regex": "toy"}):
        with pytest.raises(UsageError, match="rerank needs a query"):
            SearchRequest(**subject, rerank="st:folder")
    assert SearchRequest("toy", rerank=" ").rerank is None


def test_a_cross_encoder_on_this_machine_orders_the_hits(make, tiny):
    from sentence_transformers import CrossEncoder

    folder, index = tiny("cross-encoder"), make(device="cpu")
    result = search(index, rerank=f"st:{folder}", instruction=PRODUCT)
    alone = CrossEncoder(str(folder), device="cpu").predict([(f"{PRODUCT} toy", text) for text in TEXTS])
    expected = dict(zip(USUAL, map(float, alone), strict=True))
    assert {hit.document.id: hit.rerank_score for hit in result.hits} == pytest.approx(expected, abs=1e-6)
    assert list(result.ids) == sorted(USUAL, key=lambda id: -expected[id])
    assert len(set(expected.values())) == 5
    assert index.teaching.spent.reranked == 0


def test_kept_scores_of_a_cross_encoder_need_no_model_until_its_files_change(make, tiny, tmp_path, monkeypatch):
    import shutil

    folder, index = tmp_path / "model", make(device="cpu")
    shutil.copytree(tiny("cross-encoder"), folder)
    first = search(index, rerank=f"st:{folder}")

    def load(*_):
        raise EncoderError("The model would be loaded.")

    monkeypatch.setattr(cross_encoder, "_load", load)
    assert search(index, rerank=f"st:{folder}").ids == first.ids
    settings = folder / "config.json"
    settings.write_text(settings.read_text() + " ")
    assert "would be loaded" in str(search(index, rerank=f"st:{folder}").rerank_fault)


def test_what_is_no_cross_encoder_is_refused(make, tiny, tmp_path):
    from tiny_models import build_cross_encoder

    index = make(device="cpu")
    for name in ("bert", "sentence", "llama"):
        assert "is no cross-encoder" in str(search(index, rerank=f"st:{tiny(name)}").rerank_fault)
    two = build_cross_encoder(tmp_path / "two", labels=2)
    assert "gives 2 numbers a pair" in str(search(index, rerank=f"st:{two}").rerank_fault)
    gone = search(index, rerank=f"st:{tmp_path / 'gone'}")
    assert (gone.ids, gone.reranked_by) == (search(index).ids, None)
    assert isinstance(gone.rerank_fault, EncoderError)


def test_without_the_package_the_result_names_its_extra(make, tiny, monkeypatch):
    monkeypatch.setattr("retriever.core.registry.find_spec", lambda name: None)
    fault = search(make(), rerank=f"st:{tiny('cross-encoder')}").rerank_fault
    assert isinstance(fault, RetrieverError)
    assert "pip install '.[peers]'" in fault.hint


def test_a_cross_encoder_that_runs_out_of_memory_leaves_the_hits_in_their_order(make, tiny, monkeypatch):
    class Full:
        def predict(self, pairs, **_):
            raise RuntimeError("out of memory")

    monkeypatch.setattr(cross_encoder, "_load", lambda *_: Full())
    result = search(make(device="cpu"), rerank=f"st:{tiny('cross-encoder')}")
    assert "cannot score the texts: out of memory" in str(result.rerank_fault)
    assert len(result.hits) == 5


def test_scores_that_are_no_numbers_are_refused(tiny, monkeypatch):
    class Broken:
        def predict(self, pairs, **_):
            return [float("nan")] * len(pairs)

    monkeypatch.setattr(cross_encoder, "_load", lambda *_: Broken())
    with pytest.raises(EncoderError, match="no numbers"):
        CrossEncoderReranker("st:x", str(tiny("cross-encoder")), device="cpu").score("toy", ["a", "b"])
