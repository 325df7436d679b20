import sqlite3
from dataclasses import replace

import pytest
from index_fakes import MOOD, PRODUCT, FakeEncoder, documents, found

from retriever.core.errors import EncoderError, EncoderMismatchError, UsageError
from retriever.index import reembedding
from retriever.index.indexing import IndexingOptions
from retriever.index.sources.encoders import load_base
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.store.database import DATABASE
from retriever.workspace import Index

CORPUS = documents("toy happy", "toy sad", "lamp happy", "lamp sad", "rug happy", "rug sad")
TEXTS = sorted(one.text for one in CORPUS)


class Named(FakeEncoder):
    """A fake that an index can name."""

    def __init__(self, name):
        super().__init__(name)
        self.spec = replace(self.spec, name=name)


class Plain(Named):
    """A base encoder: it looks at products and knows no instruction."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        assert list(instructions) == [""]
        return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)


class Question(Named):
    """A instruction encoder that is never asked to read without an instruction."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        assert all(instructions)
        return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)

    def _passes(self, instructions):
        return [instructions]


@pytest.fixture
def readers():
    return Question("question"), Plain("plain")


@pytest.fixture
def load(readers):
    by_name = {one.spec.name: one for one in readers}
    return lambda description: by_name[description["name"]]


@pytest.fixture
def two(tmp_path, readers):
    with Index(tmp_path / "index", encoder=readers[0], plain=readers[1]) as index:
        index.add(CORPUS)
        yield index


def texts_read(encoder):
    return sorted(text for text, _ in encoder.read if text != ".")


def test_the_plain_reader_fills_the_base_view_and_the_other_is_not_asked(two, readers):
    question, plain = readers
    assert texts_read(plain) == TEXTS
    result = two.search("toy sad", mode="dense")
    assert result.path == "base"
    assert {hit.document.text for hit in result.hits[:2]} == {"toy happy", "toy sad"}
    assert question.calls == []


def test_under_an_instruction_the_question_reader_reads_candidates(two, readers):
    question, plain = readers
    plain.forget()
    result = two.search("toy sad", instruction=MOOD, mode="dense")
    assert result.path == "complete"  # so few texts are all read
    assert (plain.queries, plain.read) == (["toy sad"], [])
    assert texts_read(question) == TEXTS
    assert [hit.document.text.split()[1] for hit in result.hits[:3]] == ["sad", "sad", "sad"]


def test_each_reader_is_loaded_when_a_search_first_needs_it(tmp_path, readers):
    with Index(tmp_path / "index", encoder=readers[0], plain=readers[1]) as index:
        index.add(CORPUS, instructions=[MOOD])
    loaded = []

    def load(description):
        loaded.append(next(one for one in readers if one.fingerprint == description["fingerprint"]))
        return loaded[-1]

    with Index(tmp_path / "index", load=load) as index:
        assert index.search(like="a", instruction=MOOD).path == "complete"
        assert loaded == [readers[0]]
        assert index.search("toy sad", instruction=MOOD).path == "complete"
        assert loaded == list(readers)


def test_the_base_view_is_whole_before_the_other_reader_begins(tmp_path, readers):
    question, plain = readers
    seen = []

    def look(report):
        seen.append((report.in_hand, report.expected))
        if len(seen) > 1 and report.expected:
            assert texts_read(plain) == TEXTS

    with Index(tmp_path / "index", encoder=question, plain=plain) as index:
        options = IndexingOptions(batch=2)
        report = index.add(CORPUS, instructions=[PRODUCT, MOOD], options=options, progress=look)
        assert [view.coverage for view in index.views()] == [1.0, 1.0, 1.0]
    reading = [call for call in question.passes if call.texts != (".",)]
    assert [(len(call.texts), call.instructions) for call in reading] == [(2, (PRODUCT, MOOD))] * 3
    assert list(report.embedded.values()) == [6, 6, 6]
    assert seen[-1] == (6, 6)  # the second pass counts texts from nought


def test_a_run_that_ends_between_the_readers_goes_on_with_the_second(tmp_path, readers):
    question, plain = readers
    with Index(tmp_path / "index", encoder=Failing("question"), plain=plain) as index:
        with pytest.raises(RuntimeError, match="fell over"):
            index.add(CORPUS, instructions=[MOOD])
        assert {hit.document.text for hit in index.search("toy", mode="dense").hits[:2]} == {"toy happy", "toy sad"}
    plain.forget()
    with Index(tmp_path / "index", encoder=question, plain=plain) as index:
        index.add(CORPUS, instructions=[MOOD])
    assert (plain.read, texts_read(question)) == ([], TEXTS)


class Failing(Question):
    """A instruction encoder that reads an instruction and no text."""

    def _read(self, texts, instructions):
        if list(texts) != ["."]:
            raise RuntimeError("the encoder fell over")


def test_status_tells_both_readers_and_which_made_a_view(two):
    two.search("toy", instruction=MOOD)
    status = two.status()
    assert status.plain is not None
    assert (status.encoder["name"], status.plain["name"]) == ("question", "plain")
    assert [(view.instruction, view.encoder) for view in status.views] == [("", "plain"), (MOOD, "question")]
    assert status.to_json()["plain"]["fingerprint"] == Plain("plain").fingerprint


