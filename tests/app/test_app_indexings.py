"""Indexings that the app begins: stopped, gone on with, several at a time."""

import json
import threading

from app_checks import PATIENCE, click, drop, finish, shown, whole
from app_fakes import OWN_COLUMNS

from retriever.index.indexing import IndexingOptions
from retriever.workspace import Index
from retriever_app import resources
from retriever_app.pages.corpus import job as intake


def test_an_indexing_stops_between_batches_and_goes_on(indexes, app, gated):
    batch = IndexingOptions().batch
    rows = "".join(f"The toy broke on day {row}.;Toy;1;2024-01-10\n" for row in range(batch + 4))
    session = app("corpus")
    drop(session, "a.csv", f"{OWN_COLUMNS.splitlines()[0]}\n{rows}".encode())
    click(session, "Index")
    job = resources.jobs().find("index a")
    other = app("corpus")
    assert "Indexing a.csv into a" in shown(other)
    assert gated.reached.wait(PATIENCE)
    click(other, "Stop")
    assert job.snapshot().status == "stopping"
    gated.gate.set()
    assert job.wait(PATIENCE).status == "stopped"
    whole(other.run())
    assert "was stopped. The reviews read so far stay in the index." in shown(other)
    with Index(indexes / "a", encoder=gated) as index:
        stored = len(index._opened.store.documents)
    assert 0 < stored < batch
    finish(click(other, "Continue"), "a")
    assert f"{batch + 4 - stored:,} reviews added, {stored:,} unchanged" in shown(other)


def begin(session, name):
    """Drop the file again and index it under a name."""
    drop(session, "a.csv", OWN_COLUMNS.encode())
    session.text_input[0].set_value(name).run()
    return click(session, "Index")


def files(indexes):
    return {file: file.stat().st_ino for file in (indexes / intake.UPLOADS_FOLDER).glob("*/a.csv")}


def test_one_file_becomes_two_indexes_at_once(indexes, app, gated, monkeypatch):
    monkeypatch.setattr("retriever_app.pages.corpus.model.SEEN_SECONDS", 60)
    session = begin(app("corpus"), "one")
    first = files(indexes)
    begin(session, "two")
    assert len(files(indexes)) == 2
    assert files(indexes).items() > first.items()
    gated.gate.set()
    assert resources.jobs().find("index one").wait(PATIENCE).over
    finish(session, "two")
    assert shown(session).count("6 reviews added") == 2
    assert "is done" not in shown(app("corpus"))
    assert shown(whole(session.run())).count("is done") == 2  # nobody may have seen the first run
    monkeypatch.setattr("retriever_app.pages.corpus.model.SEEN_SECONDS", 0)
    assert "is done" not in shown(whole(session.run()))
    assert not list((indexes / intake.UPLOADS_FOLDER).glob("*"))


def test_an_index_takes_one_file_after_the_other(indexes, app, gated):
    session = begin(app("corpus"), "one")
    begin(session, "one")
    assert "Indexing a.csv into one is still going on." in shown(session)
    whole(session.run())
    assert "The indexing of a.csv was not finished." in shown(session)
    gated.gate.set()
    finish(session, "one")
    finish(click(session, "Continue"), "one")
    assert "6 unchanged" in shown(session)


def test_what_an_index_holds_can_be_searched_while_it_takes_more(indexes, app, gated):
    session = begin(app("corpus"), "one")
    assert not session.get("page_link")  # it holds nothing yet
    gated.gate.set()
    finish(session, "one")
    gated.gate.clear()
    more = OWN_COLUMNS + "One more kettle.;Kettle;1;2024-01-01\n"
    drop(session, "b.csv", more.encode())
    session.text_input[0].set_value("one").run()
    session = click(session, "Index")
    (link,) = session.get("page_link")
    assert link.proto.label == "Search the first 6 reviews"
    assert (link.proto.page, link.proto.query_string) == ("search", "index=one")
    gated.gate.set()


def test_a_plan_for_a_name_that_leads_elsewhere_is_told(indexes, app):
    kept = intake.keep(indexes, "a.csv", OWN_COLUMNS.encode())
    intake.note(intake.Plan(kept, "../elsewhere", intake.preview(kept).columns))
    session = click(app("corpus"), "Continue")
    assert "'../elsewhere' cannot be the name of an index." in shown(session)
    assert not resources.jobs().named("")


def test_what_is_deleted_is_the_folder_of_the_plan_alone(indexes, app, tmp_path):
    precious = tmp_path / "precious" / "a.csv"
    precious.parent.mkdir()
    precious.write_text(OWN_COLUMNS)
    kept = intake.keep(indexes, "a.csv", OWN_COLUMNS.encode())
    intake.note(intake.Plan(kept, "a", intake.preview(kept).columns))
    note = kept.with_name(intake.NOTE)
    said = json.loads(note.read_text())
    assert said["file"] == "a.csv"
    note.write_text(json.dumps(said | {"file": str(precious)}))
    click(app("corpus"), "Discard")
    assert precious.exists()
    assert not kept.parent.exists()


UNREADABLE = [
    "",
    "{",
    "[]",
    '{"file": 1, "index": "a", "columns": {}, "instructions": []}',
    '{"file": "a.csv", "index": [], "columns": {}, "instructions": []}',
    '{"file": "a.csv", "index": "a", "columns": {"stars": 1}, "instructions": []}',
    '{"file": "a.csv", "index": "a", "columns": {}, "instructions": 3}',
]


def test_a_plan_that_cannot_be_read_breaks_nothing(indexes, app):
    kept = intake.keep(indexes, "a.csv", OWN_COLUMNS.encode())
    for note in UNREADABLE:
        kept.with_name(intake.NOTE).write_text(note)
        assert intake.unfinished(indexes)[1] == [kept.parent]
    session = app("corpus")
    assert "its plan cannot be read" in shown(session)
    assert session.file_uploader
    click(session, "Discard")
    assert "cannot be read" not in shown(session)
    assert not kept.exists()


def test_an_indexing_that_the_server_did_not_survive_is_offered_again(indexes, app):
    kept = intake.keep(indexes, "a.csv", OWN_COLUMNS.encode())
    intake.note(intake.Plan(kept, "a", intake.preview(kept).columns))
    session = app("corpus")
    assert "The indexing of a.csv was not finished" in shown(session)
    finish(click(session, "Continue"), "a")
    assert "6 reviews added" in shown(session)


def test_an_indexing_waits_for_what_writes_to_the_index_and_can_be_stopped_meanwhile(indexes, app, gated):
    go = threading.Event()
    other = resources.jobs().start("other", "Teaching", lambda job: go.wait(PATIENCE), line=resources.line("a"))
    session = begin(app("corpus"), "a")
    (bar,) = session.get("progress")
    assert "waiting for Teaching, number 1 in the line" in bar.proto.text
    job = resources.jobs().find("index a")
    assert job.snapshot().status == "waiting"
    click(session, "Stop")
    assert job.snapshot().status == "stopped"
    go.set()
    assert other.wait(PATIENCE).status == "done"
    assert not (indexes / "a").exists()
