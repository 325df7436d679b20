import pytest
from index_fakes import ALL_WORDS, DIM, FAULT, MOOD, FakeEncoder, documents, found, gives

from retriever.core.errors import EncoderMismatchError, UsageError
from retriever.core.protocols import EncoderSpec
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import PREVIOUS, forget, reembed, roll_back
from retriever.index.sources.encoders import ENCODER
from retriever.index.upkeep.verify import verify
from retriever.workspace import Index

CORPUS = [Document(f"d{row:02}", f"{word} {ALL_WORDS[-row]}") for row, word in enumerate(ALL_WORDS[:12])]


class Mirrored(FakeEncoder):
    """Another encoder: every vector is the first one's, its coordinates in reverse."""

    def __init__(self, **options):
        super().__init__("mirrored", **options)

    def vectors(self, texts, instruction=""):
        return super().vectors(texts, instruction)[:, ::-1].copy()


@pytest.fixture
def old(path):
    """Give the folder of an index under two whole views and one that a search has begun."""
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(CORPUS[:10], instructions=[MOOD])
        index.search("hot", instruction=FAULT)
        index.add(CORPUS[10:], instructions=[MOOD])
    return path


def answers(path, encoder):
    with Index(path, encoder=encoder) as index:
        return [found(index.search("kettle sad", instruction=one, mode="dense", k=20)) for one in ("", MOOD)]


def stored(path):
    with Index(path) as index:
        return {
            key: (index._opened.store.settings.get(key) or {}).get("fingerprint", "")[:8] for key in (ENCODER, PREVIOUS)
        }


def test_the_new_encoder_answers_alone(old):
    before = answers(old, FakeEncoder())
    done = reembed(old, encoder := Mirrored())
    assert (done.instructions, done.left, done.embedded) == (["", MOOD], [FAULT], 24)
    assert len(encoder.read) == 24
    assert answers(old, Mirrored()) == before  # the same cosines
    with Index(old, encoder=FakeEncoder()) as index, pytest.raises(EncoderMismatchError, match="reembed"):
        index.search("kettle", mode="dense")
    assert verify(old, deep=True, load=gives(Mirrored)).whole
    assert stored(old) == {ENCODER: "mirrored", PREVIOUS: "fake0000"}


def test_views_of_the_encoder_before_are_neither_shown_nor_dropped_nor_emptied(old):
    reembed(old, Mirrored())
    with Index(old, encoder=Mirrored()) as index:
        index.search("hot", instruction=FAULT)
        kept = {
            view.view_id: index._opened.store.vectors.count(view.view_id)
            for view in index._opened.store.views.all()[:3]
        }
        shown = index.views()
        assert [view.instruction for view in shown] == ["", MOOD, FAULT]
        assert kept.keys().isdisjoint(view.view for view in shown)
        assert [view.view for view in index.status().views] == [view.view for view in shown]
        assert list(kept.values()) == [12, 12, 10]
        index.upkeep.lazy_limit = 0  # both encoders have a view that searches filled
        assert [view.vectors for view in index.views()] == [12, 12, 0]
        index.upkeep.drop_views([MOOD])
        assert [view.instruction for view in index.views()] == ["", FAULT]
        assert {id: index._opened.store.vectors.count(id) for id in kept} == kept
    roll_back(old, load=lambda _: FakeEncoder())
    with Index(old, encoder=FakeEncoder()) as index:
        assert {view.view: view.vectors for view in index.views()} == kept


def test_the_way_back_needs_no_model_unless_something_is_new(old):
    before = answers(old, FakeEncoder())
    reembed(old, Mirrored())
    assert roll_back(old, load=None).embedded == 0
    assert answers(old, FakeEncoder()) == before
    assert roll_back(old, load=None).encoder == ""  # and forth again
    with Index(old, encoder=Mirrored()) as index:
        index.add([Document("new", "kettle sad hot")], instructions=[MOOD])
    encoder = FakeEncoder()
    assert roll_back(old, load=gives(lambda: encoder)).embedded == 2
    assert [text for text, _ in encoder.read] == ["kettle sad hot"] * 2
    assert answers(old, FakeEncoder())[0][0] == ("new", 1)
    assert verify(old, deep=True, load=gives(FakeEncoder)).whole


