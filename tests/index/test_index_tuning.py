from dataclasses import replace

import pytest
from index_fakes import DIM, FAULT, MOOD, BlindEncoder, FakeEncoder, TunableEncoder, found, gives_each, views_by_kind
from teaching_corpus import BUDGET, CORPUS, EXAMPLES, answers_apart, mood

from retriever.core.errors import EncoderError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.teaching import teacher
from retriever.index.teaching.tuning import STEPS
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index

SWAPPED = [(one.id, "odd" if number % 2 else "even") for number, one in enumerate(CORPUS[:20])]


@pytest.fixture
def question():
    return BlindEncoder("blind")


@pytest.fixture
def plain():
    return TunableEncoder()


@pytest.fixture
def full(path, question, plain):
    with Index(path, encoder=question, plain=plain) as index:
        index.add(CORPUS, instructions=[MOOD])
        yield index


@pytest.fixture
def tuned(full):
    full.teaching.teach(MOOD, EXAMPLES, tune=True)
    return full


@pytest.fixture
def lazy(path, question, plain):
    """An index whose question's view holds the examples alone, tuned for it."""
    with Index(path, encoder=question, plain=plain, search_options=BUDGET) as index:
        index.add(CORPUS)
        index.teaching.teach(MOOD, EXAMPLES, tune=True)
        yield index


@pytest.fixture
def damage(path, question, plain):
    """Give what a deep check finds."""
    return lambda: verify(path, deep=True, load=gives_each(question, plain)).findings


class StoppedError(Exception):
    pass


def stops(when):
    """Return what ends a teaching where its report is so."""

    def progress(report):
        if when(report):
            raise StoppedError

    return progress


def search(index, query="love happy", k=20):
    return index.search(query, instruction=MOOD, mode="dense", k=k)


def tuned_views(index):
    return views_by_kind(index).get("tuned", [])


def held(index, view):
    return index._opened.store.vectors.count(view.view_id)


def test_steps_are_told_and_then_the_texts_that_are_read(full, plain):
    told = []
    full.teaching.teach(MOOD, EXAMPLES, tune=True, progress=lambda report: told.append(replace(report)))
    steps, rest = ([one for one in told if one.tuning is tuning] for tuning in (True, False))
    assert len(plain.tunings) == 4  # without each third, and on all
    assert [(one.in_hand, one.expected) for one in steps] == [(done, 120) for done in range(1, 4 * STEPS + 1)]
    assert all((one.views, one.instructions) == ([2], [MOOD]) for one in steps)
    assert [(one.in_hand, one.expected) for one in rest] == [(0, len(CORPUS))]


def test_what_helps_is_kept_and_texts_of_one_answer_come_nearer(full, plain):
    taught = full.teaching.teach(MOOD, EXAMPLES)
    before = answers_apart(full)
    assert (taught.tuned, plain.tunings, plain.tuned_read) == (None, [], [])
    lessons = full.teaching.teach(MOOD, EXAMPLES, tune=True)
    assert lessons.tuned is True
    assert lessons == full.teaching.lessons(MOOD) == full.views()[1].taught
    assert lessons.after.value > taught.after.value
    assert answers_apart(full) > before + 0.3
    result = search(full, k=40)
    assert (result.path, result.view) == ("complete", lessons.view)
    assert {mood(hit.document.text) for hit in result.hits} == {"good"}


def test_the_score_is_by_readers_that_did_not_see_the_examples(full, plain):
    lessons = full.teaching.teach(MOOD, EXAMPLES, tune=True)
    texts = [one.text for one in CORPUS[:32]]
    *folds, last = plain.tunings
    assert last == texts
    left_out = [[one for one in texts if one not in known] for known in folds]
    assert sorted(one for part in left_out for one in part) == sorted(texts)
    # One that has no word of those it was tuned on is "bad" to the tuned reader, rightly or not.
    right = {"good": 0, "bad": 0}
    for known, tested in zip(folds, left_out, strict=True):
        words = {word for one in known for word in plain.cues(one)}
        for one in tested:
            right[mood(one)] += mood(one) == "bad" or bool(words.intersection(plain.cues(one)))
    assert right["good"] < right["bad"] == 16
    assert lessons.after.value == (right["good"] / 16 + 1) / 2


