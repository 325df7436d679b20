import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace

import pytest
from index_fakes import FAULT, MOOD
from shard_fakes import make, text_of

from retriever.core.errors import IndexLockedError, RetrieverError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.shards.fleet import GRACE
from retriever.shards.messages import Gone
from retriever.shards.transport import InProcess
from retriever.store.lock import WriterLock
from retriever.workspace import Index

DEADLINE = 3.0  # on a busy machine


class Unreliable(InProcess):
    """Shards in this process that can be gone, or late, or lost at a question."""

    def __init__(self, folders, **options):
        super().__init__(folders, **options)
        self.gone, self.late, self.lost_at, self.slow = set(), set(), {}, 0.0
        self.asked = Counter()

    def send(self, part, question, version, arguments):
        self.asked[question] += 1
        if part in self.gone or self.lost_at.get(part) == question:
            lost = Future()
            lost.set_result(Gone("killed"))
            return lost
        if part in self.late:
            return Future()
        return super().send(part, question, version, arguments)

    def _asked(self, part, question, version, arguments):
        time.sleep(self.slow * (question == "state"))
        return super()._asked(part, question, version, arguments)


@pytest.fixture
def both(tmp_path):
    both = make(tmp_path, parts=4)
    both.sharded.close()
    folders = both.sharded.fleet.manifest.folders(both.sharded.path)
    both.sharded.__init__(
        both.sharded.path,
        encoder=both.sharded._given,
        search_options=both.sharded._search_options,
        transport=Unreliable(folders),
        deadline=DEADLINE,
    )
    yield both
    both.single.close()
    both.sharded.close()


@pytest.fixture
def shards(both):
    return both.sharded.fleet.transport


def documents_of(both, part):
    """The ids of the documents in a shard."""
    with Index(both.sharded.path / f"shard-{part:04}") as shard:
        return set(shard.store.documents.ids())


def until_whole(both):
    """Search until all shards answer: one that is back has a moment for it, in which a busy machine may do nothing."""
    end = time.monotonic() + 60
    while both.sharded.search("toy love", mode="lexical").seen < 1:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("how", ["gone", "late"])
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
def test_a_shard_that_does_not_answer_is_told_of_and_the_rest_is_right(both, shards, how, mode):
    request = SearchRequest(["toy love well-known"], MOOD, 300, None, mode)
    both.compare(request)
    whole = both.single.search_many(request)[0]
    lost = documents_of(both, 2)
    getattr(shards, how).add(2)
    started = time.monotonic()
    partial = both.sharded.search_many(request)[0]
    assert time.monotonic() - started < 2 * DEADLINE  # and not one for each of its questions
    assert partial.seen == pytest.approx(1 - len(lost) / len(both.ids))
    assert partial.to_json()["seen"] == round(partial.seen, 4)
    expected = {hit.document.id: hit for hit in whole.hits if hit.document.id not in lost}
    assert {hit.document.id for hit in partial.hits} == set(expected)
    # What orders the hits is what it is in the whole: nobody's number moves because another's shard is gone.
    assert {hit.document.id: (hit.score, hit.percentile) for hit in partial.hits} == {
        id: (hit.score, hit.percentile) for id, hit in expected.items()
    }
    if mode != "hybrid":  # there a text without a cosine counts as far as the last that has one
        assert [(hit.document.id, hit.fused) for hit in partial.hits] == [
            (id, hit.fused) for id, hit in expected.items()
        ]


def test_a_shard_that_is_back_is_asked_again(both, shards):
    request = SearchRequest(["toy love"], MOOD)
    both.compare(request)
    for how in (shards.gone, shards.late):
        how.add(1)
        assert both.sharded.search_many(request)[0].seen < 1
        how.clear()
        until_whole(both)
        both.compare(request)


def test_a_late_shard_is_waited_for_once_and_not_by_every_answer(both, shards):
    request = SearchRequest(["toy love"], MOOD)
    both.compare(request)
    shards.late.add(3)
    both.sharded.search_many(request)
    started = time.monotonic()
    for _ in range(5):
        assert both.sharded.search_many(request)[0].seen < 1
    assert time.monotonic() - started < 3 * DEADLINE  # not five


def test_a_router_that_begins_while_a_shard_is_gone(both, shards):
    shards.gone.add(0)
    found = both.sharded.search("toy love", instruction=MOOD)
    assert 0 < found.seen < 1
    shards.gone.clear()
    until_whole(both)
    both.compare(SearchRequest(["toy love"], MOOD))


def test_a_lazy_search_goes_on_without_a_shard_and_all_agree_when_it_is_back(both, shards):
    shards.gone.add(2)
    answers = list(both.sharded.search_progressively(SearchRequest(["toy love"], FAULT)))
    assert len(answers) == 2
    assert all(one.seen < 1 for (one,) in answers)
    shards.gone.clear()
    both.single.complete([FAULT])
    both.sharded.complete([FAULT])
    for _ in range(20):
        both.compare(both.request())


def test_no_shard_at_all(both, shards):
    shards.gone.update(range(4))
    with pytest.raises(RetrieverError, match=r"No shard of .*shards answers: killed\."):
        both.sharded.search("toy love")


def test_nothing_is_written_while_a_shard_is_gone(both, shards):
    shards.gone.add(1)
    with pytest.raises(RetrieverError, match="does not answer; nothing was written"):
        both.sharded.add([Document("new", "toy love")])
    with pytest.raises(RetrieverError, match="does not answer"):
        both.sharded.delete(both.ids[:3])
    shards.gone.clear()
    until_whole(both)
    for _ in range(5):
        both.compare(both.request())


