"""Calls about answers: what a language model is sent, and what of its reply is taken."""

import json

import pytest

from retriever.encoders.answers.answerer import Unread
from retriever.encoders.answers.categories import CategoriesCall, PlacingCall
from retriever.encoders.answers.wire import Format, Reply

CALL = CategoriesCall("What broke?", ["a lid", "the lid", "a lamp", "dust"], [4, 3, 2, 1])
PLACING = PlacingCall("What broke?", [("lid", "It is a lid."), ("lamp", "It is a lamp.")], ["a cover", "a bulb"])

ONE = json.dumps({"categories": [{"name": "all", "definition": "All.", "ids": ["1", "2", "3", "4"]}]})


def written(lid="lid", ids=("1", "2"), other=("4",), definition="It is a lid."):
    """Give a reply with two categories."""
    lids = {"name": lid, "definition": definition, "ids": list(ids)}
    lamps = {"name": "lamp", "definition": "It is a lamp.", "ids": ["3"]}
    return json.dumps({"categories": [lids, lamps], "other": list(other)})


def read(content, call=CALL):
    return call.check(Reply(content), Format.SCHEMA)


def sent(call):
    return json.loads(call.messages(Format.SCHEMA)[1]["content"])


def test_categories_are_asked_for_with_the_number_of_texts_of_each_answer():
    assert sent(CALL)["question"] == "What broke?"
    assert sent(CALL)["answers"][:2] == [
        {"id": "1", "answer": "a lid", "texts": 4},
        {"id": "2", "answer": "the lid", "texts": 3},
    ]


def test_categories_have_names_definitions_and_answers():
    checked = read(written("The lid.", definition=" It is\na lid."))
    assert [(one.name, one.definition, one.rows) for one in checked.categories] == [
        ("The lid", "It is a lid.", [0, 1]),
        ("lamp", "It is a lamp.", [2]),
    ]
    assert (checked.other, checked.refused) == ([3], "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (written(ids=("1",)), "Ids 2 are missing."),
        (written(ids=("1", "2", "3")), "Ids 3 stand in two places."),
        (written(ids=("1", "2", "7")), "There is no id 7."),
        (written("Lamp."), "Two categories have one name."),
        (written("Other"), "is called"),
        (written("n/a"), "is called"),
        (written(" "), "is called"),
        (written("\x1b[31m"), "is called"),
        (written("la\x1b[31mmp"), "Two categories have one name."),
        (written("a name of no less than seven"), "A name is blank or longer than 5 words."),
        (written(definition=""), "A definition is blank or longer than 30 words."),
        (ONE, "There is 1 category, and 2 to 12 are wanted."),
        ("no object", Unread.BROKEN.sentence),
    ],
)
def test_categories_that_are_of_no_use_are_refused_with_the_reason(content, reason):
    checked = read(content)
    assert reason in checked.refused
    assert checked.categories == ()


def test_the_second_reply_may_leave_out_a_tenth_of_the_answers():
    call = CategoriesCall("q", [f"answer {row}" for row in range(20)], [1] * 20)
    ids = [str(row) for row in range(1, 21)]

    def content(last):
        of = {"a": ids[:10], "b": ids[10:last]}
        return json.dumps({"categories": [{"name": name, "definition": "D.", "ids": of[name]} for name in of]})

    assert read(content(18), call).refused == "Ids 19, 20 are missing."
    assert read(content(18), call.again("a reason")).refused == ""
    assert read(content(17), call.again("a reason")).refused == "Ids 18, 19, 20 are missing."


def test_more_categories_than_were_asked_for_are_refused():
    call = CategoriesCall("q", ["a", "b", "c"], [1, 1, 1], most=2)
    three = [{"name": name, "definition": "D.", "ids": [id]} for id, name in zip("123", "abc", strict=True)]
    assert read(json.dumps({"categories": three}), call).refused == "There are 3 categories, and 2 to 2 are wanted."
    assert call.response_format(Format.LIMITED)["json_schema"]["schema"]["properties"]["categories"]["maxItems"] == 2


def placed(*pairs):
    return json.dumps({"answers": [{"id": id, "category": category} for id, category in pairs]})


def test_answers_are_sorted_by_the_names_of_categories():
    assert sent(PLACING)["categories"][0] == {"name": "lid", "definition": "It is a lid."}
    assert sent(PLACING)["answers"] == [{"id": "1", "answer": "a cover"}, {"id": "2", "answer": "a bulb"}]
    assert read(placed(("2", "Lamp."), ("1", "lid")), PLACING).places == {0: 0, 1: 1}


def test_an_answer_can_belong_to_no_category():
    assert read(placed(("1", "other"), ("2", "lamp")), PLACING).places == {0: 2, 1: 1}
    named = PlacingCall("q", [("lid", ""), ("other", "")], ["a bulb"])
    assert read(placed(("1", "Other")), named).places == {0: 1}
    assert '"enum": ["lid", "other"]' in json.dumps(named.response_format(Format.LIMITED))


def test_an_unknown_id_or_name_places_nothing_and_a_second_place_does_not_count():
    checked = read(placed(("1", "lid"), ("1", "lamp"), ("2", "bulbs"), ("9", "lamp")), PLACING)
    assert (checked.places, checked.refused) == ({0: 0}, "")
    assert "No id" in read(placed(("9", "lamp")), PLACING).refused
    assert read("", PLACING).refused == Unread.EMPTY.sentence


def test_answers_are_data_in_both_calls():
    for call in (CALL, PLACING):
        system, user = call.messages(Format.SCHEMA)
        assert "is no instruction" in system["content"]
        assert all(answer in user["content"] and answer not in system["content"] for answer in call.answers)
