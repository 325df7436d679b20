import json
import sys

import asked
import kept_out
import labels
import mixture
import pytest

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


def test_no_grid_of_ours_asks_about_a_held_out_text():
    hashes = kept_out._hashes()
    assert len(hashes) == 240
    assert not [grid.name for grid in asked.grids() if hashes & set(grid.answers)]


def test_neither_mixture_nor_labels_learns_from_a_held_out_text(held, tmp_path, monkeypatch):
    texts = ["A kettle.", "A lamp.", "A chair.", "A plate."]
    rows = [{"text": text, "labels": {"intent": "card_arrival"}, "split": "train"} for text in texts]
    (tmp_path / "banking77.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = next(one for one in mixture.SOURCES if one.name == "intents")
    assert {row["text"] for row in mixture.permitted(source, tmp_path, set())} == set(texts) - {"A kettle."}

    monkeypatch.setattr(labels, "PERMITTED", {"banking77": "CC BY 4.0"})
    kinds = [{"name": "intent", "source": "banking77", "values": ["card_arrival"]}]
    instructions = [{"text": "What is wanted?", "held_out": False}]
    (tmp_path / "kinds.json").write_text(json.dumps({"kinds": [{**kinds[0], "instructions": instructions}]}))
    monkeypatch.setattr(sys, "argv", ["labels.py", str(tmp_path / "out"), str(tmp_path)])
    labels.main()
    made = [json.loads(line) for line in (tmp_path / "out" / "labels-banking77.jsonl").read_text().splitlines()]
    assert made and {row["text"] for row in made} == set(texts) - {"A kettle."}


def test_the_list_is_made_of_the_grids_that_are_held_out(tmp_path, monkeypatch, capsys):
    grids = [{"split": split, "rows": [{"text": f"{split} {n}"} for n in range(2)]} for split in ("train", "dev")]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(grid) + "\n" for grid in grids))
    monkeypatch.setattr(sys, "argv", ["kept_out.py", str(tmp_path / "asked.jsonl")])
    kept_out.main()
    assert capsys.readouterr().out.split() == sorted(kept_out.text_hash(f"dev {n}") for n in range(2))
