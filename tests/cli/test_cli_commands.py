import json
from dataclasses import replace

import numpy as np
import pytest
from cli_fakes import CORPUS, KEYWORDS, KeywordEncoder

PRODUCT = "Which product is it?"
VIEW = ["view", "instruction", "pooling", "steps", "look_ahead", "dtype", "dim", "vectors", "coverage"]
SEARCH = ["schema_version", "query", "instruction", "view", "path", "mode", "steps", "hits", "took_ms", "verdict"]
HIT = ["rank", "id", "score", "fused", "dense_rank", "lexical_rank", "text", "unit", "metadata", "words"]
HIT += ["percentile"]


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
            "views instructions notes truncated_ids verdicts",
        ),
        (["search", "kettle"], " ".join(SEARCH)),
        (["search", "--like", "r1"], " ".join(SEARCH)),
        (["embed", "corpus.jsonl", "-o", "v.npy"], "schema_version texts dim output fingerprint"),
        (["models", "list"], "schema_version encoders backbones"),
        (
            ["status"],
            "schema_version path encoder documents texts size_bytes views runs quarantined lazy vector_index plain "
            "units unit_count",
        ),
        (["delete", "r1", "r9"], "schema_version deleted missing"),
        (["compact"], "schema_version generations"),
        (["views"], "schema_version lazy_limit views"),
    ],
)
def test_json_is_one_document_on_stdout_and_nothing_else(indexed, argv, keys):
    ran = indexed(*argv, "--json")
    assert list(ran.document) == keys.split()
    assert ran.document["schema_version"] == 1
    assert ran.err == ""


def test_index_counts_what_it_did(run, fake, write):
    assert run("index", write(CORPUS)).out.startswith(
        "5 added, 0 updated, 0 unchanged, 0 deleted, 0 skipped; 5 vectors"
    )
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
    assert ids(ran) == ["r3", "r1", "r5", "r2", "r4"]
    # cos((1, 1), (1, 1)), cos((1, 1), (0, 1)), cos((1, 1), (1, 0, 1)) over the moods and the constant
    assert [hit["score"] for hit in ran.document["hits"]] == pytest.approx([1, 0.5**0.5, 0.5**0.5, 0.5, 0.5], abs=1e-3)
    assert [hit["words"] for hit in ran.document["hits"]] == [["hate"], [], [], ["love"], ["love"]]
    assert ran.document["path"] == "complete"


def test_search_json_has_the_documented_keys_and_values(indexed):
    document = indexed("search", "kettle", "-k", "2", "--mode", "dense", "--json").document
    assert list(document) == SEARCH
    assert isinstance(document.pop("took_ms"), float)
    hits = document.pop("hits")
    assert [list(hit) for hit in hits] == [HIT, HIT]
    assert document == {
        "schema_version": 1, "query": "kettle", "instruction": "", "view": 1, "path": "base", "mode": "dense",
        "steps": None, "verdict": None,
    }  # fmt: skip
    cosine = pytest.approx(2 / 6**0.5, abs=1e-3)
    assert hits[0] == {
        "rank": 1, "id": "r1", "score": cosine, "fused": cosine, "dense_rank": 1, "lexical_rank": None,
        "text": "The kettle broke.", "unit": None,
        "metadata": {"stars": 1, "category": "kitchen"}, "words": ["kettle", "broke"], "percentile": None,
    }  # fmt: skip
    assert (hits[1]["rank"], hits[1]["id"]) == (2, "r2")


def test_the_steps_a_query_took_are_told(run, write, monkeypatch):
    class Stepped(KeywordEncoder):
        spec = replace(KeywordEncoder.spec, steps=4)

        def reconfigured(self, **changes):
            other = Stepped()
            other.spec = replace(self.spec, **changes)
            return other

    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda *name, **options: Stepped())
    run("index", write(CORPUS))
    ask = ["search", "kettle", "--mode", "dense"]
    assert run(*ask, "--json").document["steps"] == 4
    assert run(*ask, "--json", "--steps", "2").document["steps"] == 2
    assert "dense search, base view, K = 2, " in run(*ask, "--steps", "2").err
    assert run(*ask, "--json", "--mode", "lexical", "--steps", "2").document["steps"] is None


