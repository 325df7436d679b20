from collections import Counter
from dataclasses import replace
from pathlib import Path

import finetune_fakes as fakes
import pytest
from index_fakes import FAULT, MOOD, BlindEncoder, FakeEncoder, add_to_base

from retriever.core.errors import InputError, UsageError
from retriever.core.fingerprint import file_hash
from retriever.core.types import Document
from retriever.training.config import DataSettings
from retriever.training.from_index import mine_index
from retriever.training.negatives import MiningOptions
from retriever.training.rows import TrainingRow, normalise_text, read_training_rows
from retriever.training.run.start import prepare
from retriever.training.splits import hold_out, look_at
from retriever.workspace import Index


class Words:
    """A tokenizer whose tokens are words; texts are cut to six."""

    max_text_tokens = 6

    def count(self, texts):
        return [len(text.split()) for text in texts]


@pytest.fixture
def prepared(tmp_path):
    def from_rows(rows, **settings):
        path = fakes.write(tmp_path / "qa.jsonl", rows)
        return prepare(read_training_rows([path]), Words(), DataSettings(**settings))

    return from_rows


def test_files_are_told_with_their_hash_and_rows(prepared, tmp_path):
    data = prepared([*fakes.rows(24), {"text": "x", "question": "y", "answer": " "}])
    assert [(one.name, one.rows) for one in data.files] == [(str(tmp_path / "qa.jsonl"), 48)]
    assert data.files[0].sha256 == file_hash(tmp_path / "qa.jsonl")
    assert data.files[0].mapping == "text <- text, instruction <- question, answer <- answer"
    assert (data.skipped, data.bad[0].line, data.bad[0].reason) == (1, 49, "'answer' is empty")
    assert len(data.train) + len(data.held_out) == 48
    assert "48 rows are few" in data.notes[0]


def test_long_strings_are_counted_by_what_they_are(prepared):
    long, wrong = "one two three four five six seven", [f"{place} two three four five six seven" for place in range(2)]
    answers = [{"text": "x", "question": "y?", "answer": one, "negatives": wrong} for one in (long, long.upper())]
    data = prepared([*fakes.rows(24), *answers])
    assert data.truncated == {"answers": 2, "negatives": 2}
    assert (
        data.notes[-1] == "2 answers, 2 negatives are longer than what is read of them; the rest of each is left out."
    )
    searches = [{"query": f"{place} {long}", "positives": [f"short {place}", long, *wrong]} for place in range(24)]
    assert prepared(searches).truncated == {"queries": 24, "positives": 3}
    assert (prepared(fakes.rows(24)).truncated, prepared(fakes.rows(24)).cut) == ({}, "none")


def test_long_texts_are_counted_and_too_long_questions_skipped(prepared):
    long = {"text": "one two three four five six seven", "question": "long?", "answer": "yes"}
    data = prepared(
        [*fakes.rows(24), long, {**long, "question": "w " * 257}, {**long, "question": " ".join("w" * 256)}]
    )
    assert (data.truncated, data.skipped) == ({"texts": 1}, 1)
    assert data.bad[0].reason == "the question has 257 tokens, more than 256"
    assert data.notes[-1].startswith("1 texts are longer than what is read")


def test_the_digest_is_that_of_the_rows(prepared):
    data = prepared(fakes.rows(24))
    assert prepared(fakes.rows(24), seed=1).digest == data.digest
    assert prepared(fakes.rows(25)).digest != data.digest
    other = [{**row, "answer": row["answer"].upper()} for row in fakes.rows(24)]
    assert prepared(other).digest != data.digest


def test_too_few_rows_and_equal_answers_are_refused(prepared):
    with pytest.raises(InputError, match=r"qa\.jsonl: 18 rows can be used; at least 20 are needed"):
        prepared(fakes.rows(9))
    assert len(prepared(fakes.rows(10)).held_out) == 4  # a quarter of ten texts, as even numbers go, with two rows each
    with pytest.raises(InputError, match=r"all 48 answers are 'A toy\.'; nothing can be told apart"):
        prepared([{**row, "answer": "A toy." if place else "a toy"} for place, row in enumerate(fakes.rows(24))][::-1])


