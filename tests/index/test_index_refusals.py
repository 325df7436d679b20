import sqlite3
import sys
from dataclasses import replace

import numpy as np
import pytest
from index_fakes import DIM, FAULT, MOOD, FakeEncoder, RichEncoder, documents, found

from retriever import open_index
from retriever.core.errors import (
    EncoderError,
    EncoderMismatchError,
    FilterError,
    IndexDamagedError,
    IndexNotFoundError,
    SchemaError,
    UsageError,
)
from retriever.index.sources.encoders import ENCODER
from retriever.store.database import DATABASE
from retriever.workspace import Index

MODES = ["dense", "lexical", "hybrid"]


@pytest.fixture
def made(path):
    """The folder of a closed index of two documents in two views."""
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents("toy sad", "lamp love", stars=3), instructions=[MOOD])
    return path


def flip(file, at):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(bytes(data))


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def swap(file):
    (other,) = [one for one in file.parent.parent.rglob("*.faiss") if one != file]
    file.write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: flip(file, 0),
        lambda file: flip(file, file.stat().st_size // 2),
        lambda file: flip(file, -1),
        cut,
        swap,
        lambda file: file.write_bytes(b""),
        lambda file: file.unlink(),
    ],
    ids=["first byte", "middle", "last byte", "cut", "swapped", "empty", "missing"],
)
def test_a_damaged_generation_is_refused_and_repair_mends_it(made, damage):
    file = next((made / "views" / "1").glob("*.faiss"))
    damage(file)
    with Index(made, encoder=FakeEncoder()) as index:
        for mode in ("dense", "hybrid"):
            with pytest.raises(IndexDamagedError, match="Run `retriever repair`") as caught:
                index.search("toy", mode=mode)
            assert str(file) in caught.value.message
        assert caught.value.exit_code == 4
        assert found(index.search("toy", mode="lexical")) == [("a", None)]
        assert len(index.upkeep.repair().generations) == 2
        assert found(index.search("toy", mode="dense")) == [("a", 1), ("b", 1 - 2 / 8)]
        assert found(index.search("sad", instruction=MOOD, mode="dense")) == [("a", 1), ("b", 1 - 2 / 8)]


def test_an_index_without_its_folder_of_views(made):
    for file in made.rglob("*.faiss"):
        file.unlink()
    with Index(made, encoder=FakeEncoder()) as index:
        with pytest.raises(IndexDamagedError, match="cannot be read"):
            index.search("toy", mode="dense")
        index.upkeep.repair()
        assert found(index.search("toy", mode="dense", k=1)) == [("a", 1)]


def test_adding_to_a_damaged_index_still_works(made):
    (file,) = (made / "views" / "1").glob("*.faiss")
    file.unlink()
    with Index(made, encoder=FakeEncoder()) as index:
        index.add(documents("toy sad", "lamp love", "mug hate"))  # enough for a new generation
        assert found(index.search("mug", mode="dense", k=1)) == [("c", 1)]


def test_a_damaged_database_is_refused(made):
    (made / DATABASE).write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    with pytest.raises(IndexDamagedError, match=r"corpus\.sqlite3 is damaged"):
        open_index(made).status()


def test_another_encoder_is_refused(made):
    other = FakeEncoder("other")
    with Index(made, encoder=other) as index:
        for use in (
            lambda: index.search("toy"),
            lambda: index.search(like="a"),
            lambda: index.add(documents("mug")),
        ):
            with pytest.raises(
                EncoderMismatchError, match=r"fingerprint fake00000000\).*other0000000.*retriever reembed"
            ):
                use()
        assert other.calls == []
        assert found(index.search("toy", mode="lexical")) == [("a", None)]
        assert len(index._opened.store.documents) == 2


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"pooling": "last"}, {"steps": 8}])
def test_an_encoder_with_other_settings_does_not_find_nothing_without_a_word(path, change):
    with Index(path, encoder=RichEncoder()) as index:
        index.add(documents("toy"))
    encoder = RichEncoder()
    encoder.spec = replace(encoder.spec, **change)
    setting, value = next(iter(change.items()))
    with Index(path, encoder=encoder) as index, pytest.raises(EncoderMismatchError, match=f"{setting} .*, not {value}"):
        index.search("toy", mode="dense")


