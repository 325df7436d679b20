import json
import random
import sys

import kept_out
import mixture
import pytest
from label_types import load_label_types
from mixture import SOURCES, Questioner, evaluation_texts, permitted, questions

from retriever.evaluation.rows import split_of
from retriever.training.rows import read_training_rows

LONG = f"{'It was long ago. ' * 30}The end."


@pytest.fixture
def held(monkeypatch):
    """Two texts that are held out, one of them the beginning of a longer one."""
    hashes = frozenset({kept_out.text_hash("A kettle."), kept_out.text_hash(kept_out.beginning(LONG))})
    monkeypatch.setattr(kept_out, "_hashes", lambda: hashes)


def test_held_out_texts_are_known_however_they_are_written_or_cut(held):
    assert kept_out.kept_out("a  KETTLE.")
    assert kept_out.kept_out(LONG)
    assert not kept_out.kept_out("A kettle that whistles.")


def test_the_mixture_does_not_learn_from_a_held_out_text(held, tmp_path):
    texts = ["A kettle.", "A lamp.", "A chair.", "A plate."]
    rows = [{"text": text, "labels": {"intent": "card_arrival"}, "split": "train"} for text in texts]
    (tmp_path / "banking77.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = next(one for one in mixture.SOURCES if one.name == "intents")
    assert {row["text"] for row in mixture.permitted(source, tmp_path, set())} == set(texts) - {"A kettle."}


def test_the_list_is_made_of_the_grids_that_are_held_out(tmp_path, monkeypatch, capsys):
    grids = [{"split": split, "rows": [{"text": f"{split} {n}"} for n in range(2)]} for split in ("train", "dev")]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(grid) + "\n" for grid in grids))
    monkeypatch.setattr(sys, "argv", ["kept_out.py", str(tmp_path / "asked.jsonl")])
    kept_out.main()
    assert capsys.readouterr().out.split() == sorted(kept_out.text_hash(f"dev {n}") for n in range(2))


KINDS = load_label_types()
BY_NAME = {source.name: source for source in SOURCES}
ASPECTS = [
    {"aspect": "lid", "opinion": "flimsy", "polarity": "NEG"},
    {"aspect": "lid", "opinion": "not there", "polarity": "NEG"},
    {"aspect": None, "opinion": "good", "polarity": "POS"},
]
LABELLED = {
    "reviews_dmaste.jsonl": {"labels": {"category": "toy", "polarity": "negative", "stars": 1}},
    "aspects_dmaste.jsonl": {"labels": {"category": "home", "subcategory": "Automotive"}, "aspects": ASPECTS},
    "aspects_huliu.jsonl": {"labels": {"product": "ipod"}, "aspects": [{"aspect": "lid", "polarity": "positive"}]},
    "aspects_mams.jsonl": {"aspects": [{"aspect": "food", "polarity": "neutral"}]},
    "banking77.jsonl": {"labels": {"intent": "card_arrival"}},
    "goemotions.jsonl": {"labels": {"emotion": "joy", "ekman": "joy", "sentiment": "positive"}},
    "fewrel_nyt_pubmed.jsonl": {"head": "Ann", "tail": "Ben", "labels": {"relation": "mother"}},
    "qa_qamr.jsonl": {"question": "Who came?", "answer": "Ben"},
    "qa_fairytale.jsonl": {"question": "Who came?", "answer": "Ben"},
}


def write(folder, file, rows):
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path):
    """Thirty texts a file, of which the first is an evaluation text too."""
    for file in mixture.EVALUATION:
        write(tmp_path, file, [{"a": "the FLIMSY lid, 0!"}])
    for file, row in LABELLED.items():
        rows = [{"text": f"The flimsy lid {number}", **row} for number in range(30)]
        if file == "qa_fairytale.jsonl":
            rows = [{**one, "meta": {"story": f"story {n // 3}"}, "split": "train"} for n, one in enumerate(rows)]
        write(tmp_path, file, rows)
    return tmp_path


def made(data, name, texts=30, seed=0):
    rows = permitted(BY_NAME[name], data, evaluation_texts(data))
    draw = random.Random(seed)
    return list(questions(BY_NAME[name], rows, Questioner(KINDS, draw), texts, draw))


@pytest.mark.parametrize("name", BY_NAME)
def test_only_training_texts_are_asked_about(data, name):
    seen = {row["text"] for row in made(data, name)}
    texts = {number: f"The flimsy lid {number}" for number in range(1, 30)}
    trained = {one for n, one in texts.items() if {split_of(one), split_of(f"story {n // 3}")} == {"train"}}
    assert trained and seen == trained


