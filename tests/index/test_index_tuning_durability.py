import json
import sqlite3

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, BlindEncoder, FakeEncoder, TunableEncoder, found, gives_each
from teaching_corpus import CORPUS, EXAMPLES, mood, vectors

from retriever.core.errors import EncoderError, IndexDamagedError, InputError
from retriever.core.types import Document
from retriever.index import taught_index
from retriever.index.durability.archive import export_index, import_index
from retriever.index.durability.repair import repair
from retriever.index.durability.verify import Remedy, verify
from retriever.index.reembedding import forget, reembed, roll_back
from retriever.index.teaching import teacher
from retriever.store.database import DATABASE
from retriever.store.heads import _digest
from retriever.workspace import Index

QUESTION, PLAIN = BlindEncoder("blind"), TunableEncoder()
OTHER_QUESTION, OTHER_PLAIN, STIFF = BlindEncoder("second"), TunableEncoder("other"), FakeEncoder("stiff")
LOAD = gives_each(QUESTION, PLAIN, OTHER_QUESTION, OTHER_PLAIN, STIFF)


@pytest.fixture
def full(path):
    with Index(path, encoder=QUESTION, plain=PLAIN) as index:
        index.add(CORPUS, instructions=[MOOD])
        yield index


@pytest.fixture
def tuned(full):
    """An index whose views are the base view, the question's, the tuned one and the taught one."""
    full.teach(MOOD, EXAMPLES, tune=True)
    assert [(view.tuned, view.taught) for view in full.store.views.all()] == [
        (False, False),
        (False, False),
        (True, False),
        (False, True),
    ]
    return full


def search(path, question=QUESTION, plain=PLAIN):
    """Ids and scores of the best hits under the question, its lessons, and how many tuned views there are."""
    with Index(path, encoder=question, plain=plain) as index:
        result = index.search("love happy", instruction=MOOD, mode="dense", k=40)
        assert verify(path, deep=True, load=LOAD).findings == []
        lessons = index.lessons(MOOD)
        assert lessons is None or result.view == lessons.view
        return found(result), lessons, sum(view.tuned for view in index.store.views.all())


def is_good(hits):
    return {mood(CORPUS[int(id[1:])].text) for id, _ in hits} == {"good"}


def change(index, sql):
    index.close()
    with sqlite3.connect(index.path / DATABASE) as raw:
        assert raw.execute(sql).rowcount


def rewrite(index, **changes):
    """Store another record of the head, with a checksum of its own."""
    store, stored = index.store, index.store.heads.of(2)
    text = json.dumps({**stored.document, **changes}).replace("Infinity", "1e999")
    with store.transaction():
        values = (text, _digest(stored.arrays, text), stored.view_id)
        store._db.write("UPDATE heads SET document = ?, sha256 = ? WHERE view_id = ?", values)


def test_an_archive_carries_the_tuned_view(tuned, path, tmp_path):
    export_index(path, tmp_path / "out.tar")
    import_index(tmp_path / "out.tar", tmp_path / "there")
    assert search(tmp_path / "there") == search(path)
    with Index(tmp_path / "there", encoder=QUESTION, plain=PLAIN) as there:
        there.add([Document("new", "lamp proud cold")])
        assert there.store.vectors.count(3) == len(CORPUS) + 1
        assert sorted(one.name for one in (there.path / "views").iterdir()) == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM vectors WHERE view_id = 3 AND content_id IN (7, 8)", "lacks 2 texts of view 2"),
        (
            "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE view_id = 3 AND content_id IN (7, 8)",
            "differs from its checksum",
        ),
    ],
)
def test_tuned_vectors_that_are_gone_or_damaged_are_read_again(tuned, path, sql, problem):
    before, had = search(path), vectors(tuned, 3)
    change(tuned, sql)
    assert {one.problem for one in verify(path, deep=True, load=LOAD).findings} == {problem}
    PLAIN.tuned_read.clear()
    report = repair(path, load=LOAD)
    assert (report.mended, report.left) == (["2 vectors of view 3"], [])
    assert {text for _, text in PLAIN.tuned_read} == {CORPUS[6].text, CORPUS[7].text}
    assert not (path / "views" / "3").exists()
    assert search(path) == before
    with Index(path, encoder=QUESTION, plain=PLAIN) as index:
        for content_id, row in vectors(index, 3).items():
            np.testing.assert_array_equal(row, had[content_id])


