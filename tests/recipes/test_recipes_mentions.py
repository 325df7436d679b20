import json
import random
from collections import defaultdict

import mentions

WORDS = [f"thing{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]


def texts(count=400):
    draw = random.Random(1)
    return [" ".join(draw.sample(WORDS, 8)) for _ in range(count)]


def test_a_block_is_asked_for_words_that_divide_it_each_in_its_own_way():
    rows = list(mentions.blocks(texts(), 5, random.Random(0)))
    by_kind = defaultdict(list)
    for row in rows:
        by_kind[row["group"]].append(row)
    assert len(by_kind) >= 5
    for name, asked in by_kind.items():
        word = name.removeprefix("mentions ")
        assert all(word in row["question"] for row in asked)
        assert all((row["answer"] == "yes") == (word in row["text"].split()) for row in asked)
        share = sum(row["answer"] == "yes" for row in asked) / len(asked)
        assert 0.2 <= share <= 0.8


def test_words_that_are_kept_to_measure_with_are_never_asked_for():
    kept = [word for word in WORDS if mentions.held_out(word)]
    assert kept
    rows = mentions.blocks(texts(), 60, random.Random(0))
    assert not {f"mentions {word}" for word in kept} & {row["group"] for row in rows}


def test_the_same_seed_writes_the_same_rows(tmp_path, monkeypatch):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
    written = []
    for name in ("a", "b"):
        monkeypatch.setattr("sys.argv", ["mentions.py", str(tmp_path / name), str(file), "--blocks", "3"])
        mentions.main()
        written.append((tmp_path / name / "mentions-rows.jsonl").read_text())
    assert written[0] == written[1] != ""
