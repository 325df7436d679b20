import time

import numpy as np
import pytest
from cli_fakes import CORPUS, KEYWORDS, KeywordEncoder

PRODUCT = "Which product is it?"
VIEW = ["view", "instruction", "pooling", "steps", "look_ahead", "dtype", "dim", "vectors", "coverage"]
SEARCH = [
    "schema_version",
    "query",
    "instruction",
    "view",
    "path",
    "mode",
    "steps",
    "hits",
    "took_ms",
    "settling",
    "verdict",
    "known_answers",
    "reader_fault",
    "reranked_by",
    "rerank_fault",
]
HIT = ["rank", "id", "score", "fused", "rerank_score", "dense_rank", "lexical_rank", "text", "unit", "part"]
HIT += ["metadata", "words", "percentile", "equal"]


def ids(ran):
    return [hit["id"] for hit in ran.document["hits"]]


def counts(ran):
    report = ran.document
    return [report[key] for key in ("added", "updated", "unchanged", "deleted", "skipped")]


@pytest.mark.parametrize(
    ("argv", "keys"),
    [
        (
            ["index", "corpus.jsonl"],
            "schema_version read in_hand added updated unchanged deleted skipped truncated embedded tokens seconds "
            "views instructions notes reading truncated_ids verdicts",
        ),
        (["search", "kettle"], " ".join(SEARCH)),
        (["search", "--like", "r1"], " ".join(SEARCH)),
        (["embed", "corpus.jsonl", "-o", "v.npy"], "schema_version texts dim output fingerprint"),
        (["models", "list"], "schema_version encoders backbones"),
        (
            ["status"],
            "schema_version path encoder documents texts size_bytes views runs quarantined lazy vector_index plain "
            "units language unit_count sent fields",
        ),
        (["delete", "r1", "r9"], "schema_version deleted missing"),
        (["repair"], "schema_version rebuilt lost generations"),
        (["views"], "schema_version lazy_limit views"),
    ],
)
def test_json_is_one_document_on_stdout_and_nothing_else(indexed, argv, keys):
    ran = indexed(*argv, "--json")
    assert list(ran.document) == keys.split()
    assert ran.document["schema_version"] == 1
    assert ran.err == ""


def test_index_counts_what_it_did(run, fake, write):
    assert run("index", write(CORPUS)).out.startswith("Documents: 5 added, in ")
    assert run("index", write(CORPUS)).out.startswith("Documents: 5 unchanged, in ")
    again = [*CORPUS[1:4], {**CORPUS[4], "text": "Another toy."}, {"id": "r6", "text": "A lamp."}]
    assert counts(run("index", write(again), "--json")) == [1, 1, 3, 0, 0]
    assert counts(run("index", write(again), "--json", "--sync")) == [0, 0, 5, 1, 0]
    assert run("status", "--json").document["documents"] == 5


def test_index_reads_several_files_other_fields_and_stdin(run, fake, write):
    table = write(b"sku,words\n7,a toy\n8,a lamp\n", "a.csv")
    assert counts(run("index", table, "--id-field", "sku", "--text-field", "words", "--json")) == [2, 0, 0, 0, 0]
    files = [write(CORPUS[:2], "a.jsonl"), write(CORPUS[2:], "b.jsonl")]
    assert counts(run("index", *files, "--json")) == [5, 0, 0, 0, 0]
    ran = run("index", "-", "--json", stdin=b'{"id": "s", "text": "from stdin"}\n')
    assert counts(ran) == [1, 0, 0, 0, 0]
    assert set(ids(run("search", "toy", "--json"))) == {"7", "8", "s", *(row["id"] for row in CORPUS)}


def test_index_fills_a_view_per_instruction(run, fake, write):
    report = run("index", write(CORPUS), "--instruction", PRODUCT, "--instruction", "What mood?", "--json").document
    assert report["embedded"] == {"1": 5, "2": 5, "3": 5}
    views = run("status", "--json").document["views"]
    assert [view["instruction"] for view in views] == ["", PRODUCT, "What mood?"]
    ran = run("search", "a kettle to hate", "--instruction", "What mood?", "--mode", "dense", "--json")
    assert (ids(ran)[0], ran.document["path"]) == ("r3", "complete")


