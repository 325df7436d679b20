import sqlite3

import numpy as np
import pytest
from index_fakes import MOOD, FakeEncoder, gives
from teaching_corpus import CORPUS, EXAMPLES, vectors

from retriever.index.reembedding import forget, reembed, roll_back
from retriever.index.teaching import part, teacher
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE
from retriever.workspace import Index


@pytest.fixture
def full(index):
    index.add(CORPUS, instructions=[MOOD])
    return index


@pytest.fixture
def taught(full, encoder):
    encoder.forget()
    full.teaching.teach(MOOD, EXAMPLES)
    return full


def test_an_archive_carries_what_was_taught(taught, tmp_path):
    export_index(taught.path, tmp_path / "out.tar")
    import_index(tmp_path / "out.tar", tmp_path / "other")
    with Index(tmp_path / "other", encoder=FakeEncoder()) as other:
        assert other.teaching.lessons(MOOD) == taught.teaching.lessons(MOOD)
        for query in ("love", "numb"):
            ours, theirs = (one.search(query, instruction=MOOD, mode="dense") for one in (taught, other))
            assert [(hit.document.id, hit.score) for hit in ours.hits] == [
                (hit.document.id, hit.score) for hit in theirs.hits
            ]
    assert verify(tmp_path / "other", deep=True, load=gives(FakeEncoder)).findings == []


def change(index, sql, parameters=()):
    index.close()
    with sqlite3.connect(index.path / DATABASE) as raw:
        assert raw.execute(sql, parameters).rowcount


@pytest.mark.parametrize(
    ("sql", "remedy"),
    [
        ("UPDATE sources SET arrays = zeroblob(length(arrays))", "teach the question again"),
        ("UPDATE sources SET state = replace(state, 'good', 'evil')", "teach the question again"),
        ("UPDATE sources SET sha256 = 'x'", "teach the question again"),
        ("DELETE FROM sources", "repair"),
    ],
)
def test_damage_to_a_head_is_named_and_taken_out(taught, path, sql, remedy):
    change(taught, sql)
    findings = verify(path).findings
    assert any(remedy in one.remedy for one in findings)
    report = repair(path, load=gives(FakeEncoder))
    assert any("teach it again" in one for one in report.lost)
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(path, encoder=FakeEncoder()) as index:
        assert index.teaching.lessons(MOOD) is None
        assert index.search("love", instruction=MOOD, mode="dense").view == 2
        index.teaching.teach(MOOD, EXAMPLES)


def test_a_taught_vector_that_is_damaged_is_made_again_without_the_model(taught, path):
    held = vectors(taught, 3)
    change(taught, "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE view_id = 3 AND content_id < 5")
    assert len(verify(path, deep=True, load=gives(FakeEncoder)).findings) == 4
    loaded = []
    report = repair(path, load=lambda description: loaded.append(description) or FakeEncoder())
    assert "4 vectors of view 3" in report.rebuilt
    assert loaded == []
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(path, encoder=FakeEncoder()) as index:
        for content_id, row in vectors(index, 3).items():
            np.testing.assert_array_equal(row, held[content_id])


def test_a_taught_vector_that_is_another_texts_is_found(taught, path):
    with taught._opened.store.transaction():
        (low, high) = (taught._opened.store.vectors.get(3, [one]).embeddings for one in (1, 2))
        taught._opened.store._db.write("DELETE FROM vectors WHERE view_id = 3 AND content_id IN (1, 2)")
        taught._opened.store.vectors.put(3, [1, 2], np.concatenate([-high, -low]), [[], []])
    taught.close()
    findings = [
        one for seed in range(6) for one in verify(path, deep=True, load=gives(FakeEncoder), seed=seed).findings
    ]
    assert {one.artefact for one in findings} <= {"vector of text 1 in view 3", "vector of text 2 in view 3"}
    assert findings


def test_a_taught_view_that_lacks_a_text_is_found_and_filled(taught, path):
    change(taught, "DELETE FROM vectors WHERE view_id = 3 AND content_id = 7")
    (found,) = verify(path).findings
    assert "lacks 1 texts of what it is made of" in found.problem
    repair(path, load=gives(FakeEncoder))
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []


def test_forgetting_the_encoder_before_leaves_what_was_taught(taught, path):
    taught.close()
    reembed(path, FakeEncoder("second"))
    roll_back(path, load=gives(FakeEncoder))
    forget(path)
    assert verify(path, deep=True, load=gives(FakeEncoder)).findings == []
    with Index(path, encoder=FakeEncoder()) as index:
        assert index.teaching.lessons(MOOD) is not None


def test_a_kill_at_any_commit_leaves_it_taught_or_not(full, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    for module, place in ((part, "build_outgrown"), (part, "clear_dropped"), (teacher, "learn")):
        monkeypatch.setattr(module, place, killed)
        with pytest.raises(Killed):
            full.teaching.teach(MOOD, EXAMPLES)
        monkeypatch.undo()
        assert full.search("love", instruction=MOOD, mode="dense").path == "complete"
        assert verify(full.path, deep=True, load=gives(FakeEncoder)).findings == []
    full.teaching.teach(MOOD, EXAMPLES)
    assert len(full._opened.store.sources.rows()) == 1