def test_the_default_instruction_spelled_out_is_a_question_of_its_own(two, readers, tmp_path):
    question, _ = readers
    question.spec = replace(question.spec, default_instruction=MOOD)
    assert two.search("toy", instruction=MOOD).path == "complete"
    alone = Named("alone")
    alone.spec = replace(alone.spec, default_instruction=PRODUCT)
    with Index(tmp_path / "alone", encoder=alone) as index:
        index.add(CORPUS)
        assert index.search("toy", instruction=PRODUCT).path == "base"


def test_another_plain_reader_or_none_is_refused(two, readers, tmp_path):
    question, _ = readers
    for plain, message in (("none", "has the base encoder plain"), (Plain("changed"), "made by plain")):
        with Index(tmp_path / "index", encoder=question, plain=plain) as other:
            with pytest.raises(EncoderMismatchError, match=message):
                other.search("toy")
    with Index(tmp_path / "alone", encoder=FakeEncoder()) as alone:
        alone.add(CORPUS)
    with Index(tmp_path / "alone", encoder=FakeEncoder(), plain=Plain("plain")) as other:
        with pytest.raises(EncoderMismatchError, match="no base encoder"):
            other.search("toy")


def test_one_encoder_named_twice_is_one_reader(tmp_path, readers):
    for _ in range(2):
        with Index(tmp_path / "index", encoder=FakeEncoder("one"), plain=FakeEncoder("one")) as index:
            index.add(CORPUS)
            assert index.status().plain is None
            assert index.search("toy").path == "base"
    with Index(tmp_path / "named", encoder=Named("question"), plain=readers[1]) as index:
        index.add(CORPUS)
    done = reembedding.reembed(tmp_path / "named", plain=Named("question"), load=lambda description: Named("question"))
    assert (done.encoder, done.plain, done.embedded) == ("question", None, 6)


def test_an_index_made_before_moves_over_and_back(tmp_path, load, readers):
    question, plain = Named("question"), readers[1]
    path = tmp_path / "index"
    with Index(path, encoder=question) as index:
        index.add(CORPUS, instructions=[MOOD])
        before = found(index.search("toy sad", mode="dense"))
        asked = found(index.search("toy sad", instruction=MOOD, mode="dense"))
    done = reembedding.reembed(path, plain=plain, load=lambda description: question)
    assert (done.encoder, done.plain, done.embedded) == ("question", "plain", 6)
    assert texts_read(plain) == TEXTS
    with Index(path, load=load) as index:
        assert {(one.instruction, one.encoder) for one in index.views()} == {("", "plain"), (MOOD, "question")}
        assert found(index.search("toy sad", instruction=MOOD, mode="dense")) == asked
        assert readers[0].read == []  # what was there is kept
    assert verify(path, deep=True, load=load).findings == []
    with pytest.raises(UsageError, match="already"):
        reembedding.reembed(path, plain=plain, load=load)
    back = reembedding.roll_back(path, load=load)
    assert (back.plain, back.embedded) == (None, 0)
    with Index(path, encoder=question) as index:
        assert found(index.search("toy sad", mode="dense")) == before
        assert index.status().plain is None


def test_a_new_question_reader_leaves_the_base_view_alone(two, readers, load, tmp_path):
    two.upkeep.complete([MOOD])
    two.close()
    readers[1].forget()
    other = Question("other")
    done = reembedding.reembed(tmp_path / "index", other, load=load)
    assert (done.encoder, done.plain) == ("other", "plain")
    assert (readers[1].read, texts_read(other)) == ([], TEXTS)


def test_a_lost_vector_is_made_again_by_the_reader_of_its_view(two, readers, load, tmp_path):
    question, plain = readers
    two.upkeep.complete([MOOD])
    two.close()
    with sqlite3.connect(tmp_path / "index" / DATABASE) as db:
        db.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE content_id = 2")
    plain.forget()
    question.forget()
    assert repair(tmp_path / "index", load=load).lost == []
    assert (texts_read(plain), texts_read(question)) == (["toy sad"], ["toy sad"])
    assert verify(tmp_path / "index", deep=True, load=load).findings == []


def test_a_saved_clustering_of_the_plain_view_is_shown_again(two):
    made = two.cluster(k=3)
    two.clusterings.save("products", made)
    assert two.clusterings.get("products").new == []


def test_what_reads_under_instructions_is_no_plain_reader(tmp_path):
    with pytest.raises(EncoderError, match="it reads texts under an instruction"):
        load_base("gircse")
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(EncoderError, match="a language model, and no sentence-transformers model"):
        load_base(str(tmp_path))


def test_upkeep_takes_the_encoders_that_the_index_was_given_as_objects(tmp_path):
    question, plain = Question("question"), Plain("plain")
    for nameless in (question, plain):
        nameless.spec = replace(nameless.spec, name="")
    with Index(tmp_path / "index", encoder=question, plain=plain) as index:
        index.add(CORPUS, instructions=[MOOD])
        with sqlite3.connect(tmp_path / "index" / DATABASE) as database:
            database.execute("DELETE FROM vectors WHERE content_id = 1")
        mended = index.upkeep.repair()
        assert (sorted(mended.rebuilt)[:2], mended.lost) == (["1 vector of view 1", "1 vector of view 2"], [])
        assert index.upkeep.verify(deep=True).findings == []
        with pytest.raises(UsageError, match="embedded with"):  # both encoders are known, and already the index's
            index.upkeep.reembed(question)
        done = index.upkeep.reembed(plain=Plain("other"))
    assert done.embedded == len(CORPUS)
