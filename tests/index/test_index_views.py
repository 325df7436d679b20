import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from index_fakes import FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, documents, found

from retriever.core.errors import InputError, UsageError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.index import view_upkeep
from retriever.store import connection
from retriever.store.database import DATABASE
from retriever.store.lock import LOCK_NAME, WriterLock
from retriever.workspace import Index

TEXTS = ("toy sad slow", "lamp love hot", "mug hate loud")


@pytest.fixture
def full(index):
    index.add(documents(*TEXTS), instructions=[MOOD])
    return index


def files(index):
    return sorted(one.relative_to(index.path).parts[1] for one in index.path.glob("views/*/*.faiss"))


def test_a_view_says_what_it_holds(full):
    base, mood = full.views()
    assert (base.instruction, mood.instruction) == ("", MOOD)
    assert (mood.coverage, mood.vectors, mood.bytes, mood.lazy) == (1.0, 3, 3 * 16 * 2, False)
    assert mood.encoder == "fake00000000"  # without a name, by the fingerprint


def test_what_searches_fill_is_lazy_until_somebody_asks_for_the_whole(full):
    full.search("slow", instruction=FAULT)
    assert [view.lazy for view in full.views()] == [False, False, True]
    assert full.search("slow", instruction=FAULT).path == "complete"
    assert full.views()[2].lazy
    full.upkeep.complete([FAULT])
    assert not full.views()[2].lazy
    full.search("slow", instruction=FAULT)
    assert not full.views()[2].lazy


def test_the_last_use_is_noted_once_an_hour(full, monkeypatch):
    def used():
        return [view.last_used for view in full.views()]

    with sqlite3.connect(full.path / DATABASE) as raw:
        raw.execute("UPDATE views SET last_used = ''")
    full.search("slow", mode="dense")
    base, mood = used()
    assert base
    assert not mood
    full.search("slow", instruction=MOOD)
    assert used()[1]
    with sqlite3.connect(full.path / DATABASE) as raw:
        raw.execute("UPDATE views SET last_used = ''")
    full.search("slow", instruction=MOOD)
    assert used() == ["", ""]
    monkeypatch.setattr("retriever.index.open_views.NOTED_EVERY", -1.0)
    full.search("slow", instruction=MOOD)
    assert used()[1]


def test_clustering_and_completing_are_uses(full):
    def forget_use():
        with sqlite3.connect(full.path / DATABASE) as raw:
            raw.execute("UPDATE views SET last_used = ''")

    forget_use()
    full.cluster(MOOD, k=1)
    assert [bool(view.last_used) for view in full.views()] == [False, True]
    forget_use()
    full.upkeep.complete([""])
    assert [bool(view.last_used) for view in full.views()] == [True, False]