def test_search_json_has_the_documented_keys_and_values(indexed):
    document = indexed("search", "kettle", "-k", "2", "--mode", "dense", "--json").document
    assert list(document) == SEARCH
    assert isinstance(document.pop("took_ms"), float)
    hits = document.pop("hits")
    assert [list(hit) for hit in hits] == [HIT, HIT]
    assert document == {
        "schema_version": 1, "query": "kettle", "instruction": "", "view": 1, "path": "base", "mode": "dense",
        "steps": None, "settling": None, "verdict": None, "known_answers": None, "reader_fault": None,
        "reranked_by": None, "rerank_fault": None,
    }  # fmt: skip
    cosine = pytest.approx(2 / 6**0.5, abs=1e-3)
    assert hits[0] == {
        "rank": 1, "id": "r1", "score": cosine, "fused": cosine, "rerank_score": None, "dense_rank": 1,
        "lexical_rank": None, "text": "The kettle broke.", "unit": None, "part": None,
        "metadata": {"stars": 1, "category": "kitchen"}, "words": ["kettle", "broke"], "percentile": None,
        "equal": {"count": 0, "ids": []},
    }  # fmt: skip
    assert (hits[1]["rank"], hits[1]["id"]) == (2, "r2")


def test_a_lexical_search_has_no_view_and_no_cosine_and_loads_no_encoder(indexed, monkeypatch):
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", None)
    document = indexed("search", "kettle", "--mode", "lexical", "--json").document
    assert (document["view"], document["mode"]) == (None, "lexical")
    assert {hit["id"]: hit["score"] for hit in document["hits"]} == {"r1": None, "r2": None}


def test_search_results_for_people(indexed):
    ran = indexed("search", "kettle", "-k", "2", "--mode", "dense")
    assert ran.out.splitlines() == [
        "  1  r1  [kettle, broke]",
        "     The kettle broke.",
        "  2  r2  [kettle, love]",
        "     I love this kettle.",
    ]
    assert ran.err == "2 hits, by meaning\n"


@pytest.mark.parametrize(
    ("argv", "first_line"),
    [
        (["kettle", "-k", "1", "--mode", "dense"], "1 hit, by meaning"),
        (["kettle", "--mode", "lexical"], "2 hits, by words"),
        (["kettle", "-k", "3", "--mode", "hybrid"], "3 hits, by meaning and words"),
        (["--regex", "kettle|lamp"], "4 hits, by number of matches"),
        (
            ["kettle", "-k", "1", "--instruction", PRODUCT],
            "1 hit, by meaning and words; read under the question: 5 of 5",
        ),
    ],
)
def test_a_search_says_how_hits_were_found_and_how_much_was_read(indexed, argv, first_line):
    assert indexed("search", *argv).err.splitlines()[0] == first_line


def test_a_search_without_hits_says_so(indexed):
    ran = indexed("search", "kettle", "--where", "stars > 5")
    assert (ran.out, ran.err) == ("Nothing found.\n", "")


@pytest.mark.parametrize("options", [(), ("--instruction", PRODUCT), ("--mode", "lexical"), ("--mode", "dense")])
def test_explain_shows_the_score_that_orders_the_hits(indexed, options):
    ask = ("search", "the kettle broke", *options)
    found = indexed(*ask, "--json").document["hits"]
    lines = indexed(*ask, "--explain").out.splitlines()
    rows = [
        (*line.split()[:2], scores.split()[1].rstrip(",")) for line, scores in zip(lines[::3], lines[1::3], strict=True)
    ]
    assert rows == [(str(hit["rank"]), hit["id"], f"{hit['fused']:.3f}") for hit in found]
    scores = [float(score) for _, _, score in rows]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)


def test_queries_from_stdin_give_one_document_with_searches(indexed):
    ran = indexed("search", "-", "-k", "1", "--json", stdin=b"kettle\r\n\n  \nlamp to love\n")
    assert list(ran.document) == ["schema_version", "searches"]
    searches = ran.document["searches"]
    assert [(one["query"], one["hits"][0]["id"]) for one in searches] == [("kettle", "r1"), ("lamp to love", "r4")]
    assert all(list(one) == SEARCH for one in searches)
    assert len(indexed("search", "-", "--json", stdin=b"toy").document["searches"]) == 1


def test_queries_from_stdin_are_named_in_the_answer(indexed):
    lines = indexed("search", "-", "-k", "1", "--mode", "lexical", stdin=b"toy\nlamp\n").out.splitlines()
    assert [lines[0], lines[3]] == ["toy", "lamp"]


LINES = [f"{word} number {i}" for i, word in enumerate(KEYWORDS)]


@pytest.mark.parametrize(("source", "start", "end"), [("lines.txt", "\ufeff", "\r\n"), ("-", "", "\n")])
def test_embed_gives_a_row_per_line_in_order_under_its_instruction(run, fake, write, source, start, end):
    lines = [*LINES, "a kettle\u2028, a\x85lamp\x0b"]  # a newline alone ends a line
    data = (start + end.join(lines)).encode()
    argv = ["embed", write(data, "lines.txt") if source != "-" else "-", "-o", "v.npy", "--instruction", PRODUCT]
    assert run(*argv, stdin=data).out == "Wrote 7 vectors of 7 dimensions to v.npy.\n"
    np.testing.assert_array_equal(np.load("v.npy"), KeywordEncoder().encode(lines, instruction=PRODUCT))


