import threading

import pytest
from index_fakes import FAULT, KEYWORDS, MOOD, FakeEncoder
from teaching_corpus import BUDGET, CORPUS, EXAMPLES, mood

from retriever.core.errors import InputError
from retriever.core.types import Document
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.workspace import Index

ANSWERS = {"good": "the writer is glad", "bad": "", "shipping": "late or lost"}


def label(index, count=8):
    for id, answer in EXAMPLES[:count]:
        index.teaching.label(MOOD, id, answer)


def test_answers_and_labels_are_there_in_another_session(moods, path):
    moods.teaching.name_answers(MOOD, ANSWERS)
    label(moods)
    moods.teaching.label(MOOD, "d40", NONE_OF_THESE)
    moods.teaching.skip(MOOD, "d41")
    moods.close()
    with Index(path, encoder=FakeEncoder()) as other:
        labels = other.teaching.labels(f" {MOOD} ")
    assert labels.answers == ANSWERS
    assert labels.examples == {**dict(EXAMPLES[:8]), "d40": NONE_OF_THESE}
    assert labels.skipped == ["d41"]


def test_each_label_can_be_taken_back(moods):
    moods.teaching.label(MOOD, "d00", "good")
    moods.teaching.skip(MOOD, "d01")
    for id in ("d00", "d01"):
        moods.teaching.unlabel(MOOD, id)
    labels = moods.teaching.labels(MOOD)
    assert (labels.examples, labels.skipped) == ({}, [])
    assert labels.answers == {"good": ""}


def test_a_new_label_takes_the_place_of_the_one_before(moods):
    moods.teaching.skip(MOOD, "d00")
    moods.teaching.label(MOOD, "d00", "good")
    moods.teaching.label(MOOD, "d00", " GOOD ")
    assert moods.teaching.labels(MOOD).examples == {"d00": "good"}
    assert moods.teaching.labels(MOOD).skipped == []
    moods.teaching.skip(MOOD, "d00")
    assert moods.teaching.labels(MOOD).examples == {}


def test_labels_are_listed_in_the_order_in_which_they_were_given(moods):
    for id in ("d05", "d01", "d03", "d05"):
        moods.teaching.label(MOOD, id, "good")
    assert list(moods.teaching.labels(MOOD).examples) == ["d01", "d03", "d05"]


def test_two_sessions_keep_each_others_labels(moods, path):
    with Index(path, encoder=FakeEncoder()) as other:
        sessions = [
            threading.Thread(target=lambda index=index, ids=ids: [index.teaching.label(MOOD, id, "good") for id in ids])
            for index, ids in ((moods, [f"d{n:02}" for n in range(20)]), (other, [f"d{n:02}" for n in range(20, 40)]))
        ]
        for session in sessions:
            session.start()
        for session in sessions:
            session.join()
        other.teaching.teach(MOOD, EXAMPLES[:16])
    moods.teaching.label(MOOD, "d50", "good")
    assert len(moods.teaching.labels(MOOD).examples) == 41


def test_forty_labels_of_two_sessions(moods, path):
    with Index(path, encoder=FakeEncoder()) as other:
        for number, index in enumerate([moods, other] * 20):
            index.teaching.label(MOOD, f"d{number:02}", "good")
    assert len(moods.teaching.labels(MOOD).examples) == 40


def test_what_is_labeled_or_skipped_is_not_offered_again(moods):
    offered = [asked.document.id for asked in moods.teaching.worth_answering(MOOD, 12)]
    moods.teaching.label(MOOD, offered[0], "good")
    moods.teaching.label(MOOD, offered[1], NONE_OF_THESE)
    moods.teaching.skip(MOOD, offered[2])
    again = {asked.document.id for asked in moods.teaching.worth_answering(MOOD, len(CORPUS))}
    assert not again & set(offered[:3])
    assert len(again) == len(CORPUS) - 3
    moods.teaching.unlabel(MOOD, offered[2])
    assert offered[2] in {asked.document.id for asked in moods.teaching.worth_answering(MOOD, len(CORPUS))}