def test_answers_that_are_all_equal_on_the_training_side_are_refused(prepared, tmp_path):
    found = [{"text": f"text {place}", "question": "kind?", "answer": "toy"} for place in range(24)]
    sides = hold_out(read_training_rows([fakes.write(tmp_path / "all.jsonl", found)]).rows)
    held = {row.text for row in sides.held_out}
    found = [{**row, "answer": "lamp" if row["text"] in held else "toy"} for row in found]
    with pytest.raises(InputError, match=r"qa\.jsonl: with some texts held out .* answers to learn from are 'toy'"):
        prepared(found, held_out=0.1)
    problem = look_at(Path(fakes.write(tmp_path / "qa.jsonl", found))).problem
    assert "answers to learn from are 'toy'" in problem.message
    more = {**found[0], "text": sides.train[0].text, "answer": "knife"}
    assert {row.answer for row in prepared([*found, more], held_out=0.1).train} == {"toy", "knife"}


DOCUMENTS = {"a": "love the kettle", "b": "love a toy", "c": "hate it", "d": "hate toy love", "e": "sad and happy love"}


@pytest.fixture
def indexed(tmp_path, monkeypatch):
    """Make an index of five documents with views, and load its encoder by name."""
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda name, **options: FakeEncoder())

    def index(*instructions):
        encoder = FakeEncoder()
        encoder.spec = replace(encoder.spec, name="fake")
        with Index(tmp_path / "index", encoder=encoder) as made:
            made.add([Document(*one) for one in DOCUMENTS.items()], instructions=instructions)
        return tmp_path / "index"

    return index


def row(text, answer, question=MOOD):
    return TrainingRow(text, question, answer, group=normalise_text(question))


def test_an_index_gives_hard_negatives_under_the_rows_own_question(indexed):
    # By mood the two that love are alike; so are "love the kettle" and "love a toy", which are left out as maybe right.
    rows = [row("love one", "love"), row("love two", "love"), row("hate it all", "hate"), row("x", "y", "other?")]
    mined = mine_index(indexed(MOOD), rows, MiningOptions(count=2))
    near = {"hate toy love": 7 / 8, "sad and happy love": 6 / 8, "hate it": 6 / 8}
    assert mined.rows[0][0] == max(near, key=near.get)
    assert set(mined.rows[0][1:]) < set(near)
    assert [bool(one) for one in mined.rows] == [True, True, False, False]
    assert (mined.served, mined.skipped) == (2, 4)


def test_texts_that_are_held_out_are_no_negatives(indexed):
    rows = [row("love one", "love"), row("love two", "love")]
    mined = mine_index(indexed(MOOD), rows, MiningOptions(count=2), held_out=[row("Hate toy, love!", "z")])
    assert len(mined.rows[0]) == 1
    assert "hate toy love" not in mined.rows[0]


def test_rows_with_positives_are_served_by_the_base_view(indexed):
    rows = [TrainingRow("kettle", "", "love the kettle", ("love the kettle",))]
    mined = mine_index(indexed(), rows, MiningOptions(count=9))
    assert set(mined.rows[0]) == set(DOCUMENTS.values()) - {"love the kettle"}


def test_rows_without_positives_are_left_out_where_only_passages_are_compared(indexed):
    rows = [row("love one", "love"), row("love two", "love"), TrainingRow("kettle", "", "a", ("love the kettle",))]
    path = indexed(MOOD)
    assert mine_index(path, rows, MiningOptions()).served == 3
    mined = mine_index(path, rows, MiningOptions(), passages=True)
    assert ([bool(one) for one in mined.rows], mined.served) == ([False, False, True], 1)