def test_models_list_shows_names_and_what_they_stand_for(run):
    document = run("models", "list", "--json").document
    named = {one["name"]: one["spec"] for one in document["encoders"]}
    assert named["plain"] == "plain:smollm2-135m"
    assert "default" in named
    shown = run("models", "list").out
    assert all(f"{name} " in shown for name in [*named, *(one["name"] for one in document["backbones"])])


def test_models_show_tells_what_an_encoder_is(run, fake):
    document = run("models", "show", "abc", "--json").document
    assert document["schema_version"] == 1
    assert (document["name"], document["fingerprint"], document["dim"]) == ("abc", KeywordEncoder("abc").fingerprint, 7)
    assert f"fingerprint          {KeywordEncoder('abc').fingerprint}\n" in run("models", "show", "abc").out


def test_status_shows_views_runs_and_size(indexed):
    indexed("search", "kettle", "--instruction", PRODUCT)
    document = indexed("status", "--json").document
    assert (document["documents"], document["texts"], document["path"]) == (5, 5, "indexes/default")
    assert document["size_bytes"] > 10_000
    assert list(document["views"][0])[: len(VIEW)] == VIEW
    assert [(view["vectors"], view["coverage"], view["tail"]) for view in document["views"]] == [(5, 1, 0), (5, 1, 5)]
    assert [(one["command"], one["status"]) for one in document["runs"]] == [("index", "finished")]
    shown = indexed("status").out
    assert shown.startswith("indexes/default: 5 documents, 5 distinct texts, ")
    assert PRODUCT in shown


def test_a_deleted_document_is_gone_from_every_view_at_once(indexed):
    indexed("search", "kettle", "--instruction", PRODUCT)
    ran = indexed("delete", "r1", "r9", "r2", "r1")
    assert (ran.code, ran.out, ran.err) == (0, "2 deleted.\n", "Not found: 1 id, such as 'r9'.\n")
    for instruction in ("", PRODUCT):
        assert set(ids(indexed("search", "kettle", "--instruction", instruction, "--json"))) == {"r3", "r4", "r5"}


def test_delete_takes_ids_from_stdin(indexed):
    ran = indexed("delete", "-", "--json", stdin=b"r1\r\n\nr4\nr9\n")
    assert ran.document == {"schema_version": 1, "deleted": ["r1", "r4"], "missing": ["r9"]}
    assert indexed("status", "--json").document["documents"] == 3


def test_repair_frees_deleted_texts_and_rebuilds_every_view(indexed):
    indexed("search", "kettle", "--instruction", PRODUCT)
    indexed("delete", "r1")
    assert len(indexed("repair", "--json").document["generations"]) == 2
    views = indexed("status", "--json").document["views"]
    assert [(view["vectors"], view["tail"]) for view in views] == [(4, 0), (4, 0)]
    ran = indexed("repair", "--factory", "HNSW8,Flat")
    assert ran.out == "indexes/default is intact; 2 vector indexes were built.\n"
    assert {view["factory"] for view in indexed("views", "--json").document["views"]} == {"HNSW8,Flat"}
    assert set(ids(indexed("search", "kettle", "--json"))) == {"r2", "r3", "r4", "r5"}


def test_what_finds_vectors_is_chosen_once_and_shown(run, fake, write):
    assert run("index", write(CORPUS), "--backend", "exact", "--device", "cpu").code == 0
    shown = run("status").out
    assert "Vector indexes are built with exact." in shown
    assert run("status", "--json").document["vector_index"]["backend"] == "exact"
    run("repair", "--backend", "faiss", "--factory", "HNSW8,Flat", "--min-recall", "0.5")
    run("index", write([{"id": f"n{row}", "text": f"toy {row}"} for row in range(9)], "more.jsonl"))
    assert "Vector indexes are built with faiss, factory HNSW8,Flat, recall@10 at least 0.5." in run("status").out
    assert {view["factory"] for view in run("views", "--json").document["views"]} == {"HNSW8,Flat"}


def test_indexing_tells_how_long_all_of_it_took(run, fake, write, monkeypatch):
    monkeypatch.setattr("retriever.index.completing.judge_views", lambda *given: time.sleep(0.6) or {})
    assert not run("index", write(CORPUS)).out.splitlines()[0].endswith(" 0 s.")
