"""Questions to language models about an index's texts: whose permission that takes, and which answers stand."""

import itertools
import shutil

import pytest
from answer_fakes import NAME, FakeReader, loads
from asking_index import TEXTS, WHO, load, made, opened, search, words
from index_fakes import MOOD, FakeEncoder

from retriever.core.errors import ConsentError, EncoderError
from retriever.core.requests import SearchOptions
from retriever.core.types import Document
from retriever.encoders.answers import questions
from retriever.index.reembedding import reembed, roll_back
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify

HOST = "api.example.com"


pytestmark = pytest.mark.usefixtures("own_choices")


@pytest.fixture
def index(path, reader):
    with made(path) as index:
        index.teaching.read_by(WHO, NAME)
        yield index


@pytest.fixture
def remote(path, reader):
    """An index whose reader is on another machine, which was allowed to get six texts."""
    reader.host = HOST
    with made(path, search_options=SearchOptions(costly_texts=6, costly_rounds=1)) as index:
        index.teaching.allow(HOST)
        search(index, reader=NAME)
        assert len(reader.asked) == 6
        yield index


def test_nothing_is_sent_to_another_machine_before_somebody_allows_it_no_probe_either(path, reader):
    reader.host = HOST
    with made(path) as index:
        for ask in (lambda: index.teaching.read_by(WHO, NAME), lambda: search(index, reader=NAME)):
            with pytest.raises(ConsentError, match=f"would be sent to {HOST}") as refused:
                ask()
            assert refused.value.host == HOST
        assert (reader.probes, reader.asked) == (0, [])
        assert index.teaching.reader(WHO) == ""
        index.teaching.allow("another.example.com")
        with pytest.raises(ConsentError):
            index.teaching.read_by(WHO, NAME)
        assert (reader.probes, reader.asked) == (0, [])
        index.teaching.allow(HOST)
        index.teaching.read_by(WHO, NAME)
        assert reader.probes == 1
    with opened(path) as again:
        again.teaching.read(WHO)
    assert (reader.probes, sorted(reader.asked)) == (1, sorted(TEXTS))


def copied(path, there):
    shutil.copytree(path, there)


def carried(path, there):
    export_index(path, there.with_suffix(".tar"))
    import_index(there.with_suffix(".tar"), there)


def put_back(path, there):
    """Import an archive where the index lay that it was made of."""
    export_index(path, there.with_suffix(".tar"))
    shutil.rmtree(path)
    import_index(there.with_suffix(".tar"), path)
    there.symlink_to(path)


@pytest.mark.parametrize("brought", [copied, carried, put_back])
def test_an_index_that_comes_from_elsewhere_brings_answers_and_no_permission(remote, reader, tmp_path, brought):
    path, there, before = remote.path, tmp_path / "there", remote.teaching.answers(WHO)
    remote.close()
    reader.asked.clear()
    brought(path, there)
    with opened(there) as other:
        result = search(other, "lamp", k=20)
        assert f"would be sent to {HOST}" in str(result.reader_fault)
        assert {id: said for id, (said,) in ((id, said) for id, said in words(result).items() if said)} == before
        with pytest.raises(ConsentError):
            other.teaching.read(WHO)
        assert reader.asked == []
        other.teaching.allow(HOST)
        other.teaching.read(WHO)
    assert len(reader.asked) == len(TEXTS) - 6


def test_another_index_needs_a_permission_of_its_own_also_in_the_same_folder(remote, reader, tmp_path):
    path = remote.path
    remote.close()
    shutil.rmtree(path)
    for folder in (path, tmp_path / "beside"):
        with made(folder) as other, pytest.raises(ConsentError):
            other.teaching.read_by(WHO, NAME)
    assert (reader.probes, len(reader.asked)) == (1, 6)


def test_a_document_more_and_every_upkeep_ask_nothing_and_reading_asks_the_rest(index, reader):
    index.teaching.read(WHO)
    reader.asked.clear()
    index.add([Document("new", "kettle sad")], instructions=[WHO, MOOD])
    index.teaching.judge(WHO)
    index.upkeep.repair()
    path = index.path
    index.close()
    assert verify(path, deep=True, load=load).whole
    repair(path, load=load)
    reembed(path, plain=FakeEncoder("other"), load=load)
    roll_back(path)
    assert (reader.asked, reader.probes) == ([], 1)
    with opened(path) as again:
        assert "new" not in again.teaching.answers(WHO)
        again.teaching.read(WHO)
        assert reader.asked == ["kettle sad"]
        assert again.teaching.answers(WHO)["new"] == "kettle"


def test_refused_texts_are_counted_and_sent_again_only_when_somebody_wants_that(index, reader):
    reader.silent = set(TEXTS[:2])
    result = search(index, k=20)
    assert [words(result)[id] for id in ("a", "b")] == [[], []]
    assert index.teaching.spent.failures == {"refused": 2}
    search(index, "lamp", k=20)
    index.teaching.read(WHO)
    assert sorted(reader.asked) == sorted(TEXTS)
    path, reader.silent = index.path, set()
    index.close()
    with opened(path) as again:
        again.teaching.read(WHO)
        assert len(reader.asked) == len(TEXTS)
        assert again.teaching.ask_again(WHO) == 2
        assert len(reader.asked) == len(TEXTS)
        again.teaching.read(WHO)
        assert reader.asked[len(TEXTS) :] == TEXTS[:2]
        assert again.teaching.answers(WHO)["a"] == "toy"
        assert again.teaching.ask_again(WHO) == 0


