"""A language model behind an endpoint reads for searches and clusters, over HTTP as it would."""

import os
import shlex
from pathlib import Path
from threading import Event

import pytest
from answer_fakes import FakeReader, loads
from replay_server import Model, first_word, serving
from replay_server import asked as call_of

from retriever.cli import output, reading
from retriever.encoders.answers import calls
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
    assert "Sent 8 texts to a language model" in ran.err  # and three of them answers, to judge
    calls = len(model.requests)
    again = indexed("search", "kettle", "--instruction", WHO, "-k", "1", "--no-judge")
    assert "[kettle]" in again.out
    assert len(model.requests) == calls
    for _ in range(2):
        assert "[kettle]" in indexed("search", "kettle", "--instruction", WHO, "-k", "1").out
    assert len(model.requests) == calls + 1  # the answers were judged against this query, once
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


def test_few_different_answers_are_groups_and_what_says_nothing_is_the_last(indexed, model, name):
    ran = indexed("cluster", "--instruction", WHO, "--reader", name)
    assert ran.code == 0, ran.err
    assert heads(ran) == [
        "  1  kettle  1 document (1 of 5)",
        "  2  lamp  1 document (1 of 5)",
        "  3  toy  1 document (1 of 5)",
        "  4  not said  2 documents (2 of 5)",
    ]
    assert f"All 5 texts were read by {name}." in ran.err
    assert "Sent 5 texts to a language model: about" in ran.err
    calls = len(model.requests)
    found = indexed("cluster", "--instruction", WHO, "--json").document
    assert (found["made"], found["written_by"], found["fault"]) == ("answers", None, None)
    assert len(model.requests) == calls


def heads(ran):
    return [line for line in ran.out.splitlines() if line[:3].strip()]


LIGHTS = [
    {"name": "lights", "definition": "It shines.", "ids": ["2"]},
    {"name": "others", "definition": "It does not.", "ids": ["1", "3"]},
]


def test_a_language_model_writes_categories_of_its_answers_once(indexed, model, name):
    model.categories = lambda call: LIGHTS
    asked = ["cluster", "--instruction", WHO, "-k", "2", "--reader", name]
    ran = indexed(*asked)
    assert heads(ran) == [
        "  1  others  2 documents (2 of 5)",
        "  2  lights  1 document (1 of 5)",
        "  3  not said  2 documents (2 of 5)",
    ]
    assert "       It shines." in ran.out.splitlines()
    calls = len(model.requests)
    found = indexed(*asked, "--json").document
    assert (found["made"], found["written_by"], found["fault"]) == ("language model", name, None)
    assert found["assignments"] == {"r1": 1, "r2": 3, "r3": 3, "r4": 2, "r5": 1}
    assert len(model.requests) == calls


def test_a_model_that_writes_no_categories_leaves_groups_of_similar_answers_and_that_is_said(indexed, model, name):
    model.categories = lambda call: []
    asked = ["cluster", "--instruction", WHO, "-k", "2", "--reader", name]
    ran = indexed(*asked)
    assert ran.out.startswith("The language model wrote no categories: ")
    document = indexed(*asked, "--json").document
    assert (document["made"], document["written_by"]) == ("similar answers", None)
    assert document["fault"] in document["caution"]


def test_saved_categories_take_new_answers_without_another_call(indexed, model, name, write):
    model.categories = lambda call: LIGHTS
    asked = ["--instruction", WHO, "--reader", name]
    assert indexed("cluster", *asked, "-k", "2", "--save", "mine").code == 0
    more = write([{"id": "r6", "text": "The lamp fell."}, {"id": "r7", "text": "It is fine."}], "more.jsonl")
    assert indexed("index", more, "--read", WHO).code == 0
    calls = len(model.requests)
    shown = indexed("cluster", "--saved", "mine", "--json").document
    labels = {one["cluster"]: one["label"] for one in shown["clusters"]}
    assert {id: labels[shown["assignments"][id]] for id in shown["new"]} == {"r6": "lights", "r7": "not said"}
    assert (shown["written_by"], len(model.requests)) == (name, calls)


