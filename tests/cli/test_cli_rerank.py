"""A reranker orders the first hits of a search: what is shown, and who is asked before texts leave."""

import pytest

from retriever.cli import reading
from retriever.encoders.answers import places

TEXT_LENGTHS = ["r2", "r1", "r3", "r4", "r5"]  # by characters, most first; equal ones as they were
MAY = "May texts of this index be sent there?"


@pytest.fixture
def away(scorer, monkeypatch):
    """Let the reranker be at another machine."""
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv("RETRIEVER_ALLOW_HTTP", "1")
    return scorer


def search(run, scorer, *options, query="kettle", **streams):
    return run("search", query, "--rerank", scorer.name, *options, **streams)


def test_hits_are_shown_in_the_order_of_the_reranker_which_is_named(indexed, scorer):
    ran = search(indexed, scorer, "--explain")
    assert next(line.split()[1] for line in ran.out.splitlines() if not line.startswith("     ")) == "r2"
    assert f"reranked by {scorer.name}" in ran.err
    assert "reranked 19.000, score " in ran.out
    assert "Sent 5 texts to a reranker: about " in ran.err
    document = search(indexed, scorer, "--json").document
    assert [hit["id"] for hit in document["hits"]] == sorted(
        [hit["id"] for hit in document["hits"]], key=TEXT_LENGTHS.index
    )
    assert (document["reranked_by"], document["rerank_fault"]) == (scorer.name, None)
    assert len(scorer.requests) == 1
    assert len(indexed("search", "kettle", "--json").document["hits"]) == len(document["hits"])


def test_a_reranker_that_fails_leaves_the_hits_and_says_why(indexed, scorer):
    scorer.dies = True
    ran = search(indexed, scorer)
    assert (ran.code, ran.out) == (0, indexed("search", "kettle").out)
    assert ran.err.count("The hits are not reranked: ") == 1
    assert "cannot be reached" in ran.err
    assert "cannot be reached" in search(indexed, scorer, "--json").document["rerank_fault"]


def test_a_host_gets_texts_once_somebody_said_yes(indexed, away, monkeypatch):
    ran = search(indexed, away)
    assert ran.code == 0
    assert "would be sent to" in ran.err
    monkeypatch.setattr(reading, "_at_terminal", lambda: True)
    ran = search(indexed, away, stdin=b"n\n")
    assert (ran.code, ran.err.count(MAY), away.requests) == (0, 1, [])
    ran = search(indexed, away, stdin=b"y\n")
    assert (ran.err.count(MAY), len(away.requests)) == (1, 1)
    ran = search(indexed, away, query="lamp")
    assert (ran.err.count(MAY), len(away.requests)) == (0, 2)


def test_yes_allows_the_host(indexed, away):
    assert search(indexed, away, "--yes", "--json").document["reranked_by"] == away.name
    assert len(away.requests) == 1


def test_every_query_of_stdin_is_reranked(indexed, scorer):
    ran = search(indexed, scorer, "--json", query="-", stdin=b"kettle\nlamp\n")
    assert [each["reranked_by"] for each in ran.document["searches"]] == [scorer.name] * 2
    assert [request["query"] for request in scorer.requests] == ["kettle", "lamp"]


def test_a_name_of_none_is_wrong_usage(indexed):
    assert indexed("search", "kettle", "--rerank", "bge").failed_with(2, "no name of a reranker", "st:FOLDER")
    unreadable = indexed("search", "kettle", "--rerank", "http:http://scores.invalid/v1#m")
    assert unreadable.code == 0
    assert "unencrypted" in unreadable.err