def test_tuned_vectors_are_left_lacking_where_the_reader_does_not_load(tuned, path):
    change(tuned, "DELETE FROM vectors WHERE view_id = 3 AND content_id = 7")

    def gone(description):
        raise EncoderError("It is gone.")

    assert repair(path, load=gone).left == ["view 3 lacks vectors, and the encoder does not load: It is gone."]
    assert [one.problem for one in verify(path).findings] == ["lacks 1 texts of view 2"]
    repair(path, load=LOAD)
    assert is_good(search(path)[0])


def test_a_tuned_vector_that_is_another_is_found(tuned, path):
    store = tuned.store
    with store.transaction():
        other = -store.vectors.get(3, [7]).embeddings
        store._db.write("DELETE FROM vectors WHERE view_id = 3 AND content_id = 7")
        store.vectors.put(3, [7], other, [[]])
    tuned.close()
    assert verify(path, load=LOAD).findings == []
    named = {}
    for seed in range(40):  # each looks at 16 of the 96 vectors
        named |= {one.artefact: one for one in verify(path, deep=True, load=LOAD, seed=seed).findings}
    assert set(named) == {"vector of text 7 in view 3", "vector of text 7 in view 4"}
    assert "has a cosine of -1.000" in named["vector of text 7 in view 3"].problem
    assert named["vector of text 7 in view 4"].remedy is Remedy.TEACH


def test_repair_removes_a_tuned_view_that_no_head_names(full, path, monkeypatch):
    class StoppedError(Exception):
        pass

    def progress(report):
        if report.in_hand == 40 and not report.tuning:
            raise StoppedError

    monkeypatch.setattr(teacher, "READ_AT_ONCE", 40)
    with pytest.raises(StoppedError):
        full.teach(MOOD, EXAMPLES, tune=True, progress=progress)
    full.close()
    assert search(path)[1:] == (None, 1)
    assert repair(path, load=LOAD).left == []
    assert search(path)[1:] == (None, 0)


def test_without_its_head_a_tuned_view_goes(tuned, path):
    change(tuned, "DELETE FROM heads")
    assert verify(path).findings
    assert repair(path, load=LOAD).left == ["what 'How does the writer feel?' was taught was removed: teach it again."]
    assert search(path)[1:] == (None, 0)


@pytest.mark.parametrize("size", [0, -1, 10**9, 4, "many", None, [], float("inf")])
def test_a_fine_tuning_of_a_wrong_size_is_damage(tuned, path, tmp_path, size):
    rewrite(tuned, tuning={**tuned.store.heads.of(2).document["tuning"], "bytes": size})
    with pytest.raises(IndexDamagedError, match="taught"):
        tuned.search("love", instruction=MOOD, mode="dense")
    assert is_damaged(path)
    tuned.close()
    export_index(path, tmp_path / "out.tar")
    with pytest.raises(InputError, match="damaged"):
        import_index(tmp_path / "out.tar", tmp_path / "there")
    assert repair(path, load=LOAD).left == ["what 'How does the writer feel?' was taught was removed: teach it again."]
    assert search(path)[1:] == (None, 0)


@pytest.mark.parametrize("tuning", [None, [], "words", {"bytes": 4}, {"bytes": 4, "description": 3}])
def test_a_fine_tuning_that_is_none_is_damage(tuned, path, tuning):
    rewrite(tuned, tuning=tuning)
    with pytest.raises(IndexDamagedError, match="taught"):
        tuned.search("love", instruction=MOOD, mode="dense")
    assert is_damaged(path)


def test_a_fine_tuning_beside_the_base_view_is_damage(tuned, path):
    with tuned.store.transaction():
        tuned.store._db.write("UPDATE heads SET plain_id = 1")
    assert is_damaged(path)
    with (
        Index(path, encoder=QUESTION, plain=PLAIN) as index,
        pytest.raises(IndexDamagedError, match="does not fit its vectors"),
    ):
        index.search("love", instruction=MOOD, mode="dense")