def test_a_cluster_of_a_sample_names_the_search_that_reads_more_of_it(indexed, name):
    ran = indexed("cluster", "--instruction", WHO, "-k", "2", "--read", "4", "--reader", name)
    said = next(line for line in ran.err.splitlines() if line.startswith("More of the first, "))
    program, *command = shlex.split(said.partition(": ")[2])
    assert program == "retriever"
    assert "Sent 4 texts to a language model: about" in indexed(*command).err
    assert "More of" not in indexed("cluster", "--instruction", WHO, "-k", "2").err


@pytest.mark.parametrize("command", [["search", "lamp", "-k", "5"], ["cluster", "-k", "2", "--read", "all"]])
def test_limits_are_those_of_the_settings_and_options_go_before_them(indexed, name, tmp_path, command):
    settings = tmp_path / "indexes" / "settings.toml"
    settings.write_text("[reading]\nmax_texts = 2\n")
    asked = [*command, "--instruction", WHO, "--reader", name]
    ran = indexed(*asked)
    assert ran.code == 0, ran.err
    assert "Sent 2 texts to a language model: about" in ran.err
    assert "A limit left 3 texts unread." in ran.err
    assert "Sent 0 texts to a language model: about" in indexed(*asked, "--max-texts", "5", "--max-minutes", "0").err
    assert "Sent 1 text to a language model: about" in indexed(*asked, "--max-texts", "3").err
    assert indexed(*asked, "--max-texts", "5", "--json").code == 0
    assert indexed("answers", "--instruction", WHO, "--json").document["status"]["answers"] == 5
    settings.write_text("[reading]\nmax_text = 2\n")
    assert indexed(*asked).failed_with(1, "settings.toml: 'max_text' is no setting", "max_texts")


def test_a_limit_of_a_day_holds_over_commands(indexed, model, name, tmp_path):
    (tmp_path / "indexes" / "settings.toml").write_text("[day]\nmax_texts = 2\n")
    asked = ["search", "lamp", "--instruction", WHO, "--reader", name]
    assert "Sent 2 texts to a language model: about" in indexed(*asked).err
    calls = len(model.requests)
    assert "A limit left 3 texts unread." in indexed(*asked, "--max-texts", "5").err
    assert len(model.requests) == calls


def test_two_questions_are_read_for_a_comparison(indexed, name):
    ran = indexed("compare", "--instruction", WHO, "--instruction", "What else?", "-k", "2", "--reader", name)
    assert ran.code == 0, ran.err
    assert "Sent 16 texts to a language model" in ran.err  # three answers of each question for categories
    assert "0 of 5 documents are in another cluster" in ran.err