def test_an_encoder_without_steps_cannot_choose_them(indexed):
    ran = indexed("search", "kettle", "--mode", "dense", "--steps", "2", "--json")
    assert ran.failed_with(1, "no steps.", "--steps is for GIRCSE encoders.")


def test_a_lexical_search_has_no_view_and_no_cosine_and_loads_no_encoder(indexed, monkeypatch):
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", None)
    document = indexed("search", "kettle", "--mode", "lexical", "--json").document
    assert (document["view"], document["mode"]) == (None, "lexical")
    assert {hit["id"]: hit["score"] for hit in document["hits"]} == {"r1": None, "r2": None}


def test_a_new_instruction_is_read_lazily_once_and_then_has_its_view(indexed):
    first = indexed("search", "a kettle", "--instruction", PRODUCT, "--json").document
    assert (first["path"], first["hits"][0]["score"]) == ("complete", pytest.approx(1, abs=1e-3))
    assert indexed("search", "a kettle", "--instruction", PRODUCT, "--json").document["path"] == "complete"


def test_search_results_for_people(indexed):
    ran = indexed("search", "kettle", "-k", "2", "--mode", "dense")
    assert ran.out.splitlines() == [
        "  1  0.816  r1  [kettle, broke]",
        "            The kettle broke.",
        "  2  0.816  r2  [kettle, love]",
        "            I love this kettle.",
    ]
    assert ran.err.startswith("dense search, base view, ")


@pytest.mark.parametrize(
    ("mode", "order"),
    [
        ("dense", "; ordered by vectors, numbers are cosines\n"),
        ("lexical", "; ordered by words\n"),
        ("hybrid", "; ordered by vectors and words together, numbers are cosines\n"),
    ],
)
def test_people_are_told_what_the_order_follows(indexed, mode, order):
    assert indexed("search", "kettle", "--mode", mode).err.endswith(order)
    nothing = indexed("search", "kettle", "--mode", mode, "--where", "stars > 5").err
    assert (nothing.count("ordered"), nothing.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("stars <= 2", {"r1", "r3", "r5"}),
        ("stars <= 2 and not category = 'toy'", {"r1", "r3"}),
        ("category in ('toy', 'light')", {"r3", "r4", "r5"}),
        ("stars > 5", set()),
    ],
)
def test_a_filter_keeps_what_matches(indexed, where, found):
    assert set(ids(indexed("search", "kettle", "--where", where, "--json"))) == found
    assert set(ids(indexed("search", "--like", "r2", "--where", where, "--json"))) == found - {"r2"}


def test_nothing_found_is_said_and_no_error(indexed):
    ran = indexed("search", "kettle", "--where", "stars > 5")
    assert (ran.code, ran.out) == (0, "Nothing found.\n")


@pytest.mark.parametrize("k", ["6", "1000"])
def test_more_hits_than_documents_are_all_documents(indexed, k):
    assert set(ids(indexed("search", "kettle", "-k", k, "--json"))) == {"r1", "r2", "r3", "r4", "r5"}


@pytest.mark.parametrize("mode", ["dense", "hybrid", "lexical"])
@pytest.mark.parametrize("k", [10**12, 10**25])
def test_a_huge_k_takes_no_memory(indexed, mode, k):
    ran = indexed("search", "kettle", "-k", k, "--mode", mode, "--json")
    if ran.code:  # refusing is fine, a made-up limit is not needed
        assert ran.failed_with(2, "k")
    else:
        assert len(ids(ran)) == (2 if mode == "lexical" else 5)


def test_like_leaves_the_document_out(indexed):
    assert ids(indexed("search", "--like", "r1", "--json")) == ["r2", "r5", "r3", "r4"]


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


def test_embed_keeps_the_order_of_a_corpus_and_gives_the_encoder_its_instruction(run, fake, write):
    ran = run("embed", write(CORPUS), "-o", "v.npy", "--instruction", PRODUCT, "--json")
    encoder = KeywordEncoder("keywords")
    texts = [row["text"] for row in CORPUS]
    np.testing.assert_array_equal(np.load("v.npy"), encoder.encode(texts, instruction=PRODUCT))
    assert ran.document == {
        "schema_version": 1, "texts": 5, "dim": 7, "output": "v.npy", "fingerprint": encoder.fingerprint
    }  # fmt: skip