def test_settings_that_an_older_version_left_unsaid_are_the_usual_ones(path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents("toy"))
        unsaid = {**index._opened.store.settings.get(ENCODER), "pooling": None, "dtype": None}
        index._opened.store.settings.set(ENCODER, unsaid)
    with Index(path, encoder=FakeEncoder()) as index:
        assert found(index.search("toy", mode="dense")) == [("a", 1)]
    other = FakeEncoder()
    other.spec = replace(other.spec, dtype="bfloat16")
    with Index(path, encoder=other) as index, pytest.raises(EncoderMismatchError, match="dtype float32, not bfloat16"):
        index.search("toy", mode="dense")


def test_what_is_no_encoder_is_refused_with_the_next_step(path):
    class Old:
        dim, fingerprint = 2, "old"

        def encode(self, texts, *, instruction=""):
            return np.eye(2)[: len(texts)]

    with pytest.raises(UsageError, match=r"Old is no encoder: .* `spec` and `encode_views`") as caught:
        Index(path, encoder=Old())
    assert "retriever.core.protocols.Encoder" in caught.value.hint
    assert not path.exists()


def test_vectors_of_another_length_are_refused(index, encoder, monkeypatch):
    index.add(documents("toy"))
    monkeypatch.setattr(encoder, "vectors", lambda texts, instruction: np.ones((len(texts), DIM + 1), np.float32))
    with pytest.raises(EncoderError, match=r"vectors of 16 numbers.*\(1, 17\)"):
        index.add(documents("lamp"))
    assert index._opened.store.documents.get(["a"])["a"].text == "toy"


def test_an_index_of_a_newer_version_is_refused(made):
    with sqlite3.connect(made / DATABASE) as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    for use in (Index.status, lambda index: index.upkeep.repair(), lambda index: index.add(documents("mug"))):
        with pytest.raises(SchemaError, match="newer version of retriever"):
            use(open_index(made, encoder=FakeEncoder()))


@pytest.mark.parametrize(
    "use",
    [
        lambda index: index.search("toy"),
        lambda index: index.search("toy", mode="lexical"),
        lambda index: index.search(like="a"),
        lambda index: index.delete(["a"]),
        lambda index: index.upkeep.repair(),
        lambda index: index.views(),
        lambda index: index.status(),
    ],
    ids=["search", "lexical", "like", "delete", "repair", "views", "status"],
)
def test_what_needs_an_index_makes_none(path, use):
    with Index(path, encoder=FakeEncoder()) as index, pytest.raises(IndexNotFoundError, match="no index at"):
        use(index)
    assert not path.exists()


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("starts <= 2", r"(?s)No document has a field 'starts'.*Did you mean 'stars'"),
        ("stars <=", "the filter ends"),
        ("stars = 2 or", "the filter ends"),
        ("stars = 'two", "not closed"),
        ("2 = stars", "Expected a field name"),
        ("stars = 1; drop table documents", "not understood"),
    ],
)
def test_a_bad_filter_is_refused(made, where, complaint):
    encoder = FakeEncoder()
    with Index(made, encoder=encoder) as index:
        for mode in MODES:
            for instruction in ("", MOOD, FAULT):
                with pytest.raises(FilterError, match=complaint):
                    index.search("toy", where=where, mode=mode, instruction=instruction)
        assert encoder.calls == []
        assert len(index.views()) == 2


def test_a_query_of_punctuation_is_no_error(made):
    with Index(made, encoder=FakeEncoder()) as index:
        for query in ("?!", "'", '"', "NOT", "a OR", "toy*", "(", "text:toy", "☃"):
            for mode in MODES:
                index.search(query, mode=mode)
        assert index.search("?!", mode="lexical").hits == []


def test_a_huge_k_costs_nothing(made):
    with Index(made, encoder=FakeEncoder()) as index:
        for mode in MODES:
            hits = index.search("toy lamp", k=sys.maxsize // 4, mode=mode).hits
            assert [hit.document.id for hit in hits] == ["a", "b"]
        assert len(index.search(like="a", k=sys.maxsize // 4).hits) == 1
