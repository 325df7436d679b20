import json
import random
from collections import Counter

import labels
import pytest


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Write two files of labels, one of which may not be trained on."""
    monkeypatch.setattr(labels, "PERMITTED", {"moods": "MIT", "forms": "MIT"})
    asked = [{"text": f"How is it {n}?", "held_out": n > 1} for n in range(4)]
    known = [
        {"name": "mood", "source": "moods", "values": ["glad", "sad", "calm"], "instructions": asked},
        {"name": "form", "source": "forms", "values": ["a list", "a letter"], "instructions": asked},
        {"name": "secret", "source": "secrets", "values": ["x", "y"], "instructions": asked},
    ]
    (tmp_path / "kinds.json").write_text(json.dumps({"kinds": known}))
    rows = [
        {"text": f"It rained for {n} days.", "labels": {"mood": mood}, "split": split}
        for n in range(60)
        for mood, split in [(("glad", "sad", "calm")[min(n % 10, 2)], "dev" if n % 6 == 5 else "train")]
    ]
    for name in ("moods", "forms", "secrets"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_only_permitted_kinds_and_wordings_are_read(data):
    found = labels.kinds(data)
    assert set(found) == {"mood", "form"}
    assert found["mood"].wordings == ["How is it 0?", "How is it 1?"]


def test_rare_values_come_as_often_as_the_file_allows():
    rows = [{"labels": {"mood": "sad" if n % 10 else "glad"}} for n in range(200)]
    chosen = labels.sample(rows, 40, random.Random(0))
    assert Counter(row["labels"]["mood"] for row in chosen)["glad"] >= 16
    assert len(labels.sample(rows, 1000, random.Random(0))) == 200


def test_texts_are_asked_for_every_label_and_beside_that_what_code_sees(data):
    rows = [{"text": f"I paid {n} dollars for it.", "labels": {"mood": "glad", "form": "a list"}} for n in range(40)]
    made = list(labels.questions(rows, labels.kinds(data), random.Random(0)))
    groups = Counter(row["group"] for row in made)
    assert groups["mood"] == groups["form"] == 40
    assert {row["answer"] for row in made if row["group"] == "form"} == {"a list"}
    beside = [row["group"] for row in made[:32] if row["group"] not in ("mood", "form")]
    assert beside and len(set(beside)) <= labels.BESIDE  # the texts of a block share what is asked beside
    assert any("glad" in row["question"] for row in made if row["group"] == "mood")


def test_a_question_that_names_answers_has_the_right_one_among_them_and_one_of_another_kind():
    for seed in range(20):
        asked = labels.naming("How is it?", ["glad", "sad"], "sad", ["a list"], random.Random(seed))
        assert asked.startswith("How is it: ") and asked.endswith("?")
        offered = asked.removeprefix("How is it: ").rstrip("?").replace(" or ", ", ").split(", ")
        assert sorted(offered) == ["a list", "glad", "sad"]


def test_what_is_kept_to_measure_with_is_not_written(data, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["labels.py", str(out), str(data), "--texts", "100"])
    monkeypatch.setattr(labels, "PERMITTED", {"moods": "MIT"})
    labels.main()
    (file,) = out.glob("*.jsonl")
    assert file.name == "labels-moods.jsonl"
    texts = {json.loads(line)["text"] for line in file.read_text().splitlines()}
    assert texts == {f"It rained for {n} days." for n in range(60) if n % 6 != 5}
