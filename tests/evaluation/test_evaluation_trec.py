import itertools

import ir_measures
import numpy as np
import pytest

from retriever.core.errors import UsageError
from retriever.evaluation.trec import export, strictly_falling, write_qrels, write_run

TIED = {"q1": [("a", 0.9), ("b", 0.5), ("c", 0.5), ("d", 0.5)], "q2": [("x", -1.0)], "q3": []}


def test_a_run_has_a_line_for_every_document(tmp_path):
    write_run(tmp_path / "run.txt", {"q1": [("a", 0.75), ("b", 0.5)], "q2": [("x", -1.0)]}, tag="ours")
    assert (tmp_path / "run.txt").read_text() == "q1 Q0 a 1 0.75 ours\nq1 Q0 b 2 0.5 ours\nq2 Q0 x 1 -1.0 ours\n"


def test_judgements_have_a_line_for_every_document(tmp_path):
    write_qrels(tmp_path / "qrels.txt", {"q1": {"b": 2, "a": 0}, "q2": {}})
    assert (tmp_path / "qrels.txt").read_text() == "q1 0 a 0\nq1 0 b 2\n"


@pytest.mark.parametrize("relevant", ["b", "c", "d"])
def test_readers_see_equal_scores_in_our_order(tmp_path, relevant):
    write_run(tmp_path / "run.txt", TIED)
    write_qrels(tmp_path / "qrels.txt", {"q1": {relevant: 1}})
    run = list(ir_measures.read_trec_run(str(tmp_path / "run.txt")))
    assert [(one.query_id, one.doc_id) for one in run] == [("q1", one) for one in "abcd"] + [("q2", "x")]
    qrels = ir_measures.read_trec_qrels(str(tmp_path / "qrels.txt"))
    (value,) = ir_measures.calc_aggregate([ir_measures.RR], qrels, run).values()
    assert value == pytest.approx(1 / (1 + "abcd".index(relevant)))


def test_scores_fall_in_single_precision_and_move_no_further_than_they_must():
    falling = strictly_falling([1.0, 1.0, 1.0 - 1e-12, 0.5, 0.5, -3.0])
    assert all(np.float32(low) < np.float32(high) for high, low in itertools.pairwise(falling))
    assert falling == pytest.approx([1, 1, 1, 0.5, 0.5, -3], abs=1e-6)
    assert strictly_falling([0.75, 0.5]) == [0.75, 0.5]
    assert strictly_falling([]) == []


def test_a_task_is_exported_under_its_name(tmp_path):
    export(None, "task", {"q": [("a", 1.0)]}, {"q": {"a": 1}})
    export(tmp_path, "a task", {"a query": [("a", 1.0)]}, {"a query": {"a": 1}})
    assert (tmp_path / "a-task.run").read_text() == "a-query Q0 a 1 1.0 a-task\n"
    assert (tmp_path / "a-task.qrels").read_text() == "a-query 0 a 1\n"
    with pytest.raises(UsageError, match="differ in white space alone"):
        export(tmp_path, "task", {}, {"a query": {}, "a-query": {}})


@pytest.mark.parametrize("scores", [[0.5, 0.6], [float("nan")], [1.0, float("nan")]])
def test_scores_that_rise_are_refused(tmp_path, scores):
    with pytest.raises(UsageError, match="follows one of"):
        write_run(tmp_path / "run.txt", {"q": [(str(row), score) for row, score in enumerate(scores)]})


@pytest.mark.parametrize("bad", ["", "a b", "a\n", "\u00a0"])
def test_white_space_is_refused_and_leaves_what_was_there(tmp_path, bad):
    path = tmp_path / "file.txt"
    write_run(path, {"q": [("a", 1.0)]})
    before = path.read_text()
    for write in (
        lambda: write_run(path, {"q": [("a", 1.0), (bad, 0.5)]}),
        lambda: write_run(path, {"q": [("a", 1.0)], bad: [("a", 1.0)]}),
        lambda: write_run(path, {"q": [("a", 1.0)]}, tag=bad),
        lambda: write_qrels(path, {"q": {"a": 1}, bad: {"a": 1}}),
        lambda: write_qrels(path, {"q": {"a": 1, bad: 1}}),
    ):
        with pytest.raises(UsageError, match="white space"):
            write()
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