def test_what_misleads_is_not_kept(path):
    plain, examples = TunableEncoder(misleads=True), [(one.id, mood(one.text)) for one in CORPUS[:64]]
    with Index(path, encoder=FakeEncoder(), plain=plain) as index:
        index.add(CORPUS, instructions=[MOOD])
        untuned, before = index.teaching.teach(MOOD, examples), found(search(index))
        lessons = index.teaching.teach(MOOD, examples, tune=True)
        assert lessons.tuned is index.teaching.lessons(MOOD).tuned is False
        assert (lessons.before, lessons.after) == (untuned.before, untuned.after)
        assert found(search(index)) == before
        assert len(plain.tunings) == 3  # never on all
        assert tuned_views(index) == []


def test_later_documents_get_tuned_vectors(tuned, plain, damage):
    tuned.add([Document("new", "lamp proud cold"), Document("old", "lamp numb cold")])
    read = [text for _, text in plain.tuned_read]
    assert (read.count("lamp proud cold"), read.count("lamp numb cold")) == (1, 1)
    assert held(tuned, tuned_views(tuned)[0]) == 98
    assert damage() == []
    ids = [hit.document.id for hit in search(tuned, k=200).hits]
    assert ids.index("new") < 49 <= ids.index("old")  # 48 texts are good, and the new one


@pytest.mark.usefixtures("unjudged")
def test_a_lazy_search_reads_into_all_three_views(lazy, question, damage):
    (view,) = tuned_views(lazy)
    assert held(lazy, view) == 32
    question.forget()
    first, last = lazy.search_progressively(SearchRequest("love happy", instruction=MOOD, mode="dense"))
    assert (first.path, last.path, last.view) == ("base", "lazy", lazy.teaching.lessons(MOOD).view)
    assert question.read
    assert held(lazy, view) == 32 + len(question.read)
    assert {mood(hit.document.text) for hit in last.hits} == {"good"}
    assert damage() == []
    lazy.add([], instructions=[MOOD])  # completes it
    assert held(lazy, view) == len(CORPUS)
    assert damage() == []


def test_a_question_has_one_tuned_view_and_none_where_it_is_forgotten_or_taught_untuned(full):
    before = found(search(full))
    for teach_or_forget in (lambda: full.teaching.teach(MOOD, EXAMPLES), lambda: full.teaching.forget(MOOD)):
        full.teaching.teach(MOOD, EXAMPLES, tune=True)
        (first,) = tuned_views(full)
        others = [(id, "evil" if answer == "good" else "lovely") for id, answer in EXAMPLES]
        full.teaching.teach(MOOD, others, tune=True)
        (second,) = tuned_views(full)
        assert second.key != first.key
        teach_or_forget()
        assert tuned_views(full) == []
    assert [view.view_id for view in full._opened.store.views.all()] == [1, 2]
    assert found(search(full)) == before


def test_the_same_examples_read_nothing_twice(tuned, plain):
    (view,), before = tuned_views(tuned), found(search(tuned))
    reader = plain.tuned_read[-1][0]
    tuned.teaching.teach(MOOD, EXAMPLES, tune=True)
    assert tuned_views(tuned) == [view]
    assert found(search(tuned)) == before
    texts = [text for fingerprint, text in plain.tuned_read if fingerprint == reader]
    assert [texts.count(one.text) for one in CORPUS] == [1] * len(CORPUS)


def test_a_tuned_view_is_not_shown_and_has_no_vector_index(tuned, path):
    (view,) = tuned_views(tuned)
    assert [one.instruction for one in tuned.views()] == ["", MOOD]
    assert [one.view for one in tuned.status().views] == [1, 2]
    tuned.upkeep.repair()
    assert not (path / "views" / str(view.view_id)).exists()
    assert search(tuned).view == tuned.teaching.lessons(MOOD).view


