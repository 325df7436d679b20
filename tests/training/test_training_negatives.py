from types import SimpleNamespace

import numpy as np
import pytest
from curation_fakes import TableEncoder

from retriever.training import negatives
from retriever.training.negatives import (
    MiningOptions,
    embed_queries,
    mine,
    mine_answers,
    mine_documents,
    same_answer_similarity,
    threshold,
    vector_index,
)
from retriever.training.pairs import (
    answer_set,
    dicl_examples,
    gircse_examples,
    remove_stopwords,
    set_numbers,
)
from retriever.training.rows import TrainingRow
from retriever.vectors.exact import ExactIndex


def row(text, answer, group="kind", **more):
    return TrainingRow(text, f"{group}?", answer, group=group, **more)


ROWS = [
    row("boils fast", "kettle"),
    row("whistles", "Kettle."),
    row("shines", "lamp"),
    row("flickers", "lamp"),
    row("boils fast", "happy", "mood"),
    row("squeaks", "toy"),
]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("it is a kettle", "kettle"),
        ("The battery, and the screen.", "battery, screen."),
        ("It IS what It's", "It IS what It's"),
        ("It\u2019s loud", "loud"),
        ("not good", "not good"),
        ("it isn't any good", "isn't good"),
        ("no", "no"),
        ("kettle", "kettle"),
    ],
)
def test_stopwords_go_but_for_negations_and_what_is_nothing_else(answer, expected):
    assert remove_stopwords(answer) == expected


def test_rows_share_a_set_by_question_group_and_answer():
    assert set_numbers([answer_set(one) for one in ROWS]) == [0, 0, 1, 1, 2, 3]
    assert answer_set(ROWS[1]) == ("kind", "kettle") != answer_set(row("x", "kettle", "use"))


def test_gircse_pairs_texts_with_the_same_answer_and_takes_texts_with_another_as_negatives():
    first, *_, mood, toy = gircse_examples(ROWS, seed=0)
    assert (first.text, first.positive, first.symmetric) == ("boils fast", "whistles", True)
    assert set(first.negatives) == {"shines", "flickers", "squeaks"}
    assert (first.instruction, first.positive_instruction) == ("kind?", "kind?")
    assert (toy.positive, toy.symmetric, toy.positive_instruction) == ("toy", False, "")
    assert sorted(toy.negatives) == ["kettle", "lamp"]
    assert (mood.positive, sorted(mood.negatives)) == ("happy", ["kettle"])


def test_a_text_is_no_partner_of_itself_and_no_negative_where_an_answer_of_it_is_right():
    rows = [row("both", "a"), row("Both.", "a"), row("both", "b"), row("other", "b")]
    first, _, third, fourth = gircse_examples(rows, seed=3)
    assert (first.positive, first.symmetric, first.negatives) == ("a", False, ())
    assert (third.positive, third.negatives) == ("other", ())
    assert fourth.positive in ("both", "Both.")
    assert fourth.negatives == ()
    assert dicl_examples(rows, seed=0)[0].negatives == ()
    assert dicl_examples(rows, seed=0)[3].negatives == ("a",)


def test_dicl_takes_the_answer_with_an_empty_instruction_and_other_answers_to_the_question():
    examples = dicl_examples(ROWS, seed=0)
    assert (examples[0].positive, examples[0].positive_instruction) == ("kettle", "")
    assert sorted(examples[0].negatives) == ["lamp", "toy"]
    assert examples[4].negatives == ("kettle",)


def test_positives_and_negatives_that_rows_name_come_first():
    rows = [
        row("q1", "p1", "", positives=("p1", "p2"), negatives=("n1",)),
        row("q2", "p3", "", positives=("p3",)),
    ]
    for examples in (gircse_examples(rows, seed=0), dicl_examples(rows, seed=0)):
        assert examples[0].positive in ("p1", "p2")
        assert examples[0].negatives == ("n1", "p3")
        assert not examples[0].symmetric
    assert {gircse_examples(rows, seed=seed)[0].positive for seed in range(20)} == {"p1", "p2"}


def test_mined_negatives_come_before_random_ones_and_fit_the_positives_kind():
    mined = [("flickers",)] * len(ROWS)
    examples = gircse_examples(ROWS, seed=0, negatives=2, mined=mined)
    assert examples[0].negatives[0] == "flickers"
    assert len(set(examples[0].negatives)) == 2
    assert set(examples[5].negatives) == {"lamp", "kettle"}
    rows = [TrainingRow("q", "", text, (text,)) for text in ("p1", "p2", "p3")]
    for make in (gircse_examples, dicl_examples):
        assert make(rows, seed=0, negatives=1, mined=[("wrong",)] * 3)[0].negatives == ("wrong",)


