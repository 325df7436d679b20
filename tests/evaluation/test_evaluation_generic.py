import math

import pytest
from retrieval_fakes import BagEncoder, RuleEncoder, bench, by_name, write_rows

from retriever.core.errors import InputError
from retriever.evaluation import generic
from retriever.evaluation.suites import DataFile

SECOND = 1 / math.log2(3)


def sts_rows(*scored, split="test"):
    return [
        {"id": str(row), "a": a, "b": b, "score": score, "split": split} for row, (a, b, score) in enumerate(scored)
    ]


PAIRS = [("x y", "x y", 5.0), ("x y", "x z", 2.5), ("x y", "z w", 0.0)]


def test_similarity_is_the_rank_correlation_of_cosines_with_scores(tmp_path):
    upside_down = sts_rows(("x", "y", 5.0), ("x", "x", 0.0), split="train")
    write_rows(tmp_path, "stsb.jsonl", sts_rows(*PAIRS) + upside_down)
    (score,) = generic.sts(bench(tmp_path, BagEncoder("x y z w")))
    assert (score.task, score.metric, score.items, score.headline) == ("sts", "Spearman", 3, True)
    assert score.value == pytest.approx(100)
    write_rows(tmp_path, "stsb.jsonl", sts_rows(*((a, b, -wanted) for a, b, wanted in PAIRS)))
    (score,) = generic.sts(bench(tmp_path, BagEncoder("x y z w")))
    assert score.value == pytest.approx(-100)


def test_similarity_without_a_test_split_is_refused(tmp_path):
    write_rows(tmp_path, "stsb.jsonl", sts_rows(*PAIRS, split="train"))
    with pytest.raises(InputError, match=r"stsb\.jsonl has no row of the split 'test'"):
        list(generic.sts(bench(tmp_path, BagEncoder("x"))))


def retrieval_files(folder, queries):
    texts = {"p1": "cat", "p2": "cat dog", "p3": "dog", "p4": "fish", "p5": "bird"}
    write_rows(folder, DataFile.PASSAGES, [{"id": id, "text": text} for id, text in texts.items()])
    return write_rows(folder, DataFile.WEB_QUERIES, queries)


CAT = {"id": "q1", "text": "cat", "relevant": ["p2"]}
FISH = {"id": "q2", "text": "fish", "relevant": ["p4"]}


def test_retrieval_is_scored_in_every_mode(tmp_path):
    retrieval_files(tmp_path, [CAT, FISH])
    given = bench(tmp_path, BagEncoder("cat dog fish bird"))
    scores = by_name(generic.retrieval(given))
    assert given.search.asked == [(mode, 5, 100) for mode in ("dense", "lexical", "hybrid", "auto")]
    for mode in ("dense", "lexical", "hybrid", "auto"):
        # "cat" finds its passage second, behind the one that is nothing but a cat; "fish" finds its own first.
        assert scores[f"retrieval {mode}", "nDCG@10"].value == pytest.approx(100 * (SECOND + 1) / 2)
        assert scores[f"retrieval {mode}", "MAP"].value == pytest.approx(75)
        assert scores[f"retrieval {mode}", "recall@100"].value == 100
    assert [name for name, score in scores.items() if score.headline] == [("retrieval dense", "nDCG@10")]


def test_a_limit_keeps_the_relevant_passages_and_a_few_others(tmp_path):
    retrieval_files(tmp_path, [CAT, FISH])
    write_rows(tmp_path, DataFile.PASSAGES, [{"id": f"p{n}", "text": "dog"} for n in range(50)])
    given = bench(tmp_path, BagEncoder("cat dog"), limit=1)
    assert {score.items for score in generic.retrieval(given)} == {1}
    assert {documents for _, documents, _ in given.search.asked} == {1 + generic.DISTRACTORS}


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"relevant": ["p9"]}, "'relevant' names 'p9', which retrieval_msmarco_corpus"),
        ({"relevant": [["p1"]]}, "which retrieval_msmarco_corpus.jsonl lacks"),
        ({"relevant": []}, "'relevant' is empty"),
        ({"id": "q1"}, "the id 'q1' is there twice"),
        ({"relevant": "p1"}, "'relevant' is not a list"),
    ],
)
def test_a_query_that_cannot_be_scored_is_named(tmp_path, change, problem):
    path = retrieval_files(tmp_path, [CAT, FISH | change])
    with pytest.raises(InputError) as caught:
        list(generic.retrieval(bench(tmp_path, BagEncoder("cat"))))
    assert f"{path}, row 2: " in caught.value.message
    assert problem in caught.value.message


