"""Long texts that are found by the best of their windows."""

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from index_fakes import FAULT, KEYWORDS, MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.errors import IndexDamagedError
from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.corpus.windows import windows
from retriever.index.generations import IndexType
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import reembed
from retriever.index.search.feedback import directions
from retriever.index.search.lazy import learned_rankings
from retriever.index.upkeep.archive import export_index, import_index
from retriever.index.upkeep.export import export_parquet, import_parquet
from retriever.index.upkeep.verify import verify
from retriever.index.workers.embedder import WorkerEmbedder
from retriever.index.workers.spool import Spool
from retriever.store.windows import MOST
from retriever.workspace import Index

FILLER = "It came in a box and was put up on a shelf there ."
WORDS = KEYWORDS[PRODUCT]


class ShortEncoder(RichEncoder):
    """Reads the first sixty words of a text."""

    spec = replace(RichEncoder.spec, max_text_tokens=60)


@pytest.fixture
def encoder():
    return ShortEncoder()


def long_text(*said, filler=5):
    """Sentences that name something each, with as much between them as makes a window."""
    return " ".join(f"The {one} . " + " ".join([FILLER] * filler) for one in said)


def corpus(seed, count=30):
    chance = random.Random(seed)
    return [
        Document(
            f"d{row:02}",
            f"{long_text(*chance.sample(WORDS, chance.randint(1, 4)))} That was number {row} ."
            if row % 3
            else f"A {chance.choice(WORDS)} was number {row} .",
            {"even": row % 2 == 0},
        )
        for row in range(count)
    ]


def best(rows, query, encoder):
    """The best cosine of each document and the part it is of: every vector compared, nothing stored."""
    (toward,) = encoder.vectors([query])
    found = {}
    for one in rows:
        parts = [None, *windows(one.text, MOST)]
        texts = [one.text if part is None else one.text[part.start : part.end] for part in parts]
        cosines = encoder.vectors(texts) @ toward
        found[one.id] = (float(cosines.max()), parts[int(cosines.argmax())])
    return found


def as_found(result):
    return {hit.document.id: (hit.score, hit.part) for hit in result.hits}


def held(index):
    """Every row of vectors with what stands behind its own, by view and text."""
    store = index._opened.store
    rows = store._db.rows("SELECT instruction, text, vector, windows FROM vectors JOIN views USING (view_id) "
                          "JOIN contents USING (content_id)")  # fmt: skip
    return {(instruction, text): (vector, places) for instruction, text, vector, places in rows}


def test_a_text_is_found_by_what_stands_behind_the_encoders_limit(index):
    text = long_text("toy", "knife", "kettle")
    index.add([Document("a", text), Document("b", "A lamp .")])
    hit = index.search("kettle", mode="dense").hits[0]
    assert (hit.document.id, hit.score) == ("a", 1.0)
    assert "kettle" in text[hit.part.start : hit.part.end] and "knife" not in text[hit.part.start : hit.part.end]
    assert index.search("kettle").to_json()["hits"][0]["part"] == {
        "start": hit.part.start, "end": hit.part.end, "text": text[hit.part.start : hit.part.end]
    }  # fmt: skip
    assert index.search("lamp").hits[0].part is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("backend", ["faiss", "exact"])
def test_the_score_of_a_text_is_its_best_cosine(index, encoder, backend, seed):
    rows = corpus(seed)
    index.add(rows[:20], index_type=IndexType(backend=backend))
    index.add(rows[20:])  # the tail
    for query in ("kettle", "lamp phone", "sofa and a rug"):
        expected = best(rows, query, encoder)
        assert as_found(index.search(query, k=30, mode="dense")) == expected
        assert as_found(index.search(query, k=30)) == expected
        first = sorted(expected, key=lambda one: (-expected[one][0], one))[:4]
        assert [hit.document.id for hit in index.search(query, k=4, mode="dense").hits] == first
        even = {one.id: expected[one.id] for one in rows if one.metadata["even"]}
        assert as_found(index.search(query, k=30, where="even = true", mode="dense")) == even
    like = index.search(like="d01", k=29)
    assert as_found(like) == {id: one for id, one in best(rows, rows[1].text, encoder).items() if id != "d01"}


