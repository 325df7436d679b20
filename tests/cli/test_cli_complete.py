"""`retriever search --complete`: all texts are read under the instruction before the answer."""

from functools import partial

import pytest
from cli_fakes import KeywordEncoder

from retriever.cli.output import ProgressLine
from retriever.core.requests import SearchOptions
from retriever.index import completing

MOOD = "What mood is it?"
SEARCH = ["search", "love", "--instruction", MOOD, "--json"]


@pytest.fixture
def thrifty(indexed, monkeypatch):
    """Run commands on the five reviews, of which a search reads one."""
    options = partial(SearchOptions, token_budget=10, prompt_tokens=10, rounds=1)
    monkeypatch.setattr("retriever.index.opened.SearchOptions", options)
    return indexed


def test_all_texts_are_read_and_how_far_it_is_is_said(thrifty, monkeypatch):
    assert thrifty(*SEARCH).document["path"] == "lazy"
    told = []
    monkeypatch.setattr(ProgressLine, "show", lambda line, report: told.append((report.in_hand, report.expected)))
    found = thrifty(*SEARCH, "--complete").document
    assert (found["path"], {hit["id"] for hit in found["hits"][:2]}) == ("complete", {"r2", "r4"})
    assert told[-1][0] == told[-1][1] > 0


def test_with_a_filter_those_are_that_it_accepts(thrifty):
    assert thrifty(*SEARCH, "--complete", "--where", "stars > 3").document["path"] == "complete"
    view = thrifty("views", "--json").document["views"][-1]
    assert (view["instruction"], view["vectors"] < 5, view["lazy"]) == (MOOD, True, True)


def test_what_was_read_before_an_interruption_is_kept_and_not_read_again(thrifty, monkeypatch):
    read, encode = [], KeywordEncoder.encode_views
    monkeypatch.setattr(completing, "BATCH", 2)

    def interrupted(encoder, texts, instructions, *, words=0, **options):
        if words and MOOD in instructions:
            if len(read) == 2:
                raise KeyboardInterrupt
            read.append(list(texts))
        return encode(encoder, texts, instructions, words=words, **options)

    monkeypatch.setattr(KeywordEncoder, "encode_views", interrupted)
    assert thrifty(*SEARCH, "--complete").code == 130
    assert len(read) == 2
    assert thrifty("views", "--json").document["views"][-1]["vectors"] == 4
    read.append([])  # so that nothing more is interrupted
    assert thrifty(*SEARCH, "--complete").document["path"] == "complete"
    texts = [text for batch in read for text in batch]
    assert len(texts) == len(set(texts)) == 5


def test_it_takes_an_instruction(indexed):
    assert indexed("search", "love", "--complete").failed_with(2, "--complete embeds texts under an instruction")