def is_damaged(path):
    """Whether a deep check names what the question was taught, and nothing else."""
    return {(one.artefact, one.remedy) for one in verify(path, deep=True, load=LOAD).findings} == {
        ("what view 2 was taught", Remedy.TEACH)
    }


def test_a_fine_tuning_of_another_reader_is_named(tuned, path):
    rewrite(tuned, tuning={**tuned.store.heads.of(2).document["tuning"], "description": {"kind": "other"}})
    assert is_damaged(path)
    with pytest.raises(EncoderError, match="no tuning of cues"):
        tuned.search("love", instruction=MOOD, mode="dense")


def test_a_kill_at_any_commit_leaves_it_tuned_or_not(full, path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    for module, place, kept in (
        (teacher, "read_into", False),
        (teacher, "learn", False),
        (taught_index, "store_learned", False),
        (taught_index, "build_outgrown", True),
        (taught_index, "clear_dropped", True),
    ):
        monkeypatch.setattr(module, place, killed)
        with pytest.raises(Killed):
            full.teach(MOOD, EXAMPLES, tune=True)
        monkeypatch.undo()
        hits, lessons, _ = search(path)
        assert (lessons is not None, is_good(hits)) == (kept, kept)


def test_another_question_reader_is_tuned_for_anew_and_the_one_before_stays(tuned, path):
    before = search(path)
    tuned.close()
    done = reembed(path, OTHER_QUESTION, load=LOAD)
    assert (done.retaught[MOOD].tuned, done.untaught) == (True, {})
    hits, lessons, views = search(path, OTHER_QUESTION)
    assert (is_good(hits), lessons, views) == (True, done.retaught[MOOD], 2)  # the way back has one too
    PLAIN.tuned_read.clear()
    assert roll_back(path, load=None).retaught == {}
    assert PLAIN.tuned_read == []
    assert search(path) == (*before[:2], 2)
    forget(path)
    assert search(path) == before


def test_another_question_reader_stays_tuned_for_when_the_one_before_is_forgotten(tuned, path):
    tuned.close()
    reembed(path, OTHER_QUESTION, load=LOAD)
    before = search(path, OTHER_QUESTION)
    forget(path)
    assert search(path, OTHER_QUESTION) == (*before[:2], 1)
    with Index(path, encoder=OTHER_QUESTION, plain=PLAIN) as index:
        index.forget(MOOD)
    assert search(path, OTHER_QUESTION)[1:] == (None, 0)


def test_another_plain_reader_is_tuned_and_so_is_the_one_before(tuned, path):
    tuned.teach(FAULT, [(id, "bent" if answer == "good" else "loud") for id, answer in EXAMPLES], tune=True)
    tuned.close()
    done = reembed(path, plain=OTHER_PLAIN, load=LOAD)
    assert {asked: one.tuned for asked, one in done.retaught.items()} == {MOOD: True, FAULT: True}
    hits, _, views = search(path, plain=OTHER_PLAIN)
    assert (is_good(hits), views) == (True, 2)  # one a question
    with Index(path, encoder=QUESTION, plain=OTHER_PLAIN) as index:
        index.add([Document("new", "lamp proud cold")])
    done = roll_back(path, load=LOAD)
    assert {asked: one.tuned for asked, one in done.retaught.items()} == {MOOD: True, FAULT: True}
    assert search(path)[2] == 2


def test_beside_a_plain_reader_that_cannot_be_tuned_the_question_is_taught_untuned(tuned, path):
    tuned.close()
    done = reembed(path, plain=STIFF, load=LOAD)
    assert done.untaught == {}
    assert done.retaught[MOOD].tuned is None
    with Index(path, encoder=QUESTION, plain=STIFF) as index:
        assert index.lessons(MOOD) == done.retaught[MOOD]
        assert not any(view.tuned for view in index.store.views.all())
    assert verify(path, deep=True, load=LOAD).findings == []


def test_without_a_plain_reader_the_question_is_taught_untuned(tuned, path):
    tuned.close()
    done = reembed(path, plain="none", load=LOAD)
    assert done.retaught[MOOD].tuned is None
    with Index(path, encoder=QUESTION) as index:
        assert index.lessons(MOOD) == done.retaught[MOOD]
        assert not any(view.tuned for view in index.store.views.all())
    assert verify(path, deep=True, load=LOAD).findings == []