def test_one_text_of_many_windows_leaves_room_for_others(index):
    index.add(
        [Document("a", long_text(*["kettle"] * 40)), *[Document(f"b{row}", f"A lamp {row} .") for row in range(9)]]
    )
    assert [hit.document.id for hit in index.search("kettle", k=5, mode="dense").hits] == ["a", "b0", "b1", "b2", "b3"]


def test_queries_asked_together_are_answered_as_alone(index):
    index.add(corpus(5))
    requests = [
        SearchRequest(query, k=6, mode=mode) for query in ("kettle", "toy lamp") for mode in ("dense", "hybrid")
    ]
    together = index.search_many(requests)
    assert [as_found(one) for one in together] == [as_found(index.search_many([one])[0]) for one in requests]


def test_words_are_counted_as_if_there_were_no_windows(index, tmp_path):
    rows = corpus(1)
    index.add(rows)
    with Index(tmp_path / "plain", encoder=FakeEncoder()) as plain:
        plain.add(rows)
        plain._opened.store._db.write("UPDATE vectors SET windows = NULL")
        scores = [
            [(hit.document.id, hit.fused) for hit in one.search("kettle box", mode="lexical").hits]
            for one in (index, plain)
        ]
    assert scores[0] == scores[1]
    assert index._opened.store._db.number("SELECT COUNT(*) FROM contents") == len(rows)


def test_texts_that_words_alone_find_count_by_their_best_part_too(path, encoder):
    rows = corpus(10)
    with Index(path, encoder=encoder, search_options=SearchOptions(candidates=1, word_weight=3.0)) as index:
        index.add(rows)
        spread = index._opened.views.calibration.spread(index.views()[0].view)
        alone = 0
        for query in (f"kettle number {row}" for row in range(30)):
            said = {hit.document.id: hit.fused for hit in index.search(query, k=30, mode="lexical").hits}
            expected = best(rows, query, encoder)
            sums = {id: cosine + 3 * spread * said.get(id, 0.0) for id, (cosine, _) in expected.items()}
            (hit,) = index.search(query, k=1, mode="hybrid").hits
            first = max(sums, key=sums.__getitem__)
            assert (hit.document.id, hit.score, hit.part) == (first, *expected[first])
            assert hit.fused == pytest.approx(sums[first], abs=1e-6)
            alone += hit.dense_rank is None and hit.part is not None
        assert alone > 3


def test_what_a_search_learns_is_of_whole_texts(path):
    with Index(path, encoder=FakeEncoder("question"), plain=ShortEncoder()) as index:
        moods = [replace(one, text=f"{one.text} {KEYWORDS[MOOD][row % 3]}") for row, one in enumerate(corpus(11))]
        index.add(moods, instructions=[MOOD])
        store, views = index._opened.store, index._opened.views
        base, mood = (views.loaded(one) for one in store.views.all())
        asked = FakeEncoder("question").vectors(["happy"], MOOD)
        (learned,) = learned_rankings(store, [base], mood, asked, 30, None)
        newest = store.vectors.newest(mood.view.view_id, 400)
        read = [store.vectors.get(one.view.view_id, newest).embeddings for one in (base, mood)]
        (toward,) = directions(read[:1], read[1] @ (asked - mood.shift).T)
        assert np.abs(toward).max() > 0.01
        own = store.vectors.get(base.view.view_id, learned.ids).embeddings @ toward[0]
        assert learned.scores == pytest.approx(own.tolist(), abs=1e-6)


