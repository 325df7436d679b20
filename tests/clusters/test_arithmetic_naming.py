import numpy as np
import pytest

from retriever.clusters.arithmetic import naming
from retriever.clusters.arithmetic.kmeans import Partition
from retriever.clusters.arithmetic.naming import (
    answer_words,
    central,
    keywords,
    labels_of,
    names_that_hold,
    text_words,
    typical_sentence,
)
from retriever.core.similarity import normalise


def test_words_of_texts_are_lower_case_without_stop_words_and_numbers():
    assert text_words("The Kettle's lid isn't 12cm; it BROKE, over-heated!") == {
        "kettle's",
        "lid",
        "cm",
        "broke",
        "over-heated",
    }


def test_words_of_answers_leave_out_the_instructions_own():
    assert answer_words(["Products", "kettle", "the", "of", "Kettle"], "What kind of product is it?") == {"kettle"}
    assert answer_words(["kettles", "glass"], "Is it glass or a kettle?") == set()


def test_keywords_by_hand(monkeypatch):
    words = [{"kettle", "good"}, {"kettle", "good"}, {"toy", "good"}, {"toy", "bad"}, {"toy", "bad"}]
    labels = np.array([0, 0, 1, 1, 1])
    # Shares: cluster 0 kettle 1, good 1; cluster 1 toy 1, bad 2/3 (good once: not shared by two). Totals: kettle 1,
    # good 1, toy 1, bad 2/3; they are 3.6667 over 2 clusters, so A = 1.8333.
    assert keywords(words, labels, 2) == [["good", "kettle"], ["toy", "bad"]]
    monkeypatch.setattr(naming, "KEYWORDS", 1)
    assert keywords(words, labels, 2) == [["good"], ["toy"]]


def test_a_word_of_all_clusters_counts_less_than_one_of_its_own():
    words = [{"good", "kettle"}] * 4 + [{"good", "toy"}] * 4
    named = keywords(words, np.array([0] * 4 + [1] * 4), 2)
    assert named == [["kettle", "good"], ["toy", "good"]]


def test_the_forms_of_one_word_count_together_and_make_room_for_the_next(monkeypatch):
    monkeypatch.setattr(naming, "KEYWORDS", 2)
    words = [{"book", "books", "plug"}, {"books", "plug", "lid"}, {"Books", "lid", "blue"}, {"toy"}]
    # Shares of cluster 0: book 1, plug and lid 2/3; all are its own, and of book most say books.
    assert keywords(words, np.array([0, 0, 0, 1]), 2) == [["books", "lid"], ["toy"]]


def test_a_cluster_of_one_document_has_its_words():
    assert keywords([{"toy"}, {"lamp"}, {"lamp"}], np.array([0, 1, 1]), 2) == [["toy"], ["lamp"]]


def test_clusters_without_words_have_none():
    assert keywords([set(), set()], np.array([0, 1]), 2) == [[], []]


def test_labels_are_short_and_share_no_word_where_each_has_its_own():
    named = [["a", "b", "cups", "d", "x"], ["e", "a", "b", "x"], ["x", "e"], ["f", "a", "cup"]]
    assert labels_of(named) == [
        "a / b / cups",
        "e",
        "x",
        "f",
    ]  # x stands foremost in the third; a cup is one of the cups


def test_labels_are_never_the_same():
    named = [["a", "b"], ["a", "b"], ["b", "a"], [], [], ["z"]]
    assert labels_of(named) == ["a", "a / b", "b", "unnamed", "unnamed (5)", "z"]
    assert labels_of([["late"], ["Late"]]) == ["late", "Late (2)"]
    assert labels_of([["a"], ["a"], ["a"]]) == ["a", "a (2)", "a (3)"]


LABELS = np.array([0] * 4 + [1] * 4)


def test_a_name_that_half_of_the_documents_answer_is_kept_and_rare_words_are_not_in_it():
    answers = [["kitchen"], ["kitchen"], ["kitchen"], ["bath"], ["toy"], ["toy", "play"], ["toy"], ["play"]]
    texts = [["kettle"]] * 4 + [["train"]] * 4
    sides = ([["kitchen", "bath"], ["toy", "play"]], answers), ([["kettle"], ["train"]], texts)
    assert names_that_hold(*sides, LABELS) == (["kitchen / bath", "toy / play"], [1.0, 1.0])
    many = [["kitchen"]] * 9 + [["bath"]] + [["toy"]] * 10
    sides = ([["kitchen", "bath"], ["toy"]], many), ([["kettle"], ["train"]], [["kettle"]] * 20)
    assert names_that_hold(*sides, np.repeat([0, 1], 10))[0] == ["kitchen", "toy"]


def test_a_name_that_fewer_answer_is_of_the_texts_or_an_example():
    answers = [["kitchen"], ["garden"], ["pet"], ["road"], ["toy"], ["toy"], ["toy"], ["toy"]]
    texts = [["knives"], ["knife"], ["blade"], ["bread"], *[["train"]] * 4]
    sides = ([["kitchen"], ["toy"]], answers), ([["knife", "blade"], ["train"]], texts)
    assert names_that_hold(*sides, LABELS) == (["knife / blade", "toy"], [0.5, 1.0])
    sides = ([["kitchen"], ["toy"]], answers), ([["bread"], ["train"]], texts)
    assert names_that_hold(*sides, LABELS)[0] == ["such as bread", "toy"]
    assert names_that_hold(([[], []], [[]] * 8), ([["knife"], ["train"]], texts), LABELS)[0][1] == "train"


@pytest.fixture
def partition():
    rows = normalise(np.array([[1, 0.0], [0.9, 0.1], [0.8, 0.3], [0, 1.0], [0.2, 0.9]]))
    cosines = np.array([0.9, 0.99, 0.8, 0.95, 0.97], np.float32)
    margins = np.array([0.5, 0.4, 0.3, 0.2, 0.1], np.float32)
    return Partition(rows[[1, 4]], np.array([0, 0, 0, 1, 1]), cosines, margins)


def test_central_documents_are_nearest_first_and_differ(partition, monkeypatch):
    assert central(partition, ["a", "b", "c", "d", "e"], 0) == [1, 0, 2]
    assert central(partition, ["a", "a", "c", "d", "e"], 0) == [1, 2]
    monkeypatch.setattr(naming, "_CENTRAL", 1)
    assert central(partition, ["a", "b", "c", "d", "e"], 1) == [4]


def test_the_typical_sentence_says_most_in_few_words():
    texts = ["It came late. The lid of the kettle broke. Bye.", "My kettle is blue and old and I had it for years now."]
    assert typical_sentence(texts, ["kettle", "lid", "broke"]) == "The lid of the kettle broke."
    assert typical_sentence(["Too short.", "x"], ["kettle"]) == ""