@pytest.mark.parametrize("make", [gircse_examples, dicl_examples])
def test_the_seed_decides_everything(make):
    rows = [row(f"text {number}", f"answer {number % 30}") for number in range(300)]
    assert make(rows, seed=5) == make(rows, seed=5)
    assert make(rows, seed=5) != make(rows, seed=6)


def test_many_rows_give_as_many_negatives_as_wanted_and_rare_answers_among_them():
    rows = [row(f"text {number}", "rare" if number < 3 else f"answer {number % 5}") for number in range(600)]
    examples = gircse_examples(rows, seed=0, negatives=4)
    answers = {one.text: one.answer for one in rows}
    assert all(len(one.negatives) == 4 for one in examples)
    for one, of in zip(examples, rows, strict=True):
        assert answers[one.positive] == of.answer
        assert one.positive != of.text
        assert of.answer not in {answers[negative] for negative in one.negatives}
    rare = sum(answers[negative] == "rare" for one in examples for negative in one.negatives)
    assert rare > 150


def test_without_rows_there_are_no_examples():
    assert gircse_examples([], seed=0) == dicl_examples([], seed=0) == []


def at(*degrees):
    """Return unit vectors in the plane, (n, 2)."""
    radians = np.radians(np.array(degrees, dtype=np.float64))
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def cosine(degrees):
    return np.cos(np.radians(degrees))


def test_the_threshold_is_below_the_positive_on_either_side_of_zero():
    limits = threshold(np.array([0.8, 0.0, -0.4], np.float32), 0.95)
    np.testing.assert_allclose(limits, [0.76, 0.0, -0.42], rtol=1e-6)


def test_candidates_over_the_margin_are_skipped_and_the_nearest_of_the_others_taken():
    # Positive at 30 degrees: cosine 0.866, limit 0.823, which is 34.6 degrees.
    index = ExactIndex(np.arange(6), at(30, 10, 34, 36, 60, -50))
    queries = at(0), np.array([cosine(30)], np.float32), [{0}]
    found = mine(*queries, index, MiningOptions(count=2))
    assert (found.ids, found.skipped) == ([[3, 5]], 2)
    assert mine(*queries, index, MiningOptions(count=9)).ids == [[3, 5, 4]]
    assert mine(*queries, index, MiningOptions(count=2, margin=1.0)).ids == [[2, 3]]


def test_the_search_goes_deeper_until_enough_are_left(monkeypatch):
    monkeypatch.setattr(negatives, "_DEPTH", 1)
    index = ExactIndex(np.arange(100), at(*np.linspace(0, 90, 100)))
    queries = at(0, 90), np.array([cosine(60)] * 2, np.float32), [set(), {0}]
    found = mine(*queries, index, MiningOptions(count=3))
    limits = threshold(queries[1], 0.95)
    angles = np.linspace(0, 90, 100)
    below = [one for one in range(100) if cosine(angles[one]) <= limits[0]][:3]
    assert found.ids == [below, [99 - one for one in below]]


def test_queries_are_searched_in_parts_with_the_same_result(monkeypatch):
    vectors = at(*np.random.default_rng(0).uniform(0, 90, 40))
    index = ExactIndex(np.arange(40), vectors)
    queries = vectors, np.full(40, 0.9, np.float32), [{one} for one in range(40)]
    monkeypatch.setattr(negatives, "_DEPTH", 2)
    whole = mine(*queries, index, MiningOptions())
    monkeypatch.setattr(negatives, "_AT_ONCE", 3 * 4096)
    assert mine(*queries, index, MiningOptions()) == whole
    assert all(len(ids) == 4 for ids in whole.ids)


def test_only_allowed_ids_are_found():
    index = ExactIndex(np.arange(4), at(40, 50, 60, 70))
    queries = at(0), np.array([1.0], np.float32), [()]
    for allowed in ([1, 3], []):
        found = mine(*queries, index, MiningOptions(), allowed=np.array(allowed, dtype=np.int64))
        assert found.ids == [allowed]


def test_many_vectors_are_searched_by_faiss_with_the_same_result(monkeypatch):
    from retriever.vectors.faiss.index import FaissIndex

    vectors = at(*np.random.default_rng(0).uniform(0, 360, 50))
    queries = at(10, 200), np.array([0.9, 0.2], np.float32), [{1}, {2}]
    exact = vector_index(vectors)
    monkeypatch.setattr(negatives, "_EXACT", 10)
    faiss = vector_index(vectors)
    assert isinstance(exact, ExactIndex)
    assert isinstance(faiss, FaissIndex)
    assert mine(*queries, faiss, MiningOptions(5)) == mine(*queries, exact, MiningOptions(5))