def test_only_the_base_view_of_whole_documents_has_windows(index, tmp_path):
    rows = corpus(2)
    index.add(rows, instructions=[MOOD])
    base, mood = index.views()
    assert (base.vectors, mood.vectors, mood.windows) == (len(rows), base.vectors, 0)
    assert base.windows == sum(len(windows(one.text, MOST)) for one in rows)
    assert base.bytes == (base.vectors + base.windows) * 2 * base.dim and mood.bytes == mood.vectors * 2 * mood.dim
    assert index.search("happy", instruction=MOOD).hits[0].part is None
    with Index(tmp_path / "sentences", encoder=RichEncoder()) as divided:
        divided.add(rows, options=IndexingOptions(units="sentences"))
        assert [one.windows for one in divided.views()] == [0]
        hit = divided.search("kettle").hits[0]
        assert hit.part == hit.unit.part.span


def test_the_base_encoder_has_its_say_beside_an_instruction_by_windows(path):
    rows = [Document("a", long_text("toy", "kettle")), Document("b", "A knife ."), Document("c", "happy lamp")]
    with Index(path, encoder=FakeEncoder("question"), plain=ShortEncoder()) as index:
        index.add(rows, instructions=[MOOD])
        first = index.search("kettle", instruction=MOOD, mode="dense").hits[0]
        assert (first.document.id, first.part) == ("a", None)


@pytest.mark.usefixtures("unjudged")
def test_what_a_lazy_search_reads_first_is_found_by_windows(path):
    rows = [Document(f"d{row:03}", f"A lamp {row} .") for row in range(400)]
    question = FakeEncoder("question")
    options = SearchOptions(token_budget=1000, typical_share=0.0)
    with Index(path, encoder=question, plain=ShortEncoder(), search_options=options) as index:
        index.add([*rows, Document("z", long_text("toy", "knife", "kettle", filler=3))])
        question.forget()
        index.search("kettle", instruction=FAULT, mode="dense")
        first, *others = question.read
        assert "kettle" in first[0] and len(others) < 100


def test_deleted_and_repaired_away(index, path):
    index.add(corpus(3))
    long = next(one.document for one in index.search("kettle", k=30, mode="dense").hits if one.part)
    before = index.views()[0].windows
    index.delete([long.id])
    assert long.id not in as_found(index.search("kettle", k=30, mode="dense"))
    index.upkeep.repair()
    assert index.views()[0].windows == before - len(windows(long.text, MOST))
    assert long.id not in as_found(index.search("kettle", k=30, mode="dense"))
    index.close()
    assert verify(path, deep=True, load=lambda description: ShortEncoder()).whole


def test_an_index_that_grows_stays_equal_to_one_made_at_once(tmp_path):
    rows = corpus(4)
    for name, parts in (("once", [rows]), ("grown", [rows[:3], rows[3:29], rows[29:]])):
        with Index(tmp_path / name, encoder=ShortEncoder()) as index:
            for part in parts:
                index.add(part)
                index.search("kettle")
    with Index(tmp_path / "once", encoder=ShortEncoder()) as once, Index(tmp_path / "grown") as grown:
        grown._opened._given = ShortEncoder()
        assert held(once) == held(grown)
        assert grown.views()[0].tail > 1
        for mode in ("dense", "hybrid"):
            found = [one.search("kettle lamp", k=30, mode=mode) for one in (once, grown)]
            assert as_found(found[0]) == as_found(found[1])
            assert [hit.fused for hit in found[0].hits] == [hit.fused for hit in found[1].hits]


@pytest.mark.parametrize("fail_at", [1, 2, 3, 4])
def test_a_run_that_was_cut_off_goes_on(tmp_path, fail_at):
    rows, options = corpus(12), IndexingOptions(batch=10)
    with Index(tmp_path / "cut", encoder=ShortEncoder(fail_at=fail_at)) as index:
        with pytest.raises(RuntimeError, match="fell over"):
            index.add(rows, options=options)
        assert all((places is None) is not bool(windows(text, MOST)) for (_, text), (_, places) in held(index).items())
    with (
        Index(tmp_path / "cut", encoder=ShortEncoder()) as cut,
        Index(tmp_path / "once", encoder=ShortEncoder()) as once,
    ):
        cut.add(rows, options=options)
        once.add(rows)
        assert held(cut) == held(once)


