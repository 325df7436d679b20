from retriever.core.types import BadRow
from retriever.store.database import Store, identity_of


def test_a_run_is_recorded_from_start_to_end(store):
    run_id = store.runs.start("index a.jsonl", {"retriever": "1"})
    store.runs.progress(run_id, {"added": 3})
    (run,) = store.runs.last()
    assert (run.command, run.status, run.finished, run.statistics) == ("index a.jsonl", "running", None, {"added": 3})
    store.runs.finish(run_id, "partial", {"added": 5})
    (run,) = store.runs.last()
    assert (run.status, run.statistics, run.versions) == ("partial", {"added": 5}, {"retriever": "1"})
    assert run.finished >= run.started


def test_finish_without_statistics_keeps_the_last_ones(store):
    run_id = store.runs.start("index")
    store.runs.progress(run_id, {"added": 3})
    store.runs.finish(run_id, "interrupted")
    assert store.runs.last()[0].statistics == {"added": 3}


def test_last_gives_the_newest_first(store):
    first, second, third = (store.runs.start(name) for name in "abc")
    assert [run.run_id for run in store.runs.last(2)] == [third, second]
    assert first < second


def test_quarantine_keeps_any_row(store):
    run_id, other = store.runs.start("index"), store.runs.start("index")
    rows = [BadRow("a.jsonl", 3, None, "not JSON", "{"), BadRow("a.jsonl", 9, "x", "NUL", "a\udcffb")]
    store.runs.quarantine(run_id, rows)
    assert store.runs.quarantined(run_id) == [rows[0], BadRow("a.jsonl", 9, "x", "NUL", "a\\udcffb")]
    assert store.runs.quarantined(other) == []


def test_an_index_is_known_by_its_first_run(path, tmp_path):
    with Store.open(path, create=True) as store:
        assert store.identity() == identity_of(path) == ""
        store.runs.start("index")
        identity = store.identity()
        assert identity == f"1 {store.runs.last(1)[0].started}"
        store.runs.start("delete")
        store.settings.set("a", 1)
        assert store.identity() == identity_of(path) == identity
    assert identity_of(tmp_path / "none") == ""
