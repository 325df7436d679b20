"""A language model behind an endpoint reads for searches and clusters, over HTTP as it would."""

import os
import shlex
from pathlib import Path

import pytest
from answer_fakes import FakeReader
from replay_server import Model, serving

from retriever.encoders.answers import loading
from retriever.encoders.answers.places import ALLOW_HTTP

WHO = "Which thing is it about?"


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def name(model, monkeypatch):
    """The name of a reader whose endpoint is there for the test."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(model) as url:
        yield f"chat:{url}#stand-in"


def test_a_reader_answers_a_search_and_stays(indexed, model, name):
    ran = indexed("search", "lamp", "--instruction", WHO, "-k", "2", "--reader", name)
    assert ran.code == 0, ran.err
    assert "[lamp]" in ran.out.splitlines()[0]
    assert "read under the question: 5 of 5" in ran.err
    assert "A language model read 5 texts" in ran.err
    calls = len(model.requests)
    again = indexed("search", "kettle", "--instruction", WHO, "-k", "1")
    assert "[kettle]" in again.out
    assert len(model.requests) == calls
    rows = [one for one in indexed("views", "--json").document["views"] if one["instruction"] == WHO]
    assert [(one["encoder"], one["vectors"]) for one in rows] == [(name, 5)]


def test_http_to_another_machine_is_for_those_who_ask_for_it(indexed, monkeypatch):
    monkeypatch.delenv(ALLOW_HTTP, raising=False)
    asked = ["search", "lamp", "--instruction", WHO, "--reader", "chat:http://reader.invalid/v1#m"]
    assert indexed(*asked).failed_with(1, "unencrypted", "--allow-http")
    ran = indexed(*asked, "--allow-http")
    assert ran.code != 0
    assert "reader.invalid" in ran.err and "unencrypted" not in ran.err
    assert ALLOW_HTTP not in os.environ


def test_default_takes_a_question_back(indexed, name):
    indexed("search", "lamp", "--instruction", WHO, "--reader", name)
    back = indexed("search", "lamp", "--instruction", WHO, "--reader", "default", "--json").document
    forward = indexed("search", "lamp", "--instruction", WHO, "--reader", name, "--json").document
    assert back["view"] != forward["view"]
    assert forward["settling"] is None  # all of it is stored


def test_clusters_and_categories_are_read_too(indexed, model, name):
    ran = indexed("cluster", "--instruction", WHO, "-k", "2", "--reader", name)
    assert ran.code == 0, ran.err
    assert f"All 5 texts were read by {name}." in ran.err
    assert "A language model read 5 texts, about" in ran.err
    sorted_ = indexed("classify", "--instruction", WHO, "--into", "kettle, lamp", "--json").document
    assert sorted_["sampled"]["read"] == sorted_["sampled"]["texts"] == 5


def test_a_cluster_of_a_sample_names_the_search_that_reads_more_of_it(indexed, name):
    ran = indexed("cluster", "--instruction", WHO, "-k", "2", "--read", "4", "--reader", name)
    said = next(line for line in ran.err.splitlines() if line.startswith("More of the first, "))
    program, *command = shlex.split(said.partition(": ")[2])
    assert program == "retriever"
    assert "A language model read 1 text, " in indexed(*command).err
    assert "More of" not in indexed("cluster", "--instruction", WHO, "-k", "2").err


@pytest.mark.parametrize("command", [["search", "lamp", "-k", "5"], ["cluster", "-k", "2", "--read", "all"]])
def test_limits_are_those_of_the_settings_and_options_go_before_them(indexed, name, tmp_path, command):
    settings = tmp_path / "indexes" / "settings.toml"
    settings.write_text("[reading]\nmax_texts = 2\n\n[day]\nmax_texts = 1\n")
    asked = [*command, "--instruction", WHO, "--reader", name]
    ran = indexed(*asked)
    assert ran.code == 0, ran.err
    assert "A language model read 2 texts" in ran.err
    assert "texts were not read, because the limit was reached" in ran.err
    assert "A language model read 0 texts" in indexed(*asked, "--max-texts", "5", "--max-minutes", "0").err
    assert "A language model read 1 text, " in indexed(*asked, "--max-texts", "1").err
    assert indexed(*asked, "--max-texts", "5", "--json").code == 0
    assert indexed("answers", "--instruction", WHO, "--json").document["status"]["answers"] == 5
    settings.write_text("[reading]\nmax_text = 2\n")
    assert indexed(*asked).failed_with(1, "settings.toml: 'max_text' is no setting", "max_texts")


def test_two_questions_are_read_for_a_comparison(indexed, name):
    ran = indexed("compare", "--instruction", WHO, "--instruction", "What else?", "-k", "2", "--reader", name)
    assert ran.code == 0, ran.err
    assert "A language model read 10 texts" in ran.err
    assert "0 of 5 documents are in another cluster" in ran.err


@pytest.mark.parametrize("command", [["search", "lamp"], ["cluster", "-k", "2"], ["classify", "--into", "lamp, toy"]])
def test_nothing_leaves_the_machine_without_a_yes(indexed, monkeypatch, command):
    fake = FakeReader(["lamp"], host="api.example.com")
    monkeypatch.setattr(loading, "load_answerer", lambda name, fingerprint="": fake)
    asked = [*command, "--instruction", WHO, "--reader", "chat:fake"]
    assert indexed(*asked).failed_with(2, "would be sent to api.example.com", "--yes")
    assert fake.asked == []
    assert indexed(*asked, "--yes").code == 0
    assert len(fake.asked) == 5
    assert indexed(*command, "--instruction", "What else?", "--reader", "chat:fake").code == 0  # remembered


@pytest.mark.parametrize(
    ("reader", "code", "says"),
    [
        ("chat:http://198.51.100.1/v1#m", 1, "http"),
        ("minilm", 2, "minilm writes no answers."),
        ("chat:http://127.0.0.1:9/v1#m", 1, "127.0.0.1:9"),
    ],
)
def test_a_reader_that_cannot_be_asked_is_told(indexed, reader, code, says):
    ran = indexed("search", "lamp", "--instruction", WHO, "--reader", reader)
    assert ran.failed_with(code, says)


def test_a_reader_needs_a_question_and_a_budget_a_number(indexed):
    assert indexed("search", "lamp", "--reader", "given").failed_with(2, "A reader needs an instruction.")
    assert indexed("cluster", "--instruction", WHO, "--read", "many").failed_with(2, "--read is 'many'.")


def test_categories_are_asked_for_with_their_names_in_the_question(indexed, model, name):
    model.answer = lambda text, question: "lights" if "lamp" in text and '"lights"' in question else "not said"
    ran = indexed("classify", "--instruction", WHO, "--into", "boilers, lights", "--reader", name)
    assert ran.code == 0, ran.err
    lines = [line for line in ran.out.splitlines() if not line.startswith("    ")]
    assert lines == [
        "  1  boilers  0 documents (0 of 5)",
        "  2  lights  2 documents (2 of 5)",
        "  3  other  0 documents (0 of 5)",
        "  4  not said  3 documents (3 of 5)",
    ]
    assert f"All 5 texts were read by {name}." in ran.err


def test_categories_are_proposed_written_and_sorted_into(indexed, model, name, tmp_path):
    asked = ["classify", "--propose", "--instruction", WHO]
    ran = indexed(*asked, "--reader", name, "-o", "into.json")
    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == [
        "   1  kettle  It is a kettle.",
        "   1  lamp  It is a lamp.",
        "   1  toy  It is a toy.",
    ]
    assert f"5 answers of {name}; 2 texts do not answer. {name} wrote the categories." in ran.err
    calls = len(model.requests)
    document = indexed(*asked, "--json").document
    assert [entry["texts"] for entry in document["categories"]] == [1, 1, 1]
    assert document["written_by"] == name
    assert len(model.requests) == calls + 1  # no text is read again
    model.categories = lambda call: []
    ran = indexed(*asked)
    assert '   1  kettle  Answers such as "kettle".' in ran.out
    assert "The categories are groups of answers. The language model wrote none: " in ran.err
    found = indexed("classify", "--instruction", WHO, "--into", "into.json", "--json").document
    assert [one["size"] for one in found["clusters"]] == [1, 1, 1, 0, 2]


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--propose", "--instruction", WHO], "Nobody answers"),
        (["--propose", "--instruction", WHO, "--into", "a, b"], "assigns no documents"),
        (["--propose", "--instruction", WHO, "--csv", "x.csv"], "assigns no documents"),
        (["--instruction", WHO, "--into", "a, b", "-o", "x.json"], "-o is for proposed categories"),
    ],
)
def test_proposing_stands_alone(indexed, argv, problem):
    assert indexed("classify", *argv).failed_with(2, problem)


def test_proposed_categories_that_cannot_be_written_are_an_error_that_names_the_file(indexed, name, tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder.json").mkdir()
    asked = ["classify", "--propose", "--instruction", WHO, "--reader", name]
    assert indexed(*asked, "-o", "file/into.json").failed_with(1, "file/into.json", "cannot be written")
    assert indexed(*asked, "-o", "folder.json").failed_with(1, "folder.json")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_report_says_nothing_of_all_where_nothing_was_drawn_at_random(indexed, write):
    rows = [{"id": "r1", "answer": "a kettle"}, {"id": "r2", "answer": "a lamp"}]
    assert indexed("answers", write(rows, "answers.jsonl"), "--instruction", WHO).code == 0
    assert indexed("cluster", "--instruction", WHO, "-k", "2", "--save", "mine").code == 0
    ran = indexed("report", "mine", "-o", "report.md")
    assert ran.code == 0
    said = "2 of 5 texts were handed in, none of them drawn at random; they are too few for shares of all texts."
    assert ran.out == f"{said}\n"
    written = Path("report.md").read_text()
    assert written.count(said) == 1
    assert "| a kettle | 1 | \N{EN DASH} |" in written


def test_a_report_of_all_texts_that_were_read_has_numbers(indexed, name):
    assert indexed("cluster", "--instruction", WHO, "-k", "2", "--reader", name, "--save", "mine").code == 0
    assert indexed("report", "mine", "-o", "report.md").code == 0


def test_a_language_model_titles_saved_clusters_and_one_undo_takes_them_back(indexed, name):
    asked = ["cluster", "--instruction", "What product is it?", "-k", "2", "--name-by", name]
    assert indexed(*asked).failed_with(2, "--name-by stores titles with a saved clustering.", "--save NAME")
    ran = indexed(*asked, "--save", "products", "--html", "map.html", "--max-texts", "30")
    assert ran.code == 0, ran.err
    assert "The kettle reviews" in ran.out and "\n       They are about a kettle.\n" in ran.out
    assert f"{name} calls cluster 1 '" in ran.err and "A language model read " in ran.err
    assert "The kettle reviews" in Path("map.html").read_text()
    (kettle,) = [
        one for one in indexed("cluster", "--saved", "products", "--json").document["clusters"] if one["size"] == 2
    ]
    assert (kettle["label"], kettle["description"], kettle["named_by"]) == (
        "The kettle reviews",
        "They are about a kettle.",
        name,
    )
    again = indexed("cluster", "--saved", "products", "--name-by", name, "--max-texts", "0")
    assert again.failed_with(1, "gave no title that can be used (limit reached)")
    assert "kettle reviews" not in indexed("topics", "products", "--undo").out
