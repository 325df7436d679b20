import json

import pytest
from index_fakes import MOOD, documents

from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document
from retriever.index.teaching import examples
from retriever.index.teaching.examples import found_examples, given_examples, read_examples

TEXTS = ("toy sad", "lamp love", "mug hate", "pan happy", "rug angry", "tent glad", "toy sad")


@pytest.fixture
def full(index):
    index.add(documents(*TEXTS))
    return index


@pytest.fixture
def write(tmp_path):
    def to_file(*rows):
        path = tmp_path / "examples.jsonl"
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows]
        path.write_bytes(b"\n".join(lines))
        return path

    return to_file


def pairs(answers="bgbgbg"):
    return [(id, {"b": "bad", "g": "good"}[answer]) for id, answer in zip("abcdef", answers, strict=True)]


def test_rows_name_a_document_or_a_text(full, write):
    rows = [{"id": "a", "answer": " bad "}, {"text": "lamp love", "answer": "good"}]
    rows += [{"id": id, "answer": answer} for id, answer in pairs()[2:]]
    found = found_examples(full._opened.store, read_examples(write(*rows)))
    assert list(found.answers) == ["bad", "good", "bad", "good", "bad", "good"]
    assert list(full._opened.store.documents.texts(found.content_ids).values()) == list(TEXTS[:6])


def test_an_id_may_be_a_number(full, write):
    full.add([Document("7", "bike calm")])
    (one,) = read_examples(write({"id": 7, "answer": "good"}))
    assert one.id == "7"


def test_equal_texts_are_one_example(full):
    found = found_examples(full._opened.store, given_examples([*pairs(), ("g", "bad"), ("a", "BAD"), ("a", "bad")]))
    assert len(found.content_ids) == 6
    assert set(found.answers) == {"bad", "good"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "There are no examples."),
        ([("a", "bad")], "All examples have the answer 'bad'."),
        ([(id, "bad") for id in "abcdef"], "All examples have the answer 'bad'."),
        (pairs("bbbbgg"), "These answers have fewer than 3 examples: 'good' (2)."),
        ([*pairs(), ("z", "bad")], "Example 7 (document 'z') is no document of the index."),
        ([*pairs(), {"text": "sofa", "answer": "bad"}], "Example 7 (the text 'sofa') is not in the index."),
        ([*pairs(), ("g", "good")], "are one text with two answers: 'bad', 'good'."),
        ([*pairs(), ("a", "")], "Example 7 has no answer."),
        ([*pairs(), {"id": "a"}], "Example 7 has no answer."),
        ([*pairs(), {"answer": "bad"}], "Example 7 has neither an id nor a text."),
        ([*pairs(), {"id": "a", "answer": True}], "Example 7: the answer is no text."),
        ([*pairs(), {"id": ["a"], "answer": "bad"}], "Example 7: 'id' is no text."),
        ([*pairs(), ("a", "x" * 201)], "Example 7: the answer has 201 characters, more than 200."),
        ([*pairs(), ("a", "\ud800")], "half a character"),
        ([*pairs(), "a"], "Example 7 is str, not an id and an answer."),
    ],
)
def test_what_cannot_be_learned_from_says_why_and_changes_nothing(full, encoder, given, says):
    before, runs = full._opened.store.data_version(), len(full.status().runs)
    encoder.forget()
    with pytest.raises(InputError) as error:
        full.teaching.teach(MOOD, given)
    assert says in error.value.message
    assert str(error.value.hint).endswith("Nothing was taught.")
    assert (full._opened.store.data_version(), len(full.status().runs), encoder.calls) == (before, runs, [])


def test_a_deleted_documents_text_is_no_example(full):
    full.delete(["b"])
    with pytest.raises(InputError, match="the text 'lamp love'"):
        found_examples(
            full._opened.store, given_examples([*pairs("bgbgbg")[2:], {"text": "lamp love", "answer": "good"}])
        )


def test_too_many_examples_and_answers_are_refused(full, monkeypatch):
    monkeypatch.setattr(examples, "MOST_EXAMPLES", 5)
    with pytest.raises(UsageError, match="6 examples are too many"):
        full.teaching.teach(MOOD, pairs())
    monkeypatch.setattr(examples, "MOST_EXAMPLES", 100)
    monkeypatch.setattr(examples, "MOST_ANSWERS", 1)
    with pytest.raises(UsageError, match="There are 2 answers"):
        full.teaching.teach(MOOD, pairs())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (b"nonsense", "line 2: not JSON"),
        (b"[1]", "line 2: not a JSON object but a list"),
        ({"id": "a", "answer": None}, "line 2 has no answer."),
        ({"answer": "bad"}, "line 2 has neither an id nor a text."),
        (b'{"id": "a", "answer": "\xff"}', "line 2: not UTF-8"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(write, row, says):
    path = write({"id": "a", "answer": "bad"}, row)
    with pytest.raises(InputError) as error:
        read_examples(path)
    assert f"{path}, {says}" in error.value.message


def test_a_row_is_named_where_the_index_does_not_know_it(full, write):
    path = write(*({"id": id, "answer": answer} for id, answer in pairs()), {"id": "z", "answer": "bad"})
    with pytest.raises(InputError) as error:
        full.teaching.teach(MOOD, read_examples(path))
    assert f"{path}, line 7 (document 'z') is no document of the index." in error.value.message


def test_no_file_and_an_empty_one(tmp_path, write):
    with pytest.raises(InputError, match=r"There is no file .*gone\.jsonl"):
        read_examples(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="has no rows"):
        read_examples(write())
