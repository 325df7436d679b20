import pytest

from retriever.core.errors import UsageError
from retriever.evaluation.trec import export

RANKINGS = {"poor food | service": [("d2", 0.5), ("d1", 0.5)]}
RELEVANT = {"poor food | service": {"d1": 1}}


def test_a_run_and_its_judgements_are_named_by_the_task(tmp_path):
    export(tmp_path, "first hit", RANKINGS, RELEVANT)
    assert [line.split()[:4] for line in (tmp_path / "first-hit.run").read_text().splitlines()] == [
        ["poor-food-|-service", "Q0", "d2", "1"],
        ["poor-food-|-service", "Q0", "d1", "2"],
    ]
    assert (tmp_path / "first-hit.qrels").read_text() == "poor-food-|-service 0 d1 1\n"


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export(None, "first hit", RANKINGS, RELEVANT)
    assert list(tmp_path.iterdir()) == []


def test_queries_that_would_become_one_are_refused(tmp_path):
    with pytest.raises(UsageError, match="white space alone"):
        export(tmp_path, "task", {}, {"a b": {"d": 1}, "a-b": {"d": 1}})