def test_workers_embed_windows_as_one_process_does(tmp_path):
    embedder = partial(WorkerEmbedder, spool=Spool(tmp_path / "spool"), size=7)
    with (
        Index(tmp_path / "one", encoder=ShortEncoder()) as one,
        Index(tmp_path / "many", encoder=ShortEncoder()) as many,
    ):
        one.add(corpus(13))
        many.add(corpus(13), options=IndexingOptions(embedder=embedder, batch=8))
        assert held(one) == held(many)


def test_another_encoder_reads_the_windows_anew(path):
    rows = corpus(6)
    with Index(path, encoder=FakeEncoder("before")) as index:
        index.add(rows)
        before = held(index)
    reembed(path, ShortEncoder("after"))
    with Index(path, encoder=ShortEncoder("after")) as index:
        assert as_found(index.search("kettle", k=30, mode="dense")) == best(rows, "kettle", ShortEncoder())
        after = index._opened.store
        assert len(after.views.all()) == 2 and len(before) == len(rows)  # the way back is open


@pytest.mark.parametrize(
    "carry", [(export_index, import_index, "index.tar"), (export_parquet, import_parquet, "folder")]
)
def test_windows_are_carried_away_with_the_index(index, path, tmp_path, carry):
    export, take_in, name = carry
    index.add(corpus(7))
    index.close()
    export(path, tmp_path / name)
    take_in(tmp_path / name, tmp_path / "other")
    with Index(path, encoder=ShortEncoder()) as before, Index(tmp_path / "other", encoder=ShortEncoder()) as after:
        assert held(before) == held(after)
        assert as_found(before.search("kettle", k=30)) == as_found(after.search("kettle", k=30))


@pytest.mark.parametrize(
    "change",
    ["windows = replace(windows, ',', ', ')", "windows = NULL", "vector = CAST(vector || zeroblob(32) AS BLOB)"],
)
def test_windows_that_are_not_what_was_stored_are_refused_and_repaired(index, path, change):
    index.add(corpus(8))
    whole = held(index)
    index.close()
    with Index(path, encoder=ShortEncoder()) as index:
        index._opened.store._db.write(f"UPDATE vectors SET {change} WHERE windows IS NOT NULL")
        with pytest.raises(IndexDamagedError):
            index.search("kettle", k=30)
    assert not verify(path, deep=True, load=lambda description: ShortEncoder()).whole
    with Index(path, encoder=ShortEncoder(), load=lambda description: ShortEncoder()) as index:
        index.upkeep.repair()
        assert held(index) == whole


def test_a_run_says_how_many_texts_an_encoder_reads_in_part(path):
    rows = [Document("a", long_text("toy", "lamp")), Document("b", long_text("toy")), Document("c", "A knife .")]
    with Index(path, encoder=RichEncoder("question"), plain=ShortEncoder()) as index:
        notes = index.add(rows, instructions=[MOOD]).notes
    assert notes == [
        "2 texts are longer than the 60 tokens that the encoder reads at once: a, b. "
        "Searches without a question find all parts; clusters use the beginning.",
        "2 texts are longer than the 6 tokens that the instruction encoder reads: under an instruction, only the "
        "beginning counts.",
    ]


def test_clusters_and_calibration_go_by_whole_texts(index):
    rows = corpus(9, 60)
    index.add(rows)
    store, view = index._opened.store, index.views()[0].view
    stored = store.vectors.get(view, store.vectors.held(view))
    texts = store.documents.texts(stored.content_ids)
    assert np.array_equal(stored.embeddings, ShortEncoder().vectors(list(texts.values())))
    index.search("kettle")
    assert store.similarities.get(view).vectors == len(texts)
