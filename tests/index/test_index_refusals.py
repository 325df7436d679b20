import sqlite3
import sys
from dataclasses import replace

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, FakeEncoder, RichEncoder, documents, found

from retriever import open_index
from retriever.core.errors import EncoderMismatchError, FilterError, IndexNotFoundError, SchemaError, UsageError
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


def test_adding_to_a_damaged_index_still_works(made):
    (file,) = (made / "views" / "1").glob("*.faiss")
    file.unlink()
    with Index(made, encoder=FakeEncoder()) as index:
        index.add(documents("toy sad", "lamp love", "mug hate"))  # enough for a new generation
        assert found(index.search("mug", mode="dense", k=1)) == [("c", 1)]


def test_another_encoder_is_refused(made):
    other = FakeEncoder("other")
    with Index(made, encoder=other) as index:
        for use in (lambda: index.search("toy"), lambda: index.search(like="a"), lambda: index.add(documents("mug"))):
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
    [("starts <= 2", r"(?s)No document has a field 'starts'.*Did you mean 'stars'"), ("stars <=", "the filter ends")],
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


def test_a_huge_k_costs_nothing(made):
    with Index(made, encoder=FakeEncoder()) as index:
        for mode in MODES:
            hits = index.search("toy lamp", k=sys.maxsize // 4, mode=mode).hits
            assert [hit.document.id for hit in hits] == ["a", "b"]
        assert len(index.search(like="a", k=sys.maxsize // 4).hits) == 1