@pytest.fixture
def away(monkeypatch, tmp_path):
    """A reader at a host of somebody else, and a folder for who is allowed."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "user"))
    fake = FakeReader(["lamp"], name="chat:https://api.example.com/v1#m", host="api.example.com")
    return loads(monkeypatch, fake)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(reading, "_at_terminal", lambda: True)


MAY = "May texts of this index be sent there? [y/N]"
COMMANDS = [["search", "lamp"], ["cluster", "-k", "2"], ["cluster", "--into", "lamp, toy"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_leaves_the_machine_without_a_yes(indexed, away, command):
    asked = [*command, "--instruction", WHO, "--reader", away.name]
    assert indexed(*asked).failed_with(2, "would be sent to api.example.com", "--yes")
    assert (away.asked, away.probes) == ([], 0)
    ran = indexed(*asked, "--yes")
    assert (ran.code, MAY in ran.err) == (0, False)
    assert len(away.asked) == 5
    assert indexed(*command, "--instruction", "What else?", "--reader", away.name).code == 0  # remembered
    assert len(away.asked) == 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_person_is_asked_once_and_a_no_sends_nothing(indexed, away, terminal, command):
    asked = [*command, "--instruction", WHO, "--reader", away.name]
    ran = indexed(*asked, stdin=b"n\n")
    assert ran.err.count(MAY) == 1
    assert ran.code == (0 if command[0] == "search" else 2)
    assert (ran.out != "") == (command[0] == "search")  # by what is stored
    assert (away.asked, away.probes) == ([], 0)
    ran = indexed(*asked, stdin=b"y\n")
    assert (ran.code, ran.err.count(MAY), len(away.asked)) == (0, 1, 5)
    ran = indexed(*command, "--instruction", "What else?", "--reader", away.name)
    assert (ran.code, MAY in ran.err, len(away.asked)) == (0, False, 10)


def test_an_imported_index_asks_anew_and_is_searched_as_it_is_meanwhile(indexed, away, monkeypatch):
    asked = ["search", "lamp", "--instruction", WHO]
    assert indexed(*asked, "--reader", away.name, "--yes", "--max-texts", "2").code == 0
    assert indexed("export", "mine.tar.zst").code == 0
    assert indexed("import", "mine.tar.zst", "--index", "indexes/theirs").code == 0
    asked += ["--index", "indexes/theirs"]
    ran = indexed(*asked)
    assert ran.code == 0 and "[lamp]" in ran.out
    said = [line for line in ran.err.splitlines() if line.startswith("The reader cannot be asked: ")]
    assert len(said) == 1 and "api.example.com" in said[0] and "--yes" in said[0]
    assert "api.example.com" in indexed(*asked, "--json").document["reader_fault"]
    ran = indexed("cluster", "--instruction", WHO, "--index", "indexes/theirs", "--json")
    assert ran.code == 0 and "api.example.com" in ran.document["sampled"]["fault"]  # of the answers that are stored
    assert len(away.asked) == 2
    monkeypatch.setattr(reading, "_at_terminal", lambda: True)
    ran = indexed(*asked, stdin=b"n\n")
    assert (ran.code, ran.err.count(MAY), len(away.asked)) == (0, 1, 2)
    ran = indexed(*asked, stdin=b"y\n")
    assert (ran.code, ran.err.count(MAY), len(away.asked)) == (0, 1, 5)


def test_a_search_whose_reader_is_away_shows_what_is_stored_and_says_so(indexed, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving(Model()) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert indexed("search", "lamp", "--instruction", WHO, "--reader", "chat:m", "--max-texts", "2").code == 0
    for where in (url, None):
        monkeypatch.delenv("OPENAI_BASE_URL") if where is None else monkeypatch.setenv("OPENAI_BASE_URL", where)
        ran = indexed("search", "lamp", "--instruction", WHO)
        assert ran.code == 0 and "[lamp]" in ran.out
        assert ran.err.count("The reader cannot be asked: ") == 1
        assert "Sent " not in ran.err
        assert indexed("search", "lamp", "--instruction", WHO, "--json").document["reader_fault"]


def test_a_call_may_take_as_long_as_an_option_says(indexed, name, monkeypatch):
    asked = ["search", "lamp", "--instruction", WHO, "--reader", name]
    assert indexed(*asked, "--seconds-a-call", "0").failed_with(1, "RETRIEVER_CALL_SECONDS is '0'")
    assert indexed(*asked, "--seconds-a-call", "300").code == 0
    assert "RETRIEVER_CALL_SECONDS" not in os.environ


def test_a_long_wait_for_the_first_answer_is_told(indexed, model, name, monkeypatch):
    told, say = Event(), output.say

    def listening(text, colour=""):
        say(text, colour)
        if text.startswith("waiting for the first answer of stand-in at 127.0.0.1:"):
            told.set()

    monkeypatch.setattr(output, "say", listening)
    monkeypatch.setattr(calls, "NOTICE_SECONDS", 0.01)
    model.answer = lambda text, question: first_word(text, question) if told.wait(10) else "not said"
    ran = indexed("search", "lamp", "--instruction", WHO, "--reader", name)
    assert (ran.code, told.is_set()) == (0, True), ran.err


def test_index_reads_new_texts_for_the_questions_that_are_named_alone(indexed, model, name, write):
    assert indexed("cluster", "--instruction", WHO, "--reader", name, "--read", "all", "-k", "2").code == 0
    calls = len(model.requests)
    assert indexed("index", write([{"id": "r6", "text": "The lamp fell."}])).code == 0
    assert len(model.requests) == calls
    ran = indexed("index", write([{"id": "r7", "text": "The knife is dull."}]), "--read", WHO)
    assert ran.code == 0 and "Sent 2 texts to a language model: about" in ran.err
    assert indexed("answers", "--instruction", WHO, "--json").document["answered_by"] == {name: 7}
    ran = indexed("index", write([{"id": "r8", "text": "The toy."}]), "--read", "What else?")
    assert ran.code == 2 and ran.out.startswith("Documents: 1 added")  # that is done, and said
    assert "No language model serves 'What else?'." in ran.err


def test_refused_texts_are_counted_with_the_reason_and_asked_about_again_on_request(indexed, monkeypatch):
    fake = FakeReader(["lamp"], name="chat:http://127.0.0.1:9/v1#m", silent=["The kettle broke.", "The toy broke."])
    loads(monkeypatch, fake)
    asked = ["search", "lamp", "--instruction", WHO]
    ran = indexed(*asked, "--reader", fake.name)
    assert "Sent 6 texts to a language model: about" in ran.err
    assert "2 texts got no answer: The model or its server refused to answer. (2)" in ran.err
    assert indexed("answers", "--instruction", WHO).err == f"3 of 5 texts have an answer: 3 by {fake.name}.\n"
    fake.silent.clear()
    indexed(*asked)
    assert len(fake.asked) == 5
    assert "2 refused texts can be asked about again" in indexed("answers", "--instruction", WHO, "--again").err
    assert "Sent 2 texts to a language model: about" in indexed(*asked).err
    assert fake.asked[5:] == ["The kettle broke.", "The toy broke."]


def test_answers_and_status_say_who_answered_and_what_was_sent(indexed, name, write):
    assert "Language models" not in indexed("status").out
    assert indexed("search", "lamp", "--instruction", WHO, "--reader", name).code == 0
    corrected = write([{"id": "r1", "answer": "a kettle"}], "mine.jsonl")
    said = f"5 of 5 texts have an answer: 4 by {name}, 1 by people.\n"
    assert indexed("answers", "--instruction", WHO, corrected).err == said
    sent = indexed("status", "--json").document["sent"]
    assert sent["texts"] == 8 and sent["tokens"] > 0
    assert f"Endpoints were sent 8 texts until now: about {sent['tokens']:,} tokens" in indexed("status").out


@pytest.mark.parametrize(
    ("reader", "code", "says"),
    [
        ("chat:http://198.51.100.1/v1#m", 1, "http"),
        ("minilm", 2, "'minilm' writes no answers."),
        ("chat:http://127.0.0.1:9/v1#m", 1, "127.0.0.1:9"),
    ],
)
def test_a_reader_that_cannot_be_asked_is_told(indexed, reader, code, says):
    ran = indexed("search", "lamp", "--instruction", WHO, "--reader", reader)
    assert ran.failed_with(code, says)


def test_a_reader_needs_a_question_and_a_budget_a_number(indexed):
    assert indexed("search", "lamp", "--reader", "given").failed_with(2, "A reader needs an instruction.")
    assert indexed("cluster", "--instruction", WHO, "--read", "many").failed_with(2, "--read is 'many'.")


def test_given_categories_take_the_answers_that_were_read_by_a_call(indexed, model, name):
    model.places = lambda call: [
        {"id": one["id"], "category": "lights" if one["answer"] == "lamp" else "other"} for one in call["answers"]
    ]
    assert indexed("search", "lamp", "--instruction", WHO, "--reader", name).code == 0
    texts = len(model.requests)
    ran = indexed("cluster", "--instruction", WHO, "--into", "boilers, lights")
    assert heads(ran) == [
        "  1  boilers  0 documents (0 of 5)",
        "  2  lights  1 document (1 of 5)",
        "  3  other  2 documents (2 of 5)",
        "  4  not said  2 documents (2 of 5)",
    ]
    assert [call["categories"][0]["name"] for call in map(call_of, model.requests[texts:])] == ["boilers"]


def test_answers_that_nobody_can_sort_are_in_none_of_the_given_categories(indexed, model, name):
    model.places = lambda call: []
    document = indexed("cluster", "--instruction", WHO, "--into", "kettle, lights", "--reader", name, "--json").document
    assert [(one["label"], one["size"]) for one in document["clusters"]] == [
        ("kettle", 1), ("lights", 0), ("other", 2), ("not said", 2)
    ]  # fmt: skip
    assert document["caution"].startswith("The language model placed fewer answers: ")


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
