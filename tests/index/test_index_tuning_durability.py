import json

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, BlindEncoder, FakeEncoder, TunableEncoder, found, gives_each, views_by_kind
from teaching_corpus import CORPUS, EXAMPLES, change, mood, vectors

from retriever.core.errors import EncoderError, IndexDamagedError, InputError
from retriever.core.types import Document
from retriever.index.reembedding import forget, reembed, roll_back
from retriever.index.teaching import teacher
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import Remedy, verify
from retriever.store.sources import _digest
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
    full.teaching.teach(MOOD, EXAMPLES, tune=True)
    kinds = {kind: [view.view_id for view in views] for kind, views in views_by_kind(full).items()}
    assert kinds == {"read": [1, 2], "tuned": [3], "taught": [4]}
    return full


def search(path, question=QUESTION, plain=PLAIN):
    """Ids and scores of the best hits under the question, its lessons, and how many tuned views there are."""
    with Index(path, encoder=question, plain=plain) as index:
        result = index.search("love happy", instruction=MOOD, mode="dense", k=40)
        assert verify(path, deep=True, load=LOAD).findings == []
        lessons = index.teaching.lessons(MOOD)
        assert lessons is None or result.view == lessons.view
        return found(result), lessons, len(views_by_kind(index).get("tuned", []))


def is_good(hits):
    return {mood(CORPUS[int(id[1:])].text) for id, _ in hits} == {"good"}


def rewrite(index, view_id, state):
    """Store another record of a source, with a checksum of its own."""
    store, stored = index._opened.store, index._opened.store.sources.get(view_id)
    text = json.dumps(state)
    with store.transaction():
        values = (text, _digest(stored.arrays, text), view_id)
        store._db.write("UPDATE sources SET state = ?, sha256 = ? WHERE view_id = ?", values)


def test_an_archive_carries_the_tuned_view(tuned, path, tmp_path):
    export_index(path, tmp_path / "out.tar")
    import_index(tmp_path / "out.tar", tmp_path / "there")
    assert search(tmp_path / "there") == search(path)
    with Index(tmp_path / "there", encoder=QUESTION, plain=PLAIN) as there:
        there.add([Document("new", "lamp proud cold")])
        assert there._opened.store.vectors.count(3) == len(CORPUS) + 1
        assert sorted(one.name for one in (there.path / "views").iterdir()) == ["1", "2", "4"]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM vectors WHERE view_id = 3 AND content_id IN (7, 8)", "lacks 2 texts of what it is made of"),
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
    assert (report.rebuilt, report.lost) == (["2 vectors of view 3"], [])
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

    (lost,) = repair(path, load=gone).lost
    assert lost.endswith("the encoder does not load (It is gone.); put it back and repair again")
    assert [one.problem for one in verify(path).findings] == ["lacks 1 text of what it is made of"]
    repair(path, load=LOAD)
    assert is_good(search(path)[0])


def test_a_tuned_vector_that_is_another_is_found(tuned, path, monkeypatch):
    store = tuned._opened.store
    with store.transaction():
        other = -store.vectors.get(3, [7]).embeddings
        store._db.write("DELETE FROM vectors WHERE view_id = 3 AND content_id = 7")
        store.vectors.put(3, [7], other, [[]])
    tuned.close()
    assert verify(path, load=LOAD).findings == []
    monkeypatch.setattr("retriever.index.upkeep.verify.SAMPLE", 96)  # every vector
    named = {one.artefact: one for one in verify(path, deep=True, load=LOAD).findings}
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
        full.teaching.teach(MOOD, EXAMPLES, tune=True, progress=progress)
    full.close()
    assert search(path)[1:] == (None, 1)
    assert repair(path, load=LOAD).lost == []
    assert search(path)[1:] == (None, 0)


def test_without_its_head_a_tuned_view_goes(tuned, path):
    change(tuned, "DELETE FROM sources")
    assert verify(path).findings
    assert repair(path, load=LOAD).lost == ["what 'How does the writer feel?' was taught: teach it again"]
    assert search(path)[1:] == (None, 0)


def test_a_fine_tuning_that_is_another_is_damage(tuned, path, tmp_path):
    rewrite(tuned, 3, {"kind": "other"})
    with pytest.raises(IndexDamagedError, match="does not fit its vectors"):
        tuned.search("love", instruction=MOOD, mode="dense")
    assert is_damaged(path, 3, 4)
    tuned.close()
    export_index(path, tmp_path / "out.tar")
    with pytest.raises(InputError, match="damaged"):
        import_index(tmp_path / "out.tar", tmp_path / "there")
    assert repair(path, load=LOAD).lost == ["what 'How does the writer feel?' was taught: teach it again"]
    assert search(path)[1:] == (None, 0)


def test_a_fine_tuning_beside_the_base_view_is_damage(tuned, path):
    with tuned._opened.store.transaction():
        tuned._opened.store._db.write("UPDATE sources SET needs = '[2, 1]' WHERE view_id = 4")
    assert is_damaged(path, 4)
    with (
        Index(path, encoder=QUESTION, plain=PLAIN) as index,
        pytest.raises(IndexDamagedError, match="does not fit its vectors"),
    ):
        index.search("love", instruction=MOOD, mode="dense")


def is_damaged(path, *views):
    """Whether a deep check names the sources of some views, and nothing else."""
    findings = verify(path, deep=True, load=LOAD).findings
    return {(one.artefact, one.remedy) for one in findings} == {
        (f"source of view {view_id}", Remedy.TEACH) for view_id in views
    }


def test_a_kill_at_any_commit_leaves_it_tuned_or_not(full, path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    for module, place, kept in (
        (teacher, "fill", False),
        (teacher, "learn", False),
        (teacher, "install", False),
        (teacher, "build_outgrown", True),
        (teacher, "clear_dropped", True),
    ):
        monkeypatch.setattr(module, place, killed)
        with pytest.raises(Killed):
            full.teaching.teach(MOOD, EXAMPLES, tune=True)
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
        index.teaching.forget(MOOD)
    assert search(path, OTHER_QUESTION)[1:] == (None, 0)


def test_another_plain_reader_is_tuned_and_so_is_the_one_before(tuned, path):
    tuned.teaching.teach(FAULT, [(id, "bent" if answer == "good" else "loud") for id, answer in EXAMPLES], tune=True)
    tuned.close()
    done = reembed(path, plain=OTHER_PLAIN, load=LOAD)
    assert {asked: one.tuned for asked, one in done.retaught.items()} == {MOOD: True, FAULT: True}
    hits, _, views = search(path, plain=OTHER_PLAIN)
    assert (is_good(hits), views) == (True, 4)  # one a question and base encoder
    with Index(path, encoder=QUESTION, plain=OTHER_PLAIN) as index:
        index.add([Document("new", "lamp proud cold")])
    done = roll_back(path, load=LOAD)
    assert (done.retaught, done.untaught) == ({}, {})  # both were kept
    assert is_good(search(path)[0])


@pytest.mark.parametrize("plain", [STIFF, None], ids=["one that cannot be tuned", "none"])
def test_without_a_plain_reader_to_tune_the_question_is_taught_untuned(tuned, path, plain):
    tuned.close()
    done = reembed(path, plain=plain or "none", load=LOAD)
    assert done.untaught == {}
    assert done.retaught[MOOD].tuned is None
    with Index(path, encoder=QUESTION, plain=plain) as index:
        assert index.teaching.lessons(MOOD) == done.retaught[MOOD]
    assert verify(path, deep=True, load=LOAD).findings == []