@pytest.mark.parametrize("batches", [1, 2])
def test_an_interrupted_run_changes_nothing_and_goes_on(old, batches):
    before = answers(old, FakeEncoder())
    broken, healed = Mirrored(fail_at=2 * batches + 1), Mirrored()
    with pytest.raises(RuntimeError, match="fell over"):
        reembed(old, broken, options=IndexingOptions(batch=4))
    assert answers(old, FakeEncoder()) == before
    assert stored(old) == {ENCODER: "fake0000", PREVIOUS: ""}
    reembed(old, healed, options=IndexingOptions(batch=4))
    assert len(healed.read) == 24 - 8 * batches
    assert answers(old, Mirrored()) == before
    assert verify(old, deep=True, load=gives(Mirrored)).whole


def test_what_is_forgotten_is_gone(old):
    reembed(old, Mirrored())
    done = forget(old)
    assert done.dropped == [1, 2, 3]
    assert sorted(folder.name for folder in (old / "views").iterdir()) == ["4", "5"]
    with pytest.raises(UsageError, match="no encoder to go back to"):
        roll_back(old)
    with Index(old, encoder=Mirrored()) as index:
        assert [view.view for view in index.views()] == [4, 5]
        index.upkeep.repair()
    assert verify(old, deep=True, load=gives(Mirrored)).whole


def test_a_third_encoder_drops_the_first(old):
    reembed(old, Mirrored())
    done = reembed(old, FakeEncoder("third"))
    assert done.dropped == [1, 2, 3]
    assert stored(old) == {ENCODER: "third000", PREVIOUS: "mirrored"}


def test_an_open_index_notices(old):
    with Index(old, encoder=FakeEncoder()) as reader:
        reader.search("kettle", mode="dense")
        reembed(old, Mirrored())
        with pytest.raises(EncoderMismatchError):
            reader.search("kettle", mode="dense")
        assert len(reader.search("angry", mode="lexical").hits) == 1


def test_the_same_encoder_is_refused(old):
    with pytest.raises(UsageError, match="already"):
        reembed(old, FakeEncoder())


def test_an_empty_index_changes_its_encoder_too(path):
    with Index(path, encoder=FakeEncoder()) as index:
        index.add(documents("toy"))
        index.delete(["a"])
        index.upkeep.repair()
    assert reembed(path, Mirrored()).embedded == 0
    with Index(path, encoder=Mirrored()) as index:
        assert index.add(documents("toy")).added == 1


class Short(Mirrored):
    """Another encoder, with a quarter of the numbers."""

    spec = EncoderSpec("", DIM // 4)

    def __init__(self, **options):
        FakeEncoder.__init__(self, "short", **options)

    def vectors(self, texts, instruction=""):
        return 2 * FakeEncoder.vectors(self, texts, instruction)[:, : self.dim]


def loaded(description):
    """Return the encoder that an index describes."""
    encoders = [FakeEncoder(), Mirrored(), Short()]
    return next(one for one in encoders if one.fingerprint == description["fingerprint"])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("encoder", [Mirrored, Short])
def test_a_lazy_search_that_a_change_of_encoder_overtakes_starts_again(old, encoder, kept):
    request = SearchRequest("kettle hot", instruction=FAULT, k=20, mode="dense")
    with Index(old, load=loaded) as index:
        answers = index.search_progressively(request)
        first = next(answers)
        assert first.path == "lazy"  # a text is new, the others are in the view
        reembed(old, encoder())
        if not kept:
            forget(old)
        (last,) = answers
        assert last.path == "complete"
        assert last.view in {
            view.view_id for view in index._opened.store.views.all() if view.key.dim == encoder.spec.dim
        }
    with Index(old, encoder=encoder()) as index:
        *_, expected = index.search_progressively(request)
    assert found(last) == found(expected)


def test_a_change_of_encoder_while_a_lazy_search_reads_starts_it_again(old):
    class Overtaken(FakeEncoder):
        def encode_views(self, texts, instructions, **options):
            if options.get("words"):
                reembed(old, Mirrored())
                forget(old)
            return super().encode_views(texts, instructions, **options)

    encoders = {FakeEncoder().fingerprint: Overtaken(), Mirrored().fingerprint: Mirrored()}
    with Index(old, load=lambda description: encoders[description["fingerprint"]]) as index:
        index._opened.store._db.write("DELETE FROM vectors WHERE view_id = 3")
        answered = index.search("kettle hot", instruction=FAULT, mode="dense", k=20)
    with Index(old, encoder=Mirrored()) as index:
        assert found(answered) == found(index.search("kettle hot", instruction=FAULT, mode="dense", k=20))