@pytest.mark.parametrize("part", range(4))
def test_a_shard_lost_in_the_middle_of_a_change(both, shards, part):
    texts = {one.id: one.text for one in both.single.documents(both.ids).values()}
    ids = both.rng.sample(both.ids, 30)
    rows = [Document(id, texts[other], {"stars": 2}) for id, other in zip(ids, reversed(ids), strict=True)]
    shards.lost_at[part] = "change"
    with pytest.raises(RetrieverError, match="was lost"):
        both.sharded.add(rows)
    shards.lost_at.clear()
    both.sharded.search("toy love")  # the shards are brought to the same change
    both.single.add(rows)
    both.sharded.add(rows)
    assert len(both.sharded.store.documents) == len(both.single.store.documents)
    assert both.sharded.documents(both.ids) == both.single.documents(both.ids)
    for mode in ("dense", "lexical", "hybrid"):
        both.compare(SearchRequest(["toy love sad"], MOOD, 40, None, mode))
    assert not (both.sharded.path / "moves.json").exists()


def test_a_writer_killed_between_putting_and_deleting_leaves_no_document_twice(both, shards, monkeypatch):
    texts = {one.id: one.text for one in both.single.documents(both.ids).values()}
    ids = both.rng.sample(both.ids, 30)
    rows = [Document(id, texts[other]) for id, other in zip(ids, reversed(ids), strict=True)]
    fleet, told = both.sharded.fleet, both.sharded.fleet.told

    def killed(parts, question, arguments=()):
        if question == "change" and isinstance(arguments, dict) and any(one[0].deletes for one in arguments.values()):
            raise KeyboardInterrupt
        return told(parts, question, arguments)

    monkeypatch.setattr(fleet, "told", killed)
    with pytest.raises(KeyboardInterrupt):
        both.sharded.add(rows)
    monkeypatch.undo()
    both.single.add(rows)
    both.sharded.search("toy love")
    assert len(both.sharded.store.documents) == len(both.single.store.documents)
    both.sharded.add(rows)
    assert both.sharded.documents(both.ids) == both.single.documents(both.ids)


def test_what_somebody_else_writes_into_a_shard_is_seen_by_the_next_answer(both):
    both.compare(SearchRequest(["toy love"], MOOD))
    with Index(both.sharded.path / "shard-0001", encoder=both.sharded._given) as shard:
        gone = sorted(shard.store.documents.ids())[:5]
        shard.delete(gone)
    both.single.delete(gone)
    both.ids = sorted(set(both.ids).difference(gone))
    for _ in range(5):
        both.compare(both.request())


def test_every_answer_is_of_one_change(both):
    """A change adds one document to every shard, or takes them all away: who sees one of them sees all."""
    marks = {f"m{number}": f"shy {number}" for number in range(8)}
    both.sharded.search("shy", mode="lexical")
    stop, wrong, seen = threading.Event(), [], Counter()

    def read():
        while not stop.is_set():
            hits = both.sharded.search("shy", k=300, mode="lexical").hits
            count = sum(hit.document.id in marks for hit in hits)
            seen[count] += 1
            if count not in (0, len(marks)):
                wrong.append(count)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for one in readers:
        one.start()
    try:
        end = time.monotonic() + 60
        while not seen[0]:  # they read before anything is written
            assert time.monotonic() < end
            time.sleep(0.01)
        for _ in range(4):
            both.sharded.add([Document(id, text) for id, text in marks.items()])
            both.sharded.delete(list(marks))
    finally:
        stop.set()
        for one in readers:
            one.join()
    assert not wrong


def test_one_writer_at_a_time(both):
    with WriterLock(both.sharded.path / "writer.lock"), pytest.raises(IndexLockedError):
        both.sharded.add([replace(text_of(both.rng), id="new")])
    with WriterLock(both.sharded.path / "shard-0002" / "writer.lock"), pytest.raises(IndexLockedError):
        both.sharded.delete(both.ids)
    both.sharded.delete(both.ids[:3])
    both.single.delete(both.ids[:3])
    both.compare(SearchRequest(["toy love"], MOOD))


def test_a_search_asks_every_shard_a_few_times(both, shards):
    """Word counts, words, vectors (again while texts tie with the last), documents; nothing about its state."""
    request = SearchRequest(["mug proud"], MOOD, 10, None, "hybrid")
    both.sharded.search_many(replace(request, queries=["toy sad"]))
    shards.asked.clear()
    both.sharded.search_many(request)
    assert set(shards.asked) == {"word_counts", "ranked_by_words", "nearest", "expand"}
    assert (shards.asked["word_counts"], shards.asked["ranked_by_words"]) == (4, 4)
    assert shards.asked["expand"] <= 4
    shards.asked.clear()
    both.sharded.search_many(request)
    assert "word_counts" not in shards.asked  # until something changes


def test_shards_that_are_all_late_are_waited_for(both, shards):
    request = SearchRequest(["toy love"], MOOD)
    both.compare(request)
    shards.late.update(range(4))
    with pytest.raises(RetrieverError, match="none came in time"):
        both.sharded.search_many(request)
    shards.late.clear()
    shards.slow = 3 * GRACE  # what is waited for where others have answered
    both.compare(request)
