from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder

from retriever.training.rows import TrainingRow, normalise_text
from retriever.training.run import examples
from retriever.training.run.examples import Candidate, example_searches, examples_json


def row(text, answer, question=PRODUCT, **extra):
    return TrainingRow(text, question, answer, group=normalise_text(question), **extra)


def test_the_nearest_texts_are_found_and_those_with_the_same_answer_are_right():
    rows = [
        row("kettle love", "A kettle."),
        row("toy love", "toy"),
        row("kettle hate", "a kettle"),
        row("lamp", "lamp"),
    ]
    search = example_searches(rows)[0]
    assert (search.row, len(search.candidates)) == (rows[0], 3)
    assert search.find(FakeEncoder()) == [
        Candidate("kettle hate", "a kettle", True),
        Candidate("toy love", "toy", False),  # as far as the lamp, and listed before it
        Candidate("lamp", "lamp", False),
    ]


def test_where_no_text_has_the_same_answer_the_own_answer_is_looked_for():
    rows = [row("kettle", "kettle"), row("lamp", "a lamp"), row("lamp", "light"), row("x", "toy", "only once?")]
    search = example_searches(rows)[0]
    assert search.find(FakeEncoder())[0] == Candidate("kettle", "", True)
    lamps = example_searches(rows[1:])[0]
    assert {one.text for one in lamps.candidates if one.right} == {"a lamp", "light"}  # both answer this question


def test_positives_are_what_a_query_should_find():
    rows = [row("kettle", "kettle love", positives=("kettle love",)), row("toy", "toy love", positives=("toy love",))]
    assert example_searches(rows)[0].find(FakeEncoder()) == [
        Candidate("kettle love", "", True),
        Candidate("toy love", "", False),
    ]


def test_examples_are_of_different_questions_and_texts_the_most_asked_first():
    moods = [row(f"love {place}", "good", MOOD) for place in range(3)] + [row("hate", "bad", MOOD)]
    products = [row("love 0", "kettle"), row("toy", "toy"), row("lamp", "lamp")]
    faults = [row("love 0", "slow", FAULT)]
    found = [(one.row.text, one.row.instruction) for one in example_searches([*faults, *products, *moods])]
    assert found == [("love 0", MOOD), ("toy", PRODUCT)]


def test_equal_answers_give_nothing_to_find():
    assert example_searches([row("kettle", "yes"), row("toy", "yes")]) == []


def test_of_many_candidates_half_at_most_are_right(monkeypatch):
    monkeypatch.setattr(examples, "MOST_CANDIDATES", 6)
    rows = [row(f"kettle {place}", "kettle") for place in range(9)] + [row("toy", "toy")]
    candidates = example_searches(rows)[0].candidates
    assert [one.right for one in candidates] == [False, True, True, True]  # of equally near ones the wrong one is first


def test_a_report_holds_query_and_finds():
    rows = [row("kettle love", "kettle"), row("toy", "toy"), row("kettle hate", "kettle")]
    searches = example_searches(rows)
    found = [[one.find(FakeEncoder()) for one in searches]] * 2
    assert examples_json(searches, *found)[0] == {
        "query": "kettle love",
        "instruction": PRODUCT,
        "answer": "kettle",
        "before": [
            {"text": "kettle hate", "answer": "kettle", "right": True},
            {"text": "toy", "answer": "toy", "right": False},
        ],
        "after": examples_json(searches, *found)[0]["before"],
    }
