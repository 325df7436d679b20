import shutil

import pytest
from tiny_families import FAMILIES, SEARCH

CORPUS = [{"id": f"r{i}", "text": text} for i, text in enumerate(["kettle broke", "love the toy", "a red lamp"])]


@pytest.fixture
def brought(tmp_path):
    """Put a family's tiny model into a folder called mine, where commands run."""
    return lambda family: shutil.move(FAMILIES[family](tmp_path / "built"), tmp_path / "mine")


def test_indexing_with_a_brought_model_says_what_it_sends_and_what_seems_wrong(run, write, brought, tmp_path):
    brought("embedding-gemma")
    ran = run("index", write(CORPUS), "--base", "st:mine,dim=16", "--encoder", "minilm")
    assert ran.code == 0, ran.err
    assert f"st:{tmp_path / 'mine'},dim=16: prompts registered in its config_sentence_transformers.json: " in ran.err
    assert "read behind 'task: search result | query: ', documents behind 'title: none | text: '." in ran.err
    assert "plain English examples wrongly: its pooling (1_Pooling)" in ran.err
    shown = run("status", "--json").document
    assert shown["plain"]["name"] == f"st:{tmp_path / 'mine'},dim=16"
    assert run("models", "show", "st:mine,dim=16", "--json").document["fingerprint"] == shown["plain"]["fingerprint"]


def test_one_option_makes_an_index_that_follows_instructions(run, write, brought):
    brought("qwen3-embedding")
    indexed = run("index", write(CORPUS), "--base", "st:mine", "--json")
    assert indexed.document["added"] == 3
    assert "a search under an instruction is answered from the vectors that are there." in indexed.err
    ran = run("search", "toy", "--instruction", "What kind of product?")
    assert ran.code == 0, ran.err
    assert "read under the question" not in ran.err
    found = run("search", "toy", "--instruction", "What kind of product?", "--json").document
    assert (found["path"], found["verdict"]) == ("base", None)
    assert [view["instruction"] for view in run("status", "--json").document["views"]] == [""]


def test_models_show_says_what_was_recognised_of_a_brought_model(run, brought):
    brought("qwen3-embedding")
    shown = run("models", "show", "st:mine", "--json").document
    assert shown["query_prompt"] == "Instruct: {instruction}\nQuery:"
    assert shown["document_prompt"] == ""
    assert shown["default_instruction"] == SEARCH
    assert "registered in its config_sentence_transformers.json" in shown["recognised"]
    assert "plain English examples wrongly" in shown["weaknesses"][0]
    assert "plain English examples wrongly" in run("models", "show", "st:mine").err
    assert "recognised" not in run("models", "show", "minilm", "--json").document
