from dataclasses import replace

import numpy as np
import pytest
from index_fakes import MOOD, FakeEncoder, gives
from teaching_corpus import CORPUS, EXAMPLES, change, mood, vectors

from retriever.core.errors import IndexDamagedError
from retriever.index import reembedding
from retriever.index.reembedding import reembed, roll_back
from retriever.index.teaching import teacher
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.sources import SourceTable
from retriever.workspace import Index


def found(path, encoder, *, plain=None):
    """The best hits under the question, and what it was taught."""
    with Index(path, encoder=encoder, plain=plain) as index:
        result = index.search("love happy", instruction=MOOD, mode="dense", k=10)
        lessons = index.teaching.lessons(MOOD)
        assert (lessons is None) or result.view == lessons.view
        return {mood(hit.document.text) for hit in result.hits}, lessons


def test_another_encoder_is_taught_by_the_same_examples(taught, path):
    before = taught.teaching.lessons(MOOD)
    taught.close()
    done = reembed(path, second := FakeEncoder("second"))
    assert (list(done.retaught), done.untaught) == ([MOOD], {})
    hits, lessons = found(path, FakeEncoder("second"))
    assert hits == {"good"}
    assert lessons == done.retaught[MOOD]
    assert lessons.answers == before.answers
    assert done.to_json()["retaught"][MOOD]["after"]["value"] == lessons.after.value
    assert len(second.read) == 2 * len(CORPUS)  # each text once a view, and none again for the lesson
    assert verify(path, deep=True, load=gives(lambda: FakeEncoder("second"))).findings == []


def test_the_way_back_finds_what_was_taught_and_loads_no_model(taught, path):
    before = taught.teaching.lessons(MOOD)
    taught.close()
    reembed(path, FakeEncoder("second"))
    back = roll_back(path, load=None)
    assert (back.retaught, back.untaught) == ({}, {})
    assert found(path, FakeEncoder())[1] == before
    assert roll_back(path, load=None).retaught == {}  # and forth again


def test_examples_of_the_meantime_go_the_way_back_too(taught, path):
    taught.close()
    reembed(path, FakeEncoder("second"))
    with Index(path, encoder=FakeEncoder("second")) as index:
        index.teaching.teach(MOOD, [(one.id, mood(one.text)) for one in CORPUS[:40]])
    back = roll_back(path, load=gives(FakeEncoder))
    assert sum(back.retaught[MOOD].answers.values()) == 40
    assert found(path, FakeEncoder())[1] == back.retaught[MOOD]


def test_a_question_whose_view_holds_the_examples_alone_is_carried_over(index, path):
    index.add(CORPUS)
    index.teaching.teach(MOOD, EXAMPLES)
    index.close()
    done = reembed(path, second := FakeEncoder("second"))
    assert (done.left, list(done.retaught)) == ([MOOD], [MOOD])
    assert len([text for text, asked in second.read if asked == MOOD]) == len(EXAMPLES)
    with Index(path, encoder=FakeEncoder("second")) as again:
        assert again.views()[1].lazy


def test_examples_that_were_deleted_are_left_out_and_too_few_are_told(taught, path):
    taught.delete([id for id, _ in EXAMPLES[:20]])
    taught.close()
    done = reembed(path, FakeEncoder("second"))
    assert sum(done.retaught[MOOD].answers.values()) == 12
    with Index(path, encoder=FakeEncoder("second")) as index:
        index.delete([id for id, answer in EXAMPLES if answer == "bad"])
    done = reembed(path, FakeEncoder("third"))
    assert done.retaught == {}
    assert done.untaught[MOOD].startswith("6 of its 12 examples were deleted. All examples have the answer 'good'")
    _, lessons = found(path, FakeEncoder("third"))
    assert lessons is None


def test_what_is_damaged_is_told_and_hinders_nothing(taught, path, monkeypatch):
    def damaged(self, source_id):
        raise IndexDamagedError("It is damaged.", hint="Repair it.")

    taught.close()
    monkeypatch.setattr(SourceTable, "get", damaged)
    done = reembed(path, FakeEncoder("second"))
    monkeypatch.undo()
    assert (done.retaught, done.untaught) == ({}, {MOOD: "It is damaged."})
    assert found(path, FakeEncoder("second"))[1] is None


def test_a_question_that_the_new_encoder_is_asked_by_default_is_told(taught, path):
    class Moody(FakeEncoder):
        def __init__(self):
            super().__init__("moody")
            self.spec = replace(self.spec, default_instruction=MOOD)

    taught.close()
    assert "There is no question to teach" in reembed(path, Moody()).untaught[MOOD]


def test_a_kill_while_teaching_leaves_the_old_encoder_and_the_same_command_goes_on(taught, path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_, **__):
        raise Killed

    before = taught.teaching.lessons(MOOD)
    taught.close()
    for module, place in ((teacher, "learn_question"), (reembedding, "install")):
        monkeypatch.setattr(module, place, killed)
        with pytest.raises(Killed):
            reembed(path, FakeEncoder("second"))
        monkeypatch.undo()
        assert found(path, FakeEncoder())[1] == before
    second = FakeEncoder("second")
    assert list(reembed(path, second).retaught) == [MOOD]
    assert second.read == []
    assert found(path, FakeEncoder("second"))[0] == {"good"}


# Damage to what was taught.


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
