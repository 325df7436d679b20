import gzip
import json
from collections import Counter

import numpy as np
import pytest
from ask_clusters import _closed, _v_measure
from ask_data import FOLDER, SOURCES, AnsweredText, Material, Question, load_material
from ask_kills import kills
from ask_readers import on_the_wire, replaying, traffic
from ask_search import Bench, Readers
from ask_wire import faults, injection
from index_fakes import FAULT, FakeEncoder

from retriever.core.errors import InputError
from retriever.core.requests import SearchOptions
from retriever.core.unanswered import folded

THINGS = ("kettle", "toy", "lamp")
WHAT = Question("what", FAULT, "kettle", "it is about a kettle")


def text(row):
    """Give a text in which no encoder of these tests sees the answer."""
    thing = THINGS[row % 3]
    meets = frozenset({"what"} if thing == "kettle" else ())
    return AnsweredText(f"t{row:02}", f"number {row} says nothing", {"what": thing}, meets)


MATERIAL = Material("planted", [WHAT], [text(row) for row in range(90)])


@pytest.fixture
def bench(tmp_path):
    return Bench(MATERIAL, Readers(FakeEncoder("question"), FakeEncoder("plain")), tmp_path)


def test_answers_find_what_encoders_cannot_see(bench):
    known = MATERIAL.answers()
    plain, answered = bench.plain(), bench.answered(known, complete=True)
    assert answered.score().value == 1.0 == bench.reachable().value
    assert plain.score().value < 0.7
    assert plain.read.tolist() == answered.read.tolist() == [[0.0]]  # nothing is left to read


def test_a_judged_search_goes_by_grades_and_a_missing_one_is_an_error(bench):
    known = MATERIAL.answers()
    grades = {(FAULT, "kettle", thing): "no" if thing == "kettle" else "yes" for thing in THINGS}
    assert bench.answered(known, grades, complete=True).score().value == 0.0
    del grades[FAULT, "kettle", "toy"]
    with pytest.raises(KeyError):
        bench.answered(known, grades, complete=True)


@pytest.mark.parametrize("name", SOURCES)
def test_every_judgement_is_of_an_answer_to_its_question_and_no_answer_has_two(name):
    written = json.loads((FOLDER / "ask_judgements.json").read_text("utf-8"))[name]
    questions = json.loads((FOLDER / "ask_questions.json").read_text("utf-8"))[name]
    assert list(written) == [question["key"] for question in questions]
    rows = [json.loads(line) for line in gzip.open(FOLDER / f"ask_{name}.jsonl.gz", "rt", encoding="utf-8")]
    for key, grades in written.items():
        judged = Counter(folded(answer) for answers in grades.values() for answer in answers)
        assert set(judged.values()) == {1}
        assert judged.keys() <= {folded(row["answers"][key]) for row in rows}


def test_a_lazy_search_reads_in_rounds_and_reports_each(bench):
    options = SearchOptions(costly_texts=5, costly_rounds=2)
    curve = bench.answered(MATERIAL.answers(), options=options)
    assert curve.read.tolist() == [[0.0, 5.0, 10.0]]
    assert curve.to_json()["texts_read"] == [0.0, 5.0, 10.0]


def test_a_share_of_the_texts_gets_another_answer_the_same_every_time():
    right, wrong = MATERIAL.answers(), MATERIAL.answers(wrong=0.3)
    assert sum(right[pair] != wrong[pair] for pair in right) == 27
    assert wrong == MATERIAL.answers(wrong=0.3)


def test_wrong_answers_cost_precision(bench):
    wrong = bench.answered(MATERIAL.answers(wrong=0.9), complete=True)
    assert wrong.score().value < 0.5


def test_clusters_of_answers_are_their_groups(bench):
    groups = {one.id: one.answers["what"] for one in MATERIAL.texts}
    with bench.opened(bench.copied(bench.base())) as index:
        index.teaching.give_answers(FAULT, groups)
        assert _v_measure(index, FAULT, groups) == pytest.approx(1.0)
        assert _v_measure(index, FAULT, {one: "ab"[row % 2] for row, one in enumerate(groups)}) < 0.1