def test_a_view_that_lacks_documents_gives_no_negatives(indexed):
    rows = [row("love one", "love"), row("love two", "love")]
    path = indexed(MOOD)
    assert mine_index(path, rows, MiningOptions()).served == 2
    with Index(path, encoder=FakeEncoder()) as index:
        add_to_base(index, [Document("f", "a sofa to hate")])
    with pytest.raises(UsageError, match="no view holds all documents"):
        mine_index(path, rows, MiningOptions())


@pytest.mark.parametrize("views", [(), (FAULT,)])
def test_an_index_without_a_view_for_any_row_is_refused_with_the_way_to_make_one(indexed, views):
    with pytest.raises(UsageError, match="no view holds all documents under one of their questions") as caught:
        mine_index(indexed(*views), [row("love one", "love"), row("love two", "love")], MiningOptions())
    assert "--instruction QUESTION" in caught.value.hint


def test_the_base_view_of_an_index_with_two_readers_serves_rows_with_positives(tmp_path, monkeypatch):
    follows, plain = FakeEncoder("follows"), BlindEncoder("plain")
    for one in (follows, plain):
        one.spec = replace(one.spec, name=one.fingerprint.strip("0"))
    by_name = {one.spec.name: one for one in (follows, plain)}
    monkeypatch.setattr("retriever.encoders.catalog.load_encoder", lambda name, **options: by_name[name])
    with Index(tmp_path / "index", encoder=follows, plain=plain) as made:
        made.add([Document(*one) for one in DOCUMENTS.items()], instructions=[MOOD])
    rows = [
        TrainingRow("love the kettle", "", "love the kettle", ("love the kettle",)),
        row("love one", "love"),
        row("love two", "love"),
    ]
    mined = mine_index(tmp_path / "index", rows, MiningOptions(count=1))
    others = [text for text in DOCUMENTS.values() if text != "love the kettle"]
    near = (plain.vectors(others) @ plain.vectors(["love the kettle"]).T)[:, 0]
    assert near.argmax() != (follows.vectors(others) @ follows.vectors(["love the kettle"]).T)[:, 0].argmax()
    assert mined.rows[0] == (others[int(near.argmax())],)
    assert mined.rows[1]
    assert mined.served == 3


def asked(text, group="kind", answer="a", **more):
    return TrainingRow(text, group, answer, group=group, **more)


def test_no_text_is_on_both_sides_and_every_question_gives_its_share():
    rows = [asked(f"text {number}", group) for group, many in (("kind", 200), ("mood", 20)) for number in range(many)]
    rows += [asked(f"TEXT {number}.", "defect") for number in range(100, 140)]
    parts = hold_out(rows, share=0.1)
    assert not {one.text_key for one in parts.train} & {one.text_key for one in parts.held_out}
    assert sorted(map(id, [*parts.train, *parts.held_out])) == sorted(map(id, rows))
    assert len({one.text_key for one in parts.held_out}) == 20
    held = Counter(one.group for one in parts.held_out)
    assert held["mood"] == 2
    assert held["defect"] == 4


def test_questions_asked_once_give_their_share_together():
    parts = hold_out([asked(f"text {number}", f"question {number}") for number in range(50)], share=0.2)
    assert (len(parts.train), len(parts.held_out)) == (40, 10)


def test_the_seed_decides_and_the_order_of_rows_does_not():
    rows = [asked(f"text {number}") for number in range(60)]
    first = {one.text for one in hold_out(rows, seed=1).held_out}
    assert first == {one.text for one in hold_out(rows[::-1], seed=1).held_out}
    assert first != {one.text for one in hold_out(rows, seed=2).held_out}
    held = hold_out(rows, seed=1).held_out
    assert held == sorted(held, key=rows.index)


def test_both_sides_have_a_text():
    for share in (0.01, 0.99):
        parts = hold_out([asked("a"), asked("b"), asked("c")], share=share)
        assert parts.train and parts.held_out


def test_what_cannot_be_split_is_refused():
    with pytest.raises(InputError, match="1 different texts"):
        hold_out([asked("a"), asked("A.")])