LINES = [f"{word} number {i}" for i, word in enumerate(KEYWORDS)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize("source", ["lines.txt", "-"])
def test_embed_gives_a_row_per_line_in_order(run, fake, write, source, start, end):
    data = (start + end.join(LINES)).encode()
    ran = run("embed", write(data, "lines.txt") if source != "-" else "-", "-o", "v.npy", stdin=data)
    assert ran.out == "6 vectors of 7 numbers written to v.npy.\n"
    np.testing.assert_array_equal(np.load("v.npy"), KeywordEncoder().encode(LINES))


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"], ids=ascii)
@pytest.mark.parametrize("source", ["lines.txt", "-"])
def test_embed_ends_a_line_at_a_newline_alone(run, fake, write, source, inside):
    data = f"a kettle{inside}and a lamp\na toy\n".encode()
    run("embed", write(data, "lines.txt") if source != "-" else "-", "-o", "v.npy", stdin=data)
    np.testing.assert_array_equal(np.load("v.npy"), KeywordEncoder().encode(["a kettle and a lamp", "a toy"]))


def test_embed_reads_stdin_when_no_file_is_named(run, fake):
    assert run("embed", "-o", "v.npy", "--json", stdin=b"a toy\n").document["texts"] == 1


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
    assert (ran.code, ran.out, ran.err) == (0, "2 deleted.\n", "1 ids were not found, such as 'r9'.\n")
    for instruction in ("", PRODUCT):
        assert set(ids(indexed("search", "kettle", "--instruction", instruction, "--json"))) == {"r3", "r4", "r5"}


def test_delete_takes_ids_from_stdin(indexed):
    ran = indexed("delete", "-", "--json", stdin=b"r1\r\n\nr4\nr9\n")
    assert ran.document == {"schema_version": 1, "deleted": ["r1", "r4"], "missing": ["r9"]}
    assert indexed("status", "--json").document["documents"] == 3


def test_compact_frees_deleted_texts_and_rebuilds_every_view(indexed):
    indexed("search", "kettle", "--instruction", PRODUCT)
    indexed("delete", "r1")
    assert len(indexed("compact", "--json").document["generations"]) == 2
    views = indexed("status", "--json").document["views"]
    assert [(view["vectors"], view["tail"]) for view in views] == [(4, 0), (4, 0)]
    ran = indexed("compact", "--factory", "HNSW8,Flat")
    assert ran.out.splitlines()[0] == "2 views rebuilt."
    assert "HNSW8,Flat" in ran.out
    assert set(ids(indexed("search", "kettle", "--json"))) == {"r2", "r3", "r4", "r5"}


def test_numbers_lists_and_unicode_pass_through_unchanged(run, fake, write):
    row = {
        "id": 7,
        "title": "Ünï 🫖",
        "text": "un kettle, 水",
        "labels": {"stars": 2.5, "tags": ["a", "é"]},
        "none": None,
    }
    run("index", write([row]))
    hit = run("search", "kettle", "--where", "stars < 3 and tags has 'é'", "--json").document["hits"][0]
    assert (hit["id"], hit["text"]) == ("7", "Ünï 🫖\nun kettle, 水")
    assert hit["metadata"] == {key: row[key] for key in ("title", "labels", "none")}
    assert json.dumps(hit)


def test_what_finds_vectors_is_chosen_once_and_shown(run, fake, write):
    assert run("index", write(CORPUS), "--backend", "exact", "--device", "cpu").code == 0
    shown = run("status").out
    assert "Vector indexes are built with exact." in shown
    assert run("status", "--json").document["vector_index"]["backend"] == "exact"
    assert "exact" in run("compact").out
    shown = run("compact", "--backend", "faiss", "--factory", "HNSW8,Flat", "--min-recall", "0.5").out
    assert "HNSW8,Flat" in shown
    run("index", write([{"id": f"n{row}", "text": f"toy {row}"} for row in range(9)], "more.jsonl"))
    assert "Vector indexes are built with faiss, factory HNSW8,Flat, recall@10 from 0.5." in run("status").out
    assert {view["factory"] for view in run("views", "--json").document["views"]} == {"HNSW8,Flat"}
