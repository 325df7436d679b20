import json
import random
from collections import Counter

import finding
import pytest
from finding import ANY, FINDINGS, Held, Searcher, holding, of_aspects, of_label, of_review
from label_types import load_label_types

from retriever.evaluation import instructed_retrieval

KINDS = load_label_types()
WORDINGS = json.loads(finding.Path(finding.__file__).with_name("finding_wordings.json").read_text())
TEXTS = {
    "the cook is great, the waiter is not": [Held("good", "food"), Held("bad", "staff")],
    "cold soup": [Held("bad", "food")],
    "a room with a view": [Held("good", "place")],
    "we had the menu": [Held("neutral", "menu")],
}


def rows(texts=TEXTS, family="aspect", seed=0):
    return list(Searcher(WORDINGS[family], texts, random.Random(seed)).rows(texts))


def many():
    return [row for seed in range(40) for row in rows(seed=seed)]


def wanted(row):
    words = row["group"].removeprefix("finding ").split()
    return Held(words[0], words[1]) if len(words) == 2 else Held(ANY, words[0])


def test_a_text_is_found_when_it_holds_what_is_looked_for():
    for row in (one for one in many() if one["text"] in TEXTS):
        fits = any(held.fits(wanted(row)) for held in TEXTS[row["text"]])
        assert row["answer"].startswith("yes " if fits else "no ")


def test_half_of_a_text_s_instructions_look_for_something_else():
    answers = Counter(row["answer"].partition(" ")[0] for row in many() if row["text"] in TEXTS)
    assert answers["yes"] == answers["no"]


def test_the_same_thing_judged_otherwise_is_looked_for_often_and_the_answer_says_what_is_held():
    turned = [row for row in many() if row["text"] == "cold soup" and row["group"] == "finding good food"]
    assert len(turned) > 20
    assert {row["answer"] for row in turned} == {"no bad food"}


def test_queries_are_answered_as_what_is_looked_for():
    queries = [row for row in many() if row["text"] not in TEXTS]
    assert len(queries) > 60
    assert all(row["answer"] == f"yes {wanted(row)}" for row in queries)


def test_what_is_neither_good_nor_bad_is_looked_for_without_a_judgement():
    asked = [row for row in many() if row["text"] == "we had the menu" and row["answer"].startswith("yes")]
    assert {row["group"] for row in asked} == {"finding menu"}


@pytest.mark.parametrize("family", WORDINGS)
def test_wordings_name_the_thing_and_are_not_those_of_the_evaluation(family):
    evaluated = {
        *instructed_retrieval.NAMING,
        *instructed_retrieval.OPEN,
        *(
            instructed_retrieval.INSTRUCTION.format(verb=verb, aspect="{aspect}")
            for verb in ("complain about", "praise")
        ),
    }
    written = {name: [one.replace("{thing}", "{aspect}") for one in each] for name, each in WORDINGS[family].items()}
    assert not evaluated & {one for each in written.values() for one in each}
    for name, each in written.items():
        assert len(set(each)) == len(each)
        assert name == "queries" or all("{aspect}" in one for one in each)
        assert not any(verb in one.lower() for one in each for verb in ("complain", "praise"))


def test_rows_tell_what_they_hold():
    aspects = [
        {"aspect": "Lid", "polarity": "NEG"},
        {"aspect": "lid", "polarity": "NEG"},
        {"aspect": "handle", "polarity": "POS"},
        {"aspect": "handle", "polarity": "NEG"},
        {"aspect": "price", "polarity": "neutral"},
        {"aspect": "miscellaneous", "polarity": "POS"},
        {"aspect": None, "polarity": "POS"},
        {"aspect": "the way in which all of it is put together", "polarity": "POS"},
    ]
    assert list(of_aspects({"aspects": aspects}, KINDS)) == [Held("bad", "lid"), Held("neutral", "price")]
    review = {"labels": {"category": "toy", "polarity": "negative"}}
    assert list(of_review(review, KINDS)) == [Held("bad", "toy")]
    intent = {"labels": {"intent": "age_limit"}}
    assert list(of_label("banking_intent", "intent")(intent, KINDS)) == [Held(ANY, "the age limit")]


def test_what_is_rare_comes_early():
    source = next(one for one in finding.SOURCES if one.name == "reviews")
    found = next(one for one in FINDINGS if one.source == "reviews")
    data = [
        {"text": f"t {n}", "labels": {"category": "toy" if n % 20 else "home", "polarity": "positive"}}
        for n in range(100)
    ]
    order = list(holding(source, data, found, KINDS, random.Random(0)).items())
    assert [str(held[0]) for _, held in order[:10]].count("good home") == 5


def test_one_file_a_source_is_written_for_training_texts_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(finding, "FINDINGS", [one for one in FINDINGS if one.source == "restaurants"])
    monkeypatch.setattr(finding, "evaluation_texts", lambda folder: {"seen 3"})
    data = [
        {
            "text": f"seen {n}",
            "split": "test" if n == 4 else "train",
            "aspects": [{"aspect": "food", "polarity": "neutral"}],
        }
        for n in range(6)
    ]
    (tmp_path / "aspects_mams.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    monkeypatch.setattr("sys.argv", ["finding.py", str(tmp_path), str(tmp_path / "out"), "--texts", "100"])
    finding.main()
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "finding-restaurants.jsonl"
    texts = {json.loads(line)["text"] for line in file.read_text().splitlines()}
    assert {one for one in texts if one.startswith("seen")} == {f"seen {n}" for n in (0, 1, 2, 5)}