def test_a_note_of_use_waits_for_nobody(full, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_SECONDS", 3600.0)
    other = sqlite3.connect(full.path / DATABASE, isolation_level=None)
    with closing(other), ThreadPoolExecutor(1) as thread:
        other.execute("BEGIN IMMEDIATE")
        version = full._opened.store.data_version()
        searched = thread.submit(full.search, "slow", mode="dense")
        try:
            assert searched.result(120).hits
        finally:
            other.execute("ROLLBACK")
    assert full._opened.store.data_version() == version


def test_a_dropped_view_is_gone_with_its_vectors_and_files(full):
    full.search("slow", instruction=FAULT)
    assert files(full) == ["1", "2"]
    full.upkeep.drop_views([f" {MOOD} ", FAULT])
    assert [view.instruction for view in full.views()] == [""]
    assert files(full) == ["1"]
    assert not (full.path / "views/2").exists()
    assert full._opened.store.generations.obsolete() == []
    assert full._opened.store._db.number("SELECT COUNT(*) FROM vectors") == 3
    assert full.status().runs[0]["command"] == "drop"


def test_a_dropped_view_can_be_had_again(full, encoder):
    before = found(full.search("love", instruction=MOOD, mode="dense"))
    full.upkeep.drop_views([MOOD])
    encoder.forget()
    assert len(list(full.search_progressively(SearchRequest("love", instruction=MOOD, mode="dense")))) == 2
    assert sorted(encoder.read) == sorted((text, MOOD) for text in TEXTS)
    assert found(full.search("love", instruction=MOOD, mode="dense")) == before
    assert full.views()[1].view == 3


def test_files_that_a_killed_drop_left_go_with_the_next_upkeep(full, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(view_upkeep, "clear_view", killed)
    with pytest.raises(KeyboardInterrupt):
        full.upkeep.drop_views([MOOD])
    monkeypatch.undo()
    assert [view.instruction for view in full.views()] == [""]
    assert files(full) == ["1", "2"]
    assert full.search("love", mode="dense").hits
    full.upkeep.repair()
    assert files(full) == ["1"]
    assert full._opened.store.generations.obsolete() == []


def test_a_folder_that_is_not_a_views_stays(full):
    (full.path / "views/notes").mkdir()
    (full.path / "views/2/mine.txt").write_text("kept")
    full.upkeep.drop_views([MOOD])
    assert (full.path / "views/notes").exists()
    assert [one.name for one in (full.path / "views/2").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ([""], UsageError, "The base view cannot be dropped"),
        ([MOOD, " "], UsageError, "The base view cannot be dropped"),
        ([MOOD, FAULT], InputError, "There is no view of 'What broke?'"),
        ([PRODUCT[:-1]], InputError, "There is no view"),
    ],
)
def test_what_cannot_be_dropped_drops_nothing(full, asked, error, says):
    with pytest.raises(error, match=says.replace("?", r"\?")):
        full.upkeep.drop_views(asked)
    assert [view.instruction for view in full.views()] == ["", MOOD]
    assert full.status().runs[0]["command"] == "index"


EACH = 16 * 2
"""Bytes of a vector."""


@pytest.fixture
def many(path):
    """Six texts, of which a lazy search reads two, and the others once it holds most."""
    with Index(path, encoder=FakeEncoder(), search_options=SearchOptions(rounds=1, candidates=1)) as index:
        products, moods = KEYWORDS[PRODUCT][:6], KEYWORDS[MOOD][:6]
        index.add([Document(word, f"{word} {mood}") for word, mood in zip(products, moods, strict=True)])
        yield index


def ask(index, product, instruction):
    """Search so that the texts of the product and of the next one are read."""
    following = KEYWORDS[instruction][(KEYWORDS[PRODUCT].index(product) + 1) % 6]  # stands where that product does
    return index.search(f"{product} {following}", instruction=instruction, k=1, mode="dense")


def held(index):
    return {view.instruction: view.vectors for view in index.views()}


def stored(index, instruction):
    """The ids of documents with a vector in a view, in the order they were stored."""
    rows = index._opened.store._db.rows(
        "SELECT id FROM vectors JOIN views USING (view_id) JOIN documents USING (content_id) WHERE instruction = ? "
        "ORDER BY vector_id",
        (instruction,),
    )
    return [row[0] for row in rows]


def test_the_view_used_longest_ago_loses_its_vectors_first(many):
    for instruction in (MOOD, FAULT):
        for product in ("toy", "lamp", "knife"):
            ask(many, product, instruction)
    before = held(many)
    assert before == {"": 6, MOOD: 4, FAULT: 4}
    order = stored(many, MOOD)
    many.upkeep.lazy_limit = (before[FAULT] + 2) * EACH
    kept = (before[FAULT] + 2) * 9 // 10
    assert held(many) == {"": 6, MOOD: kept - before[FAULT], FAULT: before[FAULT]}
    assert stored(many, MOOD) == order[before[FAULT] - kept :]


def test_the_limit_is_held_after_every_lazy_search(many):
    many.upkeep.lazy_limit = 4 * EACH
    for product in KEYWORDS[PRODUCT][:6]:
        for instruction in (MOOD, FAULT):
            answer = ask(many, product, instruction)
            assert answer.hits[0].score is not None
            assert sum(held(many).values()) <= 6 + 4
    assert held(many)[FAULT] >= 2


def test_what_was_removed_is_read_again(many):
    first = ask(many, "toy", MOOD)
    many.upkeep.lazy_limit = 0
    assert held(many) == {"": 6, MOOD: 0}
    many._opened.sources.encoders.question.forget()
    again = ask(many, "toy", MOOD)
    assert (again.path, again.hits) == ("lazy", first.hits)
    assert len(many._opened.sources.encoders.question.read) == 2
    assert held(many) == {"": 6, MOOD: 0}


def test_base_and_completed_views_lose_nothing(many):
    ask(many, "toy", FAULT)
    many.upkeep.complete([MOOD])
    many.upkeep.lazy_limit = 0
    assert held(many) == {"": 6, FAULT: 0, MOOD: 6}
    ask(many, "toy", FAULT)
    assert held(many) == {"": 6, FAULT: 0, MOOD: 6}
    many.upkeep.complete([FAULT])
    assert held(many) == {"": 6, FAULT: 6, MOOD: 6}


def test_what_is_completed_for_a_part_may_be_removed(many):
    chosen = KEYWORDS[PRODUCT][:2]
    many.cluster(MOOD, k=1, ids=chosen)
    assert [view.lazy for view in many.views()] == [False, True]
    many.upkeep.lazy_limit = 0
    assert held(many) == {"": 6, MOOD: 0}
    many.upkeep.complete([MOOD], ids=chosen)
    many.upkeep.complete([MOOD])
    many.cluster(MOOD, k=1, ids=chosen)
    many.upkeep.lazy_limit = 0
    assert held(many) == {"": 6, MOOD: 6}


def test_a_compacted_view_that_shrinks_loses_its_file_and_answers_right(many):
    for product in ("toy", "lamp", "knife"):
        ask(many, product, MOOD)
    many.upkeep.repair()
    assert files(many) == ["1", "2"]
    expected = found(ask(many, "toy", MOOD))
    many.upkeep.lazy_limit = 2 * EACH
    assert held(many)[MOOD] == 1
    assert files(many) == ["1"]
    assert many._opened.store.generations.obsolete() == []
    many.upkeep.lazy_limit = None
    assert found(ask(many, "toy", MOOD)) == expected
    for product in KEYWORDS[PRODUCT][:6]:
        ask(many, product, MOOD)
    result = many.search("toy", instruction=MOOD, mode="dense")
    assert (result.path, sorted(hit.document.id for hit in result.hits)) == ("complete", sorted(KEYWORDS[PRODUCT][:6]))


def test_nothing_is_removed_while_another_writes(many):
    many.upkeep.lazy_limit = 0
    with WriterLock(many.path / LOCK_NAME):
        assert ask(many, "toy", MOOD).hits
    assert held(many)[MOOD] == 2
    ask(many, "lamp", MOOD)
    assert held(many)[MOOD] == 0


def test_a_limit_below_nothing_is_refused(many):
    with pytest.raises(UsageError, match="-1 bytes"):
        many.upkeep.lazy_limit = -1
    assert many.upkeep.lazy_limit is None
