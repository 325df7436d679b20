from dataclasses import replace

import numpy as np
import pytest
from index_fakes import DIM, FAULT, MOOD, PRODUCT, FakeEncoder, differing, views_by_kind
from teaching_corpus import BUDGET, CORPUS, EXAMPLES, answers_apart, mood, vectors

from retriever.clusters.groups import groups_of
from retriever.core.errors import EncoderMismatchError, InputError, UsageError
from retriever.core.protocols import EncoderSpec
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.teaching.labels import NONE_OF_THESE
from retriever.workspace import Index


def test_nothing_is_read_but_the_names_of_the_answers(taught, encoder):
    assert encoder.read == []
    assert set(encoder.queries) == {"bad", "good"}


def test_what_was_learned_is_said(taught):
    (base, view) = taught.views()
    assert base.taught is None
    lessons = view.taught
    assert dict(lessons.answers) == {"bad": 16, "good": 16}
    assert lessons == taught.teaching.lessons(MOOD) == taught.status().views[1].taught
    assert 0 <= lessons.before.low <= lessons.before.value <= lessons.before.high <= 1
    assert lessons.held_out == 32
    assert taught.status().runs[0]["command"] == "teach"


def test_texts_of_one_answer_come_together_in_clusters(moods):
    before = answers_apart(moods)
    moods.teaching.teach(MOOD, EXAMPLES)
    assert answers_apart(moods) > before + 0.1


def test_a_search_finds_the_answer_of_its_query(taught):
    found = taught.search("love happy", instruction=MOOD, mode="dense", k=20)
    assert (found.path, found.view) == ("complete", taught.teaching.lessons(MOOD).view)
    assert np.mean([mood(hit.document.text) == "good" for hit in found.hits]) > 0.9
    assert all(-1 <= hit.score <= 1.0001 for hit in found.hits)
    assert found.hits[0].words  # the model's answers are those of the untaught view


def test_what_was_taught_names_hits_and_clusters(moods):
    word = MOOD.split()[-1].strip("?")  # words of the question are no names, but for what was taught
    moods.teaching.teach(MOOD, [(id, {"good": word, "bad": "bad"}[answer]) for id, answer in EXAMPLES])
    found = moods.cluster(MOOD, k=2)
    assert {one.keywords[0] for one in found.clusters} == {word, "bad"}
    alone = replace(found.material, answers=[one[:1] for one in found.material.answers])
    assert not groups_of(replace(found, material=alone)).outside.any()
    hits = moods.search("love happy", instruction=MOOD, mode="dense", k=5).hits
    assert {hit.words[0] for hit in hits} == {word}


def test_answers_are_clear_that_are_well_ahead_of_the_others(taught):
    torn = [Document(f"torn {bad}", f"love {bad}") for bad in ("sad", "mad", "glad sad")]
    taught.add(torn)
    ids = {document.id for document in (*CORPUS, *torn)}
    assert taught.teaching.clear_answers(FAULT, ids) is None
    answers = taught.teaching.clear_answers(MOOD, {*ids, "none such"})
    store, view = taught._opened.store, taught.teaching.lessons(MOOD).view
    head = taught._opened.sources.of(MOOD).head
    expected = {}
    for document in (*CORPUS, *torn):
        row = store.vectors.get(view, store.documents.contents_of([document.id])).embeddings[0]
        chances = row[:2] ** 2 / (row[:2] ** 2).sum()
        if chances.max() >= 2.5 * chances.min():
            expected[document.id] = head.answers[int(chances.argmax())]
    assert answers == expected
    assert 0 < len(answers) < len(ids)


def test_none_of_these_is_no_clear_answer(moods):
    moods.teaching.teach(MOOD, [(id, {"good": "good", "bad": NONE_OF_THESE}[answer]) for id, answer in EXAMPLES])
    assert set(moods.teaching.clear_answers(MOOD, {document.id for document in CORPUS}).values()) == {"good"}


def test_an_open_index_elsewhere_notices(moods, path):
    with Index(path, encoder=FakeEncoder()) as other:
        before = other.search("love", instruction=MOOD, mode="dense")
        moods.teaching.teach(MOOD, EXAMPLES)
        assert (
            other.search("love", instruction=MOOD, mode="dense").view
            == moods.teaching.lessons(MOOD).view
            != before.view
        )
        moods.teaching.forget(MOOD)
        after = other.search("love", instruction=MOOD, mode="dense")
        assert [hit.document.id for hit in after.hits] == [hit.document.id for hit in before.hits]


def test_vectors_of_the_two_views_never_mix(taught):
    source, view = taught._opened.store.views.all()[1:]
    assert views_by_kind(taught)["taught"] == [view]
    assert view.key.fingerprint.startswith("taught:")
    assert view.key.dim == source.key.dim + 2
    assert differing(taught, view.view_id, source.view_id) == 0
    assert len(list((taught.path / "views" / str(view.view_id)).iterdir())) == 1  # its own vector index


def test_teaching_again_replaces_what_was_taught(taught):
    first = taught.teaching.lessons(MOOD)
    second = taught.teaching.teach(
        MOOD, [(one.id, "odd" if number % 2 else "even") for number, one in enumerate(CORPUS[:20])]
    )
    assert dict(second.answers) == {"even": 10, "odd": 10}
    assert second.view != first.view
    assert {kind: len(views) for kind, views in views_by_kind(taught).items()} == {"read": 2, "taught": 1}
    assert not (taught.path / "views" / str(first.view)).exists()