def test_intents_are_clustered_under_their_instruction(tmp_path):
    rows = [
        {"id": f"{mood} {number}", "text": f"{number % 2} {mood}", "labels": {"intent": mood}, "split": "test"}
        for number in range(20)
        for mood in ("pay", "lost", "limit")
    ]
    write_rows(tmp_path, DataFile.INTENTS, [*rows, {"text": "x", "labels": {"intent": "other"}, "split": "train"}])

    def rule(text, instruction):
        return text.split()[instruction == generic.INTENT_INSTRUCTION]

    (score,) = generic.intents(bench(tmp_path, RuleEncoder("0 1 pay lost limit", rule)))
    assert (score.task, score.metric, score.items) == ("intents", "V-measure", 60)
    assert score.value == pytest.approx(100)
    assert generic.INTENT_INSTRUCTION in score.note


def test_relations_are_clustered_with_the_names_behind_the_sentence(tmp_path):
    rows = [
        {
            "id": str(number),
            "text": "someone",
            "head": "Ann",
            "tail": tail,
            "labels": {"relation": tail.lower()},
            "split": "test",
        }
        for number, tail in enumerate(["Ben", "Rome"] * 10)
    ]
    write_rows(tmp_path, DataFile.RELATIONS, rows)
    encoder = BagEncoder("someone Ann; Ben Rome")
    (score,) = generic.relations(bench(tmp_path, encoder))
    assert score.value == pytest.approx(100)
    assert set(encoder.read) == {(f"someone\nAnn; {tail}", generic.RELATION_INSTRUCTION) for tail in ("Ben", "Rome")}


def story(name, *sections, split="val"):
    return [
        {"text": text, "question": question, "split": split, "meta": {"story": name}} for text, question in sections
    ]


def test_a_question_ranks_the_sections_of_its_own_story(tmp_path):
    rows = [
        *story("hen", ("egg", "egg"), ("egg", "egg"), ("corn", "egg")),  # the last question finds its section second
        *story("fox", ("egg", "egg"), ("den", "den")),
        *story("alone", ("egg", "den")),
        *story("seen", ("den", "egg"), ("egg", "den"), split="train"),
    ]
    write_rows(tmp_path, DataFile.STORIES, rows)
    (score,) = generic.rerank(bench(tmp_path, BagEncoder("egg corn den")))
    assert (score.task, score.metric, score.items) == ("rerank", "MAP", 5)
    assert score.value == pytest.approx(100 * (1 + 1 + 0.5 + 1 + 1) / 5)
    assert "2.0 candidates" in score.note


def test_a_limit_reads_few_stories(tmp_path):
    rows = [one for name in "abcdefgh" for one in story(name, (f"{name} egg", "egg"), (f"{name} corn", "corn"))]
    write_rows(tmp_path, DataFile.STORIES, rows)
    for limit, stories in ((1, 1), (2, 1), (3, 2), (15, 8), (16, 8), (99, 8)):
        encoder = BagEncoder("egg corn")
        (score,) = generic.rerank(bench(tmp_path, encoder, limit=limit))
        assert score.items == min(limit, 16)
        assert len({text for text, _ in encoder.read} - {"egg", "corn"}) == 2 * stories


def test_stories_of_one_section_have_nothing_to_rank(tmp_path):
    write_rows(tmp_path, DataFile.STORIES, story("alone", ("egg", "den")))
    with pytest.raises(InputError, match="no story of two sections"):
        list(generic.rerank(bench(tmp_path, BagEncoder("egg"))))
