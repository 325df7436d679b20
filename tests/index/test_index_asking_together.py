"""Several who have one question of one index read at the same time: no text is sent twice, and nobody goes without."""

import multiprocessing
import os
import threading
import time

import pytest
from answer_fakes import NAME, FakeReader, loads
from asking_index import PRODUCTS, TEXTS, WHO, made, opened, read_in_process

from retriever.store import asking


@pytest.fixture
def index(path, reader):
    with made(path) as index:
        index.teaching.read_by(WHO, NAME)
        yield index


class Waits(FakeReader):
    """Answers its first text once somebody else looks whether it has."""

    def __init__(self):
        super().__init__(PRODUCTS)
        self.began, self.looked = threading.Event(), threading.Event()

    def said(self, text, question):
        self.began.set()
        assert self.looked.wait(60)
        return super().said(text, question)


def test_two_openings_in_two_threads_send_no_text_twice_and_both_get_all_answers(index, monkeypatch):
    reader = loads(monkeypatch, Waits())
    first = threading.Thread(target=index.teaching.read, args=(WHO,))
    with opened(index.path) as other:
        first.start()
        assert reader.began.wait(60)
        other.teaching.read(WHO, progress=lambda report: reader.looked.set())
        assert len(other.teaching.answers(WHO)) == len(TEXTS)
        assert (other.teaching.spent.texts, other.teaching.spent.unread) == (0, 0)
    first.join()
    assert sorted(reader.asked) == sorted(TEXTS)
    assert len(index.teaching.answers(WHO)) == len(TEXTS)


def test_threads_that_share_an_opening_send_no_text_twice(index, monkeypatch):
    reader = loads(monkeypatch, Waits())
    first = threading.Thread(target=index.teaching.read, args=(WHO,))
    first.start()
    assert reader.began.wait(60)
    index.teaching.read(WHO, progress=lambda report: reader.looked.set())
    first.join()
    assert sorted(reader.asked) == sorted(TEXTS)
    assert index.teaching.spent.texts == len(TEXTS)


def in_processes(path, log, count, **options):
    """Have processes read the question of an index together; return their exit codes."""
    spawned = multiprocessing.get_context("spawn")
    together = spawned.Barrier(count)
    running = [
        spawned.Process(target=read_in_process, args=(path, log, together), kwargs=options) for _ in range(count)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    return [process.exitcode for process in running]


def test_two_processes_send_no_text_twice_and_both_get_all_answers(index, tmp_path):
    assert in_processes(index.path, tmp_path / "sent", 2) == [0, 0]
    assert sorted((tmp_path / "sent").read_text().splitlines()) == sorted(TEXTS)


def test_what_a_killed_process_was_asking_is_taken_over(index, reader, tmp_path):
    (code,) = in_processes(index.path, tmp_path / "sent", 1, deadly=TEXTS[3])
    assert code < 0
    sent = (tmp_path / "sent").read_text().splitlines()
    assert len(index.teaching.answers(WHO)) == len(sent) - 1 == 3
    looks = []

    def look(report):
        looks.append(report)
        assert len(looks) < 200, "it waits for a process that is gone"

    index.teaching.read(WHO, progress=look)
    assert len(index.teaching.answers(WHO)) == len(TEXTS)
    assert sorted([*sent[:-1], *reader.asked]) == sorted(TEXTS)


def claimed(index, owner):
    """Claim the first three texts for somebody; return their content ids."""
    store = index._opened.store
    author = index._opened.sources.active(WHO).by.fingerprint
    with store.writing(data=False):
        return store.claims.take(owner, author, WHO, store.documents.live_contents()[:3], None)


def test_a_process_on_another_machine_is_waited_for_until_it_shows_no_life(index, reader, monkeypatch):
    claimed(index, "elsewhere 1 x")
    looks = []

    def look(report):
        looks.append(report.in_hand)
        assert len(looks) < 200, "it waits for a claim that has run out"
        if report.in_hand == len(TEXTS) - 3 and looks.count(report.in_hand) == 3:
            assert len(reader.asked) == len(TEXTS) - 3
            late = time.time() + asking.CLAIM_SECONDS + 1
            monkeypatch.setattr(asking.time, "time", lambda: late)

    index.teaching.read(WHO, progress=look)
    assert sorted(reader.asked) == sorted(TEXTS)
    assert len(index.teaching.answers(WHO)) == len(TEXTS)


def test_a_process_of_another_person_is_alive_and_one_that_is_gone_is_not(index, monkeypatch):
    held = index._opened.store.claims.held_by_others
    mine = claimed(index, asking.owner_name("x")).tolist()
    author = index._opened.sources.active(WHO).by.fingerprint

    def kill(error):
        def signal(pid, number):
            assert (pid, number) == (os.getpid(), 0)
            raise error

        return signal

    assert held("me", author, WHO).tolist() == mine
    for error, alive in ((PermissionError(), mine), (ProcessLookupError(), [])):
        monkeypatch.setattr(asking.os, "kill", kill(error))
        assert held("me", author, WHO).tolist() == alive


def test_who_stops_waiting_leaves_the_others_claims(index, reader):
    mine = claimed(index, "elsewhere 1 x").tolist()

    def stop(report):
        if len(reader.asked) == len(TEXTS) - 3 and report.in_hand == len(TEXTS) - 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.teaching.read(WHO, progress=stop)
    store = index._opened.store
    author = index._opened.sources.active(WHO).by.fingerprint
    assert store.claims.held_by_others("me", author, WHO).tolist() == mine


def test_a_text_is_claimed_until_it_is_answered_and_no_longer(index):
    store, author = index._opened.store, index._opened.sources.active(WHO).by.fingerprint
    seen = []

    def look(report):
        held = store.claims.held_by_others("me", author, WHO)
        seen.append((len(held), len(store.answers.asked(author, WHO))))

    index.teaching.read(WHO, progress=look)
    assert seen == [(len(TEXTS) - answered, answered) for answered in range(1, len(TEXTS) + 1)]
