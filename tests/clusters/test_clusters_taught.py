"""Clusters under a question that was taught, over a real index."""

from dataclasses import replace

import numpy as np
import pytest
from index_fakes import KEYWORDS, MOOD, PRODUCT
from teaching_corpus import CORPUS, EXAMPLES, mood

from retriever.clusters.arithmetic.choice import Choice, Tried
from retriever.clusters.arithmetic.consensus import Stability
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.map import map_places, write_map
from retriever.clusters.report import make_report, render
from retriever.core.lessons import Held
from retriever.core.types import Document
from retriever.index.teaching.labels import NONE_OF_THESE

ODD = sorted(KEYWORDS[MOOD])[:4]
UNSURE = Held(0.5, 0.2, 0.8)


def kind(text):
    return NONE_OF_THESE if set(ODD) & set(text.split()) else mood(text)


def unsure(found):
    return replace(found, lessons=replace(found.lessons, before=UNSURE, after=UNSURE))


@pytest.fixture
def with_rest(moods):
    moods.teaching.teach(MOOD, [(one.id, kind(one.text)) for one in CORPUS[:60]])
    return moods


def answered(found):
    """The answer that the head gives every row, and the name of its cluster, by id."""
    names = [cluster.label for cluster in found.clusters]
    rows = zip(found.material.documents, found.material.answers, strict=True)
    return {document.id: (words[0], names[found.assignments[document.id]]) for document, words in rows}


def test_without_a_number_clusters_are_the_answers_that_were_taught_and_a_rest(with_rest):
    found = with_rest.cluster(MOOD)
    names = [cluster.label for cluster in found.clusters]
    sizes = [cluster.size for cluster in found.clusters]
    assert (set(names), names[-1]) == ({"good", "bad", NONE_OF_THESE}, NONE_OF_THESE)
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert all(answer == name for answer, name in answered(found).values())
    assert (found.choice, found.stability, found.to_json()["k"]) == (None, None, 3)
    assert np.einsum("nd,nd->n", found.material.vectors, found.placing.vectors[found.labels]).min() > 0


def test_a_number_makes_clusters_of_similar_texts_and_so_does_a_question_that_was_not_taught(with_rest):
    given = with_rest.cluster(MOOD, k=4)
    assert (len(given.clusters), given.named) == (4, False)
    assert not with_rest.cluster(PRODUCT).named
    alike = with_rest.cluster(MOOD, ids=[id for id, (answer, _) in answered(given).items() if answer == "good"])
    assert not alike.named  # of one answer


def test_values_of_fields_are_counted_by_answer(moods):
    moods.add([Document(one.id, one.text, {"row": kind(one.text)}) for one in CORPUS])
    moods.teaching.teach(MOOD, EXAMPLES)
    found = moods.cluster(MOOD, by=["row"])
    sizes = [cluster.size for cluster in found.clusters]
    assert [sum(cluster.spreads["row"].counts.values()) for cluster in found.clusters] == sizes


def test_what_is_saved_puts_later_texts_to_the_answer_they_are_given(with_rest):
    with_rest.clusterings.save("moods", with_rest.cluster(MOOD))
    with_rest.add([Document("new", f"sofa {ODD[0]} later"), Document("old", "sofa numb later")])
    found = with_rest.clusterings.get("moods")
    assert answered(found)["new"] == (NONE_OF_THESE, NONE_OF_THESE)
    assert all(answer == name for answer, name in answered(found).values())


def test_an_answer_that_no_text_of_a_filter_has_is_there_without_a_place_on_the_map(with_rest, tmp_path):
    rest = {id for id, (answer, _) in answered(with_rest.cluster(MOOD)).items() if answer != "bad"}
    found = with_rest.cluster(MOOD, ids=rest)
    assert [cluster.size for cluster in found.clusters if cluster.label == "bad"] == [0]
    write_map(tmp_path / "map.html", found, map_places(found))
    assert '"x":null' in (tmp_path / "map.html").read_text().replace(" ", "")


def test_a_cluster_is_not_named_by_an_answer_that_most_of_it_does_not_have(with_rest):
    found = with_rest.cluster(MOOD, k=5)
    for cluster in found.clusters:
        given = [found.material.answers[row][0] for row in (found.labels == cluster.number).nonzero()[0]]
        words = [*cluster.label.split(" / "), *cluster.keywords]
        assert NONE_OF_THESE not in words
        assert all(2 * given.count(answer) > len(given) for answer in ("good", "bad") if answer in words)
    whole = with_rest.cluster(MOOD, k=1)
    assert not {"good", "bad", NONE_OF_THESE} & {*whole.clusters[0].label.split(" / "), *whole.clusters[0].keywords}


def test_a_gain_that_may_be_chance_keeps_a_caution(taught):
    by_answers, similar = taught.cluster(MOOD), taught.cluster(MOOD, k=2)
    assert (by_answers.caution, by_answers.lessons.warns) == ("", False)
    read = "Read some texts of each group before you use it: "
    for found, reason in ((by_answers, "they may give"), (similar, "the texts may be similar")):
        doubtful = unsure(found)
        assert doubtful.division.startswith(read + reason)
        assert doubtful.doubts.startswith(doubtful.division)
        assert doubtful.caution.startswith(f"{doubtful.lessons.sentence} {doubtful.division}")
        assert doubtful.to_json()["caution"] == doubtful.caution
        report = make_report(doubtful, numbers_of(taught, groups_of(doubtful)), {})
        assert report.caution == doubtful.caution
        assert report.similar


def test_a_report_has_the_held_out_examples_of_each_group_that_is_a_learned_answer(taught):
    found = taught.cluster(MOOD)
    lessons = replace(found.lessons, answers={"good": 30, "bad": 4}, right={"good": 27.0, "bad": 3.3})
    counted = numbers_of(taught, groups_of(found))
    made = make_report(replace(found, lessons=lessons), counted, {})
    assert {section.numbers.name: section.right for section in made.sections} == {"good": "90%", "bad": "3 of 4"}
    half = make_report(replace(found, lessons=replace(lessons, right={"bad": 3.3})), counted, {})
    assert {section.numbers.name: section.right for section in half.sections} == {"good": "", "bad": "3 of 4"}
    similar = replace(taught.cluster(MOOD, k=2), lessons=lessons)
    none = make_report(similar, numbers_of(taught, groups_of(similar)), {})
    for kind_ in ("html", "md"):
        assert "3 of 4" in render(made, kind_)
        assert "ight on held-out" in render(half, kind_)
        assert "ight on held-out" not in render(none, kind_)


def test_clusters_that_another_run_would_not_make_are_called_unstable(taught):
    found = replace(taught.cluster(MOOD, k=2), stability=Stability(0.78, 0.66))
    assert found.doubts == (
        "These 2 clusters are not stable: a second run or a run on half of the texts gives others "
        "(agreement 0.78 and 0.66 of 1)."
    )
    found = replace(found, stability=Stability(0.96, 0.64))
    assert (
        found.doubts
        == "These 2 clusters are not stable: a run on half of the texts gives others (agreement 0.64 of 1)."
    )
    unsure = [Tried(2, 0.1, Stability(0.96, 0.64))]
    assert replace(found, choice=Choice(2, unsure)).doubts.startswith(
        "These 2 clusters are a first sorting, since no number of them is stable: a run on half"
    )