@pytest.mark.parametrize(("closed", "measure"), [("bbaa", 1.0), ("abab", 0.0)])
def test_closed_answers_are_measured_against_groups_by_hand(closed, measure):
    texts = [
        AnsweredText(str(row), "", {}, frozenset(), {}, {"what": "ccdd"[row]}, {"what": closed[row]})
        for row in range(4)
    ]
    report = _closed(Material("planted", [WHAT], [*texts, text(4)]))
    assert report == {"what": {"texts": 4, "groups": 2, "v_measure": measure}}


@pytest.mark.parametrize("name", SOURCES)
def test_every_group_and_category_of_the_material_is_defined(name):
    defined = json.loads((FOLDER / "ask_categories.json").read_text())[name]
    rows = [json.loads(line) for line in gzip.open(FOLDER / f"ask_{name}.jsonl.gz", "rt")]
    for key, kinds in defined.items():
        assert sum(key in row.get("by_hand", {}) for row in rows) == 240
        assert {row["by_hand"][key] for row in rows if "by_hand" in row} == set(kinds["by_hand"])
        assert {row["closed"][key] for row in rows if "closed" in row} <= {*kinds["closed"], "other", "not said"}


def test_traffic_counts_what_a_server_is_asked(bench):
    model = replaying(MATERIAL.answers())
    with on_the_wire(model) as reader, bench.opened(bench.copied(bench.base())) as index:
        index.teaching.read_by(FAULT, reader)
        met = len(model.requests)
        read = bench.searched(index, reader).read[0, -1]
    counted = traffic(model, met)
    assert (counted.calls, counted.texts) == (read / 5, read)  # of 20 texts six, six, six and two go together
    assert counted.sent > counted.received > 60


def test_in_process_the_same_is_found_as_over_the_wire(bench):
    known = MATERIAL.answers()
    with on_the_wire(replaying(known)) as reader, bench.opened(bench.copied(bench.base())) as index:
        index.teaching.read_by(FAULT, reader)
        wired = bench.searched(index, reader)
    assert np.array_equal(wired.precision, bench.answered(known).precision)


def test_faults_of_a_server_make_no_answer_wrong():
    report = faults(MATERIAL)
    assert {one["wrong"] for one in report.values()} == {0}
    assert report["none"] == {"calls": 10, "missing": 0, "wrong": 0, "seconds": report["none"]["seconds"]}
    assert all(report[name]["calls"] > 10 for name in ("late", "wrong ids", "broken JSON", "429"))


def test_orders_change_other_answers_where_only_one_other_text_is_meant():
    report = injection(MATERIAL)
    assert (report["known"]["changed"], report["unknown"]["changed"]) == (0, 0)
    assert 0 < report["one other"]["changed"] <= 20


def test_nothing_stored_is_asked_again_after_kills(tmp_path):
    report = kills(MATERIAL, tmp_path, count=2)
    assert report["kills"] == 2
    assert (report["unanswered"], report["sent_again_though_stored"]) == (0, 0)
    assert report["sent"] == report["texts"] + report["sent_again_since_under_way"]


def test_what_is_kept_fits_the_questions_and_holds_no_text():
    questions = json.loads((FOLDER / "ask_questions.json").read_text())
    for name in SOURCES:
        keys = {one["key"] for one in questions[name]}
        rows = [json.loads(line) for line in gzip.open(FOLDER / f"ask_{name}.jsonl.gz", "rt")]
        assert all(set(row) - {"by_hand", "closed"} == {"source", "sha256", "answers", "meets"} for row in rows)
        assert all(set(row["answers"]) == keys and set(row["meets"]) <= keys for row in rows)
        assert max(len(answer.split()) for row in rows for answer in row["answers"].values()) <= 6
        assert max(Counter(row["source"] for row in rows).values()) == 1


def test_other_texts_than_those_that_were_read_are_refused(tmp_path):
    rows = [json.loads(line) for line in gzip.open(FOLDER / "ask_reviews.jsonl.gz", "rt")]
    lines = [json.dumps({"id": row["source"], "text": "another", "labels": {}}) for row in rows]
    (tmp_path / "reviews_dmaste.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match="do not hold the text"):
        load_material("reviews", [tmp_path])
    with pytest.raises(InputError, match="in none of the folders"):
        load_material("messages", [tmp_path])