def test_the_same_examples_teach_the_same(taught):
    key, held = taught._opened.store.views.all()[2].key, vectors(taught, 3)
    again = taught.teaching.teach(MOOD, EXAMPLES)
    assert taught._opened.store.views.all()[2].key == key
    for content_id, row in vectors(taught, again.view).items():
        np.testing.assert_array_equal(row, held[content_id])


def test_forgetting_reads_nothing_and_goes_back(moods, encoder):
    before = [hit.document.id for hit in moods.search("love", instruction=MOOD, mode="dense").hits]
    view = moods.teaching.teach(MOOD, EXAMPLES).view
    encoder.forget()
    moods.teaching.forget(f" {MOOD} ")
    assert moods.teaching.lessons(MOOD) is None
    assert [hit.document.id for hit in moods.search("love", instruction=MOOD, mode="dense").hits] == before
    assert encoder.read == []
    assert not (moods.path / "views" / str(view)).exists()
    with pytest.raises(InputError, match="was taught nothing"):
        moods.teaching.forget(MOOD)
    with pytest.raises(InputError, match="was taught nothing"):
        moods.teaching.forget(FAULT)


@pytest.mark.parametrize("asked", ["", " ", PRODUCT])
def test_the_base_view_is_no_question(index, asked):
    rich = FakeEncoder()
    rich.spec = replace(rich.spec, default_instruction=PRODUCT)
    with Index(index.path, encoder=rich) as one:
        one.add(CORPUS[:4])
        with pytest.raises(UsageError, match="no question to teach"):
            one.teaching.teach(asked, EXAMPLES)


def test_later_documents_go_through_the_head(taught, encoder):
    encoder.forget()
    taught.add([Document("new", "lamp proud cold"), Document("old", "lamp numb cold")])
    assert encoder.read.count(("lamp proud cold", MOOD)) == 1
    found = taught.search("love happy", instruction=MOOD, mode="dense", k=200)
    assert found.path == "complete"
    ids = [hit.document.id for hit in found.hits]
    assert ids.index("new") < ids.index("old")
    assert differing(taught, 2, 3) == 0


def test_deleted_examples_leave_what_they_taught(taught):
    before = taught.teaching.lessons(MOOD)
    taught.delete([id for id, _ in EXAMPLES])
    taught.upkeep.repair()
    assert taught.teaching.lessons(MOOD) == before
    assert len(taught.search("love", instruction=MOOD, mode="dense", k=200).hits) == 64
    taught.add([Document("new", "lamp proud cold")])
    assert differing(taught, 2, 3) == 0


def test_a_question_without_a_view_is_taught_by_reading_the_examples_alone(index, encoder):
    index.add(CORPUS)
    encoder.forget()
    lessons = index.teaching.teach(MOOD, EXAMPLES)
    assert sorted(encoder.read) == sorted((one.text, MOOD) for one in CORPUS[:32])
    view = index.views()[1]
    assert (view.vectors, view.lazy, view.taught) == (32, True, lessons)


def test_a_search_under_way_notices_that_its_question_was_taught(path):
    with Index(path, encoder=FakeEncoder(), search_options=BUDGET) as index:
        index.add(CORPUS)
        index.search("sad", instruction=MOOD)
        answers = index.search_progressively(SearchRequest("love happy", instruction=MOOD, mode="dense"))
        next(answers)
        view = index.teaching.teach(MOOD, EXAMPLES).view
        *_, last = answers
        assert last.view == view
        answers = index.search_progressively(SearchRequest("hate sad", instruction=MOOD, mode="dense"))
        next(answers)
        index.teaching.forget(MOOD)
        *_, last = answers
        assert last.view == 2


def test_both_readers_are_looked_at_where_that_helps(path):
    class Blind(FakeEncoder):
        """Follows no question: it looks at products, whatever is asked."""

        spec = EncoderSpec("", DIM)

        def vectors(self, texts, instruction=""):
            return super().vectors(texts, PRODUCT)

    class Moody(FakeEncoder):
        """Looks at moods."""

        def vectors(self, texts, instruction=""):
            return super().vectors(texts, MOOD)

    with Index(path, encoder=Blind("blind"), plain=Moody("moody")) as index:
        index.add(CORPUS, instructions=[MOOD])
        index.teaching.teach(MOOD, [(one.id, mood(one.text)) for one in CORPUS[:32]])
        found = index.search("love happy", instruction=MOOD, mode="dense", k=10)
        assert np.mean([mood(hit.document.text) == "good" for hit in found.hits]) > 0.8
        index.add([Document("new", "lamp proud cold")])
        assert differing(index, 2, 3) == 0
        assert [row.needs for row in index._opened.store.sources.rows()] == [(2, 1)]


def test_a_dropped_view_takes_what_it_was_taught_along(taught):
    taught.upkeep.drop_views([MOOD])
    assert [view.view_id for view in taught._opened.store.views.all()] == [1]
    assert taught._opened.store.sources.rows() == []
    assert sorted(one.name for one in (taught.path / "views").iterdir()) == ["1"]


def test_a_clustering_saved_before_is_not_extended_by_other_vectors(moods):
    moods.clusterings.save("before", moods.cluster(MOOD, k=2))
    moods.teaching.teach(MOOD, EXAMPLES)
    with pytest.raises(EncoderMismatchError, match="taught or forgotten"):
        moods.clusterings.get("before")
    moods.clusterings.save("after", moods.cluster(MOOD, k=2))
    assert moods.clusterings.get("after").new == []
    moods.teaching.forget(MOOD)
    assert moods.clusterings.get("before").new == []
