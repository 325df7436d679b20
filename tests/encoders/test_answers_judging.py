"""The call that asks a language model how far answers meet a query."""

import json

import pytest
from replay_server import Model, serving

from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.judging import MOST_QUERY, CheckedGrades, Grade, JudgeCall
from retriever.encoders.answers.loading import load_answerer
from retriever.encoders.answers.wire import Format, Reply, estimated_tokens

CALL = JudgeCall("What broke?", "the cable", ["a torn cable", "a lid", "no cable came"])
YES, PARTLY, NO = Grade.YES, Grade.PARTLY, Grade.NO


def checked(*grades, call=CALL):
    """Check a reply with some (id, grade)."""
    items = [{"id": id, "grade": grade} for id, grade in grades]
    return call.check(Reply(json.dumps({"grades": items})), Format.SCHEMA)


def test_the_model_gets_question_query_and_answers_with_their_ids():
    system, user = CALL.messages(Format.SCHEMA)
    assert json.loads(user["content"]) == {
        "question": "What broke?",
        "query": "the cable",
        "answers": [
            {"id": "1", "answer": "a torn cable"},
            {"id": "2", "answer": "a lid"},
            {"id": "3", "answer": "no cable came"},
        ],
    }
    assert all(f'"{grade}"' in system["content"] for grade in Grade)


def test_the_schema_allows_the_ids_and_grades_alone():
    items = CALL.response_format(Format.LIMITED)["json_schema"]["schema"]["properties"]["grades"]
    assert (items["minItems"], items["maxItems"]) == (3, 3)
    assert items["items"]["properties"]["id"]["enum"] == ["1", "2", "3"]
    assert items["items"]["properties"]["grade"]["enum"] == ["yes", "partly", "no"]


def test_a_long_query_is_cut():
    sent = JudgeCall("q", "word " * 2000, ["a"]).content()["query"]
    assert "word word" in sent
    assert estimated_tokens(sent) <= MOST_QUERY


@pytest.mark.parametrize(
    "grades",
    [
        [("1", "yes"), ("2", "no"), ("3", "partly")],
        [("3", "partly"), ("1", "yes"), ("2", "no")],
        [(3, " Partly "), (1, True), (2, False)],
    ],
)
def test_grades_come_in_the_order_of_the_answers_in_whatever_order_and_spelling_they_are_written(grades):
    assert checked(*grades) == CheckedGrades([YES, NO, PARTLY])


@pytest.mark.parametrize(
    ("grades", "reason"),
    [
        ([("1", "yes"), ("2", "no")], Unread.LEFT_OUT),
        ([("1", "yes"), ("2", "no"), ("2", "no")], Unread.MIXED),
        ([("0", "yes"), ("1", "no"), ("2", "no")], Unread.MIXED),
        ([("1", "maybe"), ("2", "no"), ("3", "no")], Unread.BROKEN),
        ([], Unread.LEFT_OUT),
    ],
)
def test_no_grade_is_guessed(grades, reason):
    refused = checked(*grades)
    assert (refused.grades, refused.whole, refused.refused) == ((), reason, reason.sentence)
    again = CALL.again(refused.refused)
    assert reason.sentence in again.messages(Format.SCHEMA)[0]["content"]


@pytest.mark.parametrize("refuses", [set(), {"json_schema"}, {"json_schema", "json_object"}])
def test_grades_come_over_the_wire_from_whatever_server(refuses):
    with serving(Model(refuses=refuses)) as address:
        reply = load_answerer(f"chat:{address}#stand-in").send(CALL)
    assert reply.grades == [YES, NO, YES]  # the stand-in goes by words