def test_what_one_file_tests_with_no_other_teaches(data):
    text = next(one for n in range(1000) if split_of(one := f"A lid {n}") == "train")
    for file in ("reviews_dmaste.jsonl", "banking77.jsonl"):
        write(data, file, [{"text": text, **LABELLED[file]}])
    assert made(data, "reviews") and made(data, "intents")
    write(data, "banking77.jsonl", [{"text": text.upper(), "split": "test", **LABELLED["banking77.jsonl"]}])
    assert not made(data, "reviews")


def test_a_files_own_split_decides(data):
    rows = [{"text": f"t {split}", "split": split, **LABELLED["banking77.jsonl"]} for split in ("train", "dev", "test")]
    write(data, "banking77.jsonl", rows)
    assert {row["text"] for row in made(data, "intents")} == {"t train"}


def test_labels_become_questions_in_trained_wordings_with_answers_in_words(data):
    rows = made(data, "intents")
    asked = [row for row in rows if row["group"] == "banking_intent"]
    assert {row["answer"] for row in asked} == {KINDS["banking_intent"].answers["card_arrival"][0]}
    assert {row["question"] for row in asked} <= set(KINDS["banking_intent"].wordings)
    assert len({row["question"] for row in asked}) > 5


def test_kinds_of_label_that_are_held_out_are_never_asked(data):
    for name in BY_NAME:
        groups = {row.get("group", "").split(" ")[0] for row in made(data, name)}
        held_out = {kind for kind, one in KINDS.items() if one.whole_type_held_out}
        held_out |= {one.name for one in mixture.DERIVED if one.held_out_type}
        assert not groups & held_out


def test_opinions_stand_in_the_text_and_aspects_have_a_name(data):
    rows = [row for row in made(data, "product-aspects") if "aspect" in row["group"]]
    assert {row["answer"] for row in rows if row["group"] == "aspect_opinion lid"} == {"flimsy"}
    assert not any("None" in row["question"] for row in rows)


def test_several_aspects_are_named_together(data):
    aspects = [{"aspect": name, "polarity": "neutral"} for name in ("service", "food", "miscellaneous")]
    write(data, "aspects_mams.jsonl", [{"text": f"t {n}", "aspects": aspects} for n in range(30)])
    rows = made(data, "restaurants")
    assert {row["answer"] for row in rows if row["group"] == "aspect_mentioned"} == {"food and service"}


def test_rare_labels_come_as_often_as_common_ones(data):
    def review(number):
        polarity = "negative" if number % 10 == 0 else "positive"
        return {"text": f"t {number}", "labels": {"category": "toy", "polarity": polarity, "stars": 1}}

    write(data, "reviews_dmaste.jsonl", [review(number) for number in range(200)])
    texts = list(dict.fromkeys(row["text"] for row in made(data, "reviews", texts=20)))
    assert len(texts) == 20
    assert sum(int(text.split()[1]) % 10 == 0 for text in texts) == 10


def test_a_relation_names_both_and_asks_for_the_second(data):
    groups = {row["group"]: row for row in made(data, "relations")}
    assert groups["tail_entity Ann mother"]["answer"] == "Ben"
    assert {"Ann", "Ben"} <= set(groups["relation Ann Ben"]["question"].replace("'s", "").replace("?", "").split())


def test_people_s_own_questions_come_once_and_few_texts_come_again(data):
    own = [row for row in made(data, "sentences", texts=90) if row["question"] == "Who came?"]
    assert len(own) == len({row["text"] for row in own})
    again = [row["text"] for row in made(data, "intents", texts=90) if row["group"] == "banking_intent"]
    assert max(again.count(text) for text in again) == mixture.TURNS * mixture.TIMES


def test_a_seed_gives_the_same_rows_and_another_gives_others(data):
    assert made(data, "reviews") == made(data, "reviews") != made(data, "reviews", seed=1)


def test_rows_are_read_back_as_training_rows(data, tmp_path):
    rows = made(data, "reviews")
    write(tmp_path, "rows.jsonl", rows)
    read = read_training_rows([tmp_path / "rows.jsonl"]).rows
    assert [(one.text, one.instruction, one.answer, one.group) for one in read] == [
        (row["text"], row["question"], row["answer"], row["group"]) for row in rows
    ]