def test_a_stop_while_it_is_fine_tuned_changes_nothing(full, damage):
    full.teaching.teach(MOOD, EXAMPLES)
    lessons, hits, views = full.teaching.lessons(MOOD), found(search(full)), full._opened.store.views.all()
    with pytest.raises(StoppedError):
        full.teaching.teach(
            MOOD, EXAMPLES, tune=True, progress=stops(lambda report: report.tuning and report.in_hand == 50)
        )
    assert (full.teaching.lessons(MOOD), found(search(full))) == (lessons, hits)
    assert [view.view_id for view in full._opened.store.views.all()] == [view.view_id for view in views]
    assert damage() == []
    assert full.teaching.teach(MOOD, EXAMPLES, tune=True).tuned is True


@pytest.fixture
def stopped(full, monkeypatch):
    """An index whose tuned reader has read 40 texts when somebody stopped it, what was found before, and how."""
    monkeypatch.setattr(teacher, "READ_AT_ONCE", 40)
    full.teaching.teach(MOOD, EXAMPLES)
    lessons, hits = full.teaching.lessons(MOOD), found(search(full))
    with pytest.raises(StoppedError):
        full.teaching.teach(
            MOOD, EXAMPLES, tune=True, progress=stops(lambda report: not report.tuning and report.in_hand == 40)
        )
    assert (full.teaching.lessons(MOOD), found(search(full))) == (lessons, hits)
    return full


def test_the_same_examples_go_on_where_texts_were_read(stopped, plain, damage):
    (view,) = tuned_views(stopped)
    assert held(stopped, view) == 40
    assert [one.instruction for one in stopped.views()] == ["", MOOD]
    assert damage() == []
    reader = plain.tuned_read[-1][0]
    assert stopped.teaching.teach(MOOD, EXAMPLES, tune=True).tuned is True
    assert tuned_views(stopped) == [view]
    texts = [text for fingerprint, text in plain.tuned_read if fingerprint == reader]
    assert [texts.count(one.text) for one in CORPUS] == [1] * len(CORPUS)


@pytest.mark.parametrize("asked", [MOOD, FAULT])
def test_the_next_teaching_removes_what_a_stopped_one_has_read(stopped, asked):
    stopped.teaching.teach(asked, SWAPPED)
    assert tuned_views(stopped) == []


def test_what_is_evicted_leaves_the_tuned_view_too(lazy, damage):
    (view,) = tuned_views(lazy)
    lazy.upkeep.lazy_limit = 16 * (DIM + DIM + DIM + 2) * 2  # of 16 texts: in the question's view, tuned and taught
    assert held(lazy, view) == lazy._opened.store.vectors.count(2) < 17
    assert lazy.teaching.lessons(MOOD).tuned is True
    assert damage() == []


@pytest.mark.parametrize(
    ("plain", "says"),
    [(None, "no base encoder of its own"), (FakeEncoder("plain"), "cannot be fine-tuned")],
    ids=["none", "one that cannot be tuned"],
)
def test_without_a_plain_reader_to_tune_it_is_refused_and_nothing_changes(path, plain, says):
    with Index(path, encoder=TunableEncoder("question"), plain=plain) as index:
        index.add(CORPUS, instructions=[MOOD])
        index.teaching.teach(MOOD, EXAMPLES)
        lessons, hits = index.teaching.lessons(MOOD), found(search(index))
        with pytest.raises(EncoderError, match=says):
            index.teaching.teach(MOOD, EXAMPLES, tune=True)
        assert (index.teaching.lessons(MOOD), found(search(index))) == (lessons, hits)
        assert len(index._opened.store.views.all()) == 3


def test_what_a_search_reads_meanwhile_is_tuned_too(path, question, plain, damage):
    def progress(report):
        if report.expected == 32 and not report.tuning:  # the tuned reader begins
            search(other)

    first, second = (Index(path, encoder=question, plain=plain, search_options=BUDGET) for _ in range(2))
    with first as index, second as other:
        index.add(CORPUS)
        index.teaching.teach(MOOD, EXAMPLES)
        index.teaching.teach(MOOD, EXAMPLES, tune=True, progress=progress)
        (view,) = tuned_views(index)
        assert held(index, view) == index._opened.store.vectors.count(2) > 32
    assert damage() == []