def test_queries_are_read_under_their_questions_in_few_passes():
    rows = [row("a", "x"), row("b", "x"), row("a", "x", "mood"), row("c", "x")]
    angles = {"a": 0, "b": 10, "c": 20, ("a", "mood?"): 90}
    encoder = TableEncoder(angles)
    np.testing.assert_allclose(embed_queries(rows, encoder), at(0, 10, 90, 20), atol=1e-6)
    assert encoder.calls == [(("a", "b", "c"), "kind?"), (("a",), "mood?")]
    encoder = TableEncoder(angles)
    np.testing.assert_allclose(embed_queries([rows[2], rows[0]], encoder), at(90, 0), atol=1e-6)
    assert encoder.calls == [(("a",), "mood?"), (("a",), "kind?")]


def test_answers_are_mined_among_those_to_the_same_question():
    rows = [row("a", "kettle"), row("b", "pot"), row("c", "lamp"), row("d", "sad", "mood"), row("a", "urn")]
    angles = {"a": 0, "b": 5, "c": 90, "d": 40, "kettle": 20, "pot": 22, "lamp": 70, "sad": 30, "urn": 50}
    mined = mine_answers(rows, TableEncoder(angles), MiningOptions(count=2))
    # For "a" the positive lies at 20 degrees: the pot at 22 is over the limit (0.927 > 0.893), and the urn is right.
    assert mined.rows[0] == ("lamp",)
    # The positive of the other "a" row, the urn at 50 degrees, makes the limit 0.611: the pot is over it too.
    assert mined.rows[4] == ("lamp",)
    # From "b" at 5, the positive is 17 degrees away and the limit at 24.7: the kettle at 15 is over it.
    assert mined.rows[1] == ("urn", "lamp")
    # A question without another answer is given those of all questions. Its positive is 10 degrees away, the limit at
    # 20.7: urn, pot and kettle are over it.
    assert mined.rows[3] == ("lamp",)
    assert mined.skipped == 1 + 1 + 1 + 3


def test_positives_of_the_same_query_and_the_text_itself_are_never_negatives():
    rows = [
        TrainingRow("q", "", "p1", ("p1",)),
        TrainingRow("Q.", "", "p2", ("p2",)),
        TrainingRow("r", "", "q", ("q", "p3")),
    ]
    angles = {"q": 0, "Q.": 0, "r": 80, "p1": 10, "p2": 40, "p3": 50}
    mined = mine_answers(rows, TableEncoder(angles), MiningOptions())
    assert mined.rows == [("p3",), ("p3",), ()]


def test_a_text_is_no_negative_answer_to_itself():
    rows = [TrainingRow("q", "i", "p", ("p",)), TrainingRow("r", "i", "q", ("q",))]
    encoder = TableEncoder({("q", "i"): 0, ("r", "i"): 90, "p": 10, "q": 60})
    assert mine_answers(rows, encoder, MiningOptions()).rows == [(), ("p",)]


def test_the_similarity_to_texts_with_the_same_answer_is_a_mean_over_other_texts():
    rows = [row("a", "x"), row("b", "x"), row("c", "x"), row("A", "x"), row("d", "y")]
    similar = same_answer_similarity(rows, at(0, 60, 90, 0, 10))
    np.testing.assert_allclose(similar[:4], [0.25, (0.5 + cosine(30)) / 2, cosine(30) / 2, 0.25], atol=1e-6)
    assert np.isnan(similar[4])


@pytest.fixture
def mined_from():
    """Mine four documents of an index, known by angle, under an instruction."""
    angles = {"d10": 10, "d40": 40, "d70": 70, "p": 30}
    ids = {text: 100 + place for place, text in enumerate(angles)}
    view = ExactIndex(np.array(list(ids.values())), at(*angles.values()))
    documents = SimpleNamespace(
        texts=lambda wanted: {one: text for text, one in ids.items() if one in wanted},
        known=lambda texts: {text: ids[text] for text in texts if text in ids},
    )
    return lambda rows, encoder, asked: mine_documents(rows, encoder, view, asked, documents, MiningOptions())


def test_documents_of_an_index_serve_rows_with_positives(mined_from):
    rows = [TrainingRow("q", "", "p", ("p",)), TrainingRow("q", "", "d70", ("d70",)), row("q", "x")]
    mined = mined_from(rows, TableEncoder({"q": 0, "p": 30, "d70": 70}), "")
    # Limit for the first 0.823: d10 is over it; d70 is a positive of the same query.
    assert mined.rows == [("d40",), (), ()]
    assert mined.skipped == 3


def test_a_view_serves_the_rows_that_ask_its_question(mined_from):
    rows = [row("q", "x"), row("d40", "x"), row("q", "x", "mood"), TrainingRow("q", "", "p", ("p",))]
    mined = mined_from(rows, TableEncoder({"q": 0, "d40": 40}), "kind?")
    # Another x lies at 40 degrees, so the limit is 0.728: p at 30 and d10 are over it, d40 is right.
    assert mined.rows[0] == ("d70",)
    # From d40, d70 lies 30 degrees away, p and d10 are near too: all over the limit.
    assert mined.rows[1:] == [(), (), ()]