def test_a_view_that_is_partly_read_is_not_chosen_from(moods, path):
    with Index(path, encoder=FakeEncoder(), search_options=BUDGET) as index:
        before = index.teaching.worth_answering(FAULT, 4)
        index.search(KEYWORDS[FAULT][0], instruction=FAULT)
        (view,) = [view for view in index.status().views if view.instruction == FAULT]
        assert 4 < view.vectors < len(CORPUS)
        assert index.teaching.worth_answering(FAULT, 4) == before


def test_kept_labels_are_learned_and_what_was_not_is_named(moods, encoder):
    moods.teaching.name_answers(MOOD, ANSWERS)
    label(moods, 16)
    moods.teaching.label(MOOD, "d40", "odd")
    lessons = moods.teaching.teach(MOOD)
    assert set(lessons.answers) == {"good", "bad"}
    assert sum(lessons.answers.values()) == 16
    assert lessons.unlearned == {"shipping": 0, "odd": 1}
    assert moods.teaching.lessons(MOOD) == lessons
    assert "good: the writer is glad" in encoder.queries


def test_too_few_kept_labels_are_refused(moods):
    moods.teaching.name_answers(MOOD, ANSWERS)
    with pytest.raises(InputError, match="Fewer than two answers have 3 examples"):
        moods.teaching.teach(MOOD)


def test_examples_that_are_given_are_kept_beside_the_others(moods):
    moods.teaching.name_answers(MOOD, ANSWERS)
    moods.teaching.label(MOOD, "d90", "good")
    moods.teaching.skip(MOOD, EXAMPLES[0][0])
    moods.teaching.skip(MOOD, "d91")
    lessons = moods.teaching.teach(MOOD, EXAMPLES)
    labels = moods.teaching.labels(MOOD)
    assert labels.examples == {**dict(EXAMPLES), "d90": "good"}
    assert labels.answers == ANSWERS
    assert labels.skipped == ["d91"]
    assert lessons.unlearned == {"shipping": 0}


def test_answers_with_examples_stay_when_others_are_named(moods):
    moods.teaching.label(MOOD, "d00", "good")
    moods.teaching.name_answers(MOOD, {"Bad": "not nice", "BAD": "", NONE_OF_THESE: "", "GOOD": "glad"})
    assert moods.teaching.labels(MOOD).answers == {"Bad": "not nice", "good": "glad"}


def test_forgetting_keeps_the_labels(moods):
    moods.teaching.teach(MOOD, EXAMPLES)
    moods.teaching.forget(MOOD)
    assert moods.teaching.labels(MOOD).examples == dict(EXAMPLES)
    assert sum(moods.teaching.teach(MOOD).answers.values()) == len(EXAMPLES)


def test_equal_texts_are_one_example_and_deleted_ones_none(moods):
    moods.add([Document("a twin", CORPUS[0].text)])
    moods.teaching.label(MOOD, "d00", "good")
    assert moods.teaching.labels(MOOD).examples == {"a twin": "good"}
    moods.delete(["d00", "a twin"])
    assert moods.teaching.labels(MOOD).examples == {}


def test_what_is_no_document_is_refused(moods):
    for change in (lambda id: moods.teaching.label(MOOD, id, "good"), lambda id: moods.teaching.skip(MOOD, id)):
        with pytest.raises(InputError, match="'nope'"):
            change("nope")
    with pytest.raises(InputError, match="has no answer"):
        moods.teaching.label(MOOD, "d00", " ")


def test_texts_that_give_none_of_the_answers_lie_apart(moods):
    """A third of the moods are of no answer: texts like them get none of the answers first."""
    from index_fakes import KEYWORDS

    odd = set(KEYWORDS[MOOD][6:10])

    def answer(text):
        return NONE_OF_THESE if odd & set(text.split()) else mood(text)

    for document in CORPUS[:48]:
        moods.teaching.label(MOOD, document.id, answer(document.text))
    lessons = moods.teaching.teach(MOOD)
    assert set(lessons.answers) == {"good", "bad", NONE_OF_THESE}
    hits = moods.search(" ".join(odd), instruction=MOOD, mode="dense", k=8).hits
    assert {hit.words[0] for hit in hits} == {NONE_OF_THESE}