def test_a_reader_that_fails_in_the_middle_keeps_what_it_answered(index, reader):
    reader.error, reader.error_at = EncoderError("the server went away"), TEXTS[7]
    with pytest.raises(EncoderError, match="went away"):
        index.teaching.read(WHO)
    assert len(index.teaching.answers(WHO)) == len(reader.asked) == 7
    reader.error = None
    index.teaching.read(WHO)
    assert sorted(reader.asked) == sorted(TEXTS)


def test_a_broken_off_reading_is_gone_on_with(index, reader):
    reader.stop_after = 4
    with pytest.raises(KeyboardInterrupt):
        search(index)
    reader.stop_after = None
    search(index)
    index.teaching.read(WHO)
    assert sorted(reader.asked) == sorted(TEXTS)


def test_a_search_whose_reader_is_away_gives_stored_answers_and_has_not_settled(index, reader):
    index.teaching.give_answers(WHO, {"a": "toy maker"})
    reader.error, reader.error_at = EncoderError("the server went away"), TEXTS[6]
    result = search(index, k=20)
    stored = index.teaching.answers(WHO)
    assert "the server went away" in str(result.reader_fault)
    assert result.final
    assert not result.settling.settled
    assert {id: said[0] for id, said in words(result).items() if said} == stored
    assert result.to_json()["reader_fault"] == str(result.reader_fault)
    reader.error = None
    again = search(index, k=20)
    assert (again.reader_fault, again.settling is None) == (None, False)
    assert len(index.teaching.answers(WHO)) > len(stored)


@pytest.mark.parametrize("changed", ["address", "wording"])
def test_answers_of_a_model_at_another_address_or_asked_in_other_words_are_not_mixed_in(
    index, reader, changed, monkeypatch
):
    index.teaching.read(WHO)
    before = index.teaching.answers(WHO)
    index.add([Document("new", "kettle calm")])
    with monkeypatch.context() as patch:
        if changed == "wording":
            patch.setattr(questions, "PROMPT", "Answer in one word")
        other = loads(patch, FakeReader(["sad", "calm"], host=HOST if changed == "address" else ""))
        other.fingerprint = "another".ljust(64, "0")
        index.teaching.allow(HOST)
        assert "another model, or at another address" in str(search(index, "lamp", k=20).reader_fault)
        with pytest.raises(EncoderError, match="another model"):
            index.teaching.read(WHO)
        assert (other.asked, index.teaching.answers(WHO)) == ([], before)
        index.teaching.read_by(WHO, NAME)
        index.teaching.read(WHO)
        assert set(index.teaching.answers(WHO).values()) == {"sad", "calm"}
        assert (sorted(other.asked), other.probes) == (sorted([*TEXTS, "kettle calm"]), 1)
    index.teaching.read_by(WHO, NAME)
    assert index.teaching.answers(WHO) == before
    index.teaching.read(WHO)
    assert (reader.asked[len(TEXTS) :], reader.probes) == (["kettle calm"], 1)


GIVEN = {
    "a clockmaker": lambda index: index.teaching.give_answers(WHO, {"a": "a clockmaker"}),
    "a robot": lambda index: index.teaching.give_answers(WHO, {"a": "a robot"}, author="program"),
    "toy": lambda index: index.teaching.read(WHO),
}


@pytest.mark.parametrize("order", list(itertools.permutations(GIVEN)), ids=" ".join)
def test_a_persons_answer_stands_before_a_programs_and_a_models_whoever_came_first(index, order):
    for number, answer in enumerate(order, start=1):
        GIVEN[answer](index)
        shown(index, min(order[:number], key=list(GIVEN).index))
    index.teaching.give_answers(WHO, {"a": None})
    index.teaching.read(WHO)
    shown(index, "toy")


def shown(index, answer):
    """Check that an answer to a document stands wherever answers do."""
    assert index.teaching.answers(WHO)["a"] == answer
    assert words(search(index, k=20))["a"] == [answer]
    assert "a" in words(search(index, k=20, where=f"answer = '{answer}'"))
    assert "a" not in words(search(index, k=20, where=f"answer != '{answer}'"))


def test_a_label_is_an_answer_at_once(index):
    index.teaching.read(WHO)
    shown(index, "toy")
    index.teaching.label(WHO, "a", "clock")
    shown(index, "clock")
    index.teaching.unlabel(WHO, "a")
    shown(index, "toy")


def test_a_search_that_settled_reads_only_texts_that_came_since(path, reader):
    with made(path, search_options=SearchOptions(costly_texts=3, costly_rounds=2, candidates=6)) as index:
        search(index, k=2, reader=NAME)
        read = len(reader.asked)
        assert 3 <= read <= 6
        search(index, k=2)
        index.teaching.give_answers(WHO, {"a": "a toy fan", "c": "a toy maker"})
        search(index, k=2)
        assert len(reader.asked) == read
        index.add([Document("new", "toy of late")])
        search(index, k=2)
        assert reader.asked[read:] == ["toy of late"]
        search(index, k=2)
        assert len(reader.asked) == read + 1
