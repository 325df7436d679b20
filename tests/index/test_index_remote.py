"""An index whose encoder is behind an endpoint: who may get texts, what is sent and paid, and what a failure leaves."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from embedding_server import EmbeddingModel, serving_embeddings, vector
from index_fakes import FakeEncoder
from model_server import Refusal
from replay_server import forget_endpoints

from retriever import load_encoder
from retriever.core.errors import ConsentError, EncoderMismatchError, EndpointError, ReadingLimitError, RetrieverError
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.encoders.answers import patience, places
from retriever.encoders.remote.served import PROBES
from retriever.index.asking.limits import ReadingLimits
from retriever.index.encoding import load_described
from retriever.index.indexing import IndexingOptions
from retriever.index.reembedding import reembed
from retriever.index.sources.encoders import load_encoders
from retriever.index.upkeep.repair import repair
from retriever.index.upkeep.verify import verify
from retriever.index.workers.embedder import Workers
from retriever.serving.batching import BatchQueue, QueuedEncoder
from retriever.workspace import Index, limited

ROOT = Path(__file__).parents[2]
WORDS = ["kettle", "lamp", "knife", "toy", "dog"]
DOCUMENTS = [Document(f"d{n}", f"{WORDS[n % 5]} number {n}") for n in range(200)]
WHICH = "Which thing is it about?"


@pytest.fixture
def model(embedding_model):
    return embedding_model


@pytest.fixture
def elsewhere(model, monkeypatch):
    """Have this machine's addresses taken for another machine's."""
    monkeypatch.setattr(places, "is_loopback", lambda host: False)
    monkeypatch.setenv(places.ALLOW_HTTP, "1")
    return model


def opened(path, model, **options):
    """Open an index whose base encoder is behind the endpoint, or make one."""
    return Index(path, encoder=FakeEncoder("question"), plain=load_encoder(model.name), **options)


def sent(model):
    return [text for text in model.texts if text not in PROBES]


def again(model):
    """Begin as another process does, which has met no endpoint and is told nothing of what came before."""
    forget_endpoints()
    model.requests.clear()
    model.answered.clear()
    model.asked_about.clear()


def test_an_index_is_made_searched_and_opened_again_by_its_name_alone(model, tmp_path):
    with opened(tmp_path / "index", model) as index:
        report = index.add(DOCUMENTS)
        assert report.added == 200
        assert sorted(sent(model)) == sorted(document.text for document in DOCUMENTS)
        assert "memory" not in index.status().plain
    again(model)
    with Index(tmp_path / "index", encoder=FakeEncoder("question")) as index:
        assert index.status().plain["name"] == model.name
        assert index.search("number 7", mode="lexical", k=1).hits[0].document.id == "d7"
        assert index.get(["d3"])["d3"].text == "toy number 3"
        assert model.requests == []
        hits = index.search("knife number 12", mode="dense", k=3).hits
        assert hits[0].document.id == "d12"
        assert sorted(model.texts) == sorted([*PROBES, "knife number 12"])
        index.search("lamp number 1", mode="dense")
        assert len(model.texts) == len(PROBES) + 2
        assert index.add(DOCUMENTS).unchanged == 200
        assert len(model.texts) == len(PROBES) + 2


def test_the_vectors_are_those_of_the_endpoint(model, tmp_path):
    with opened(tmp_path / "index", model) as index:
        index.add(DOCUMENTS[:50])
        hits = index.search("kettle 5", mode="dense", k=50).hits
    query = np.array(vector("kettle 5"))
    assert hits[0].document.id == "d5"
    for hit in hits:
        own = np.array(vector(hit.document.text))
        cosine = own @ query / np.linalg.norm(own) / np.linalg.norm(query)
        assert hit.score == pytest.approx(cosine, abs=1e-3)


def test_nothing_leaves_before_its_host_is_allowed_and_then_all_that_is_needed(elsewhere, tmp_path):
    path, model = tmp_path / "index", elsewhere
    with opened(path, model) as index:
        with pytest.raises(ConsentError, match=f"would be sent to {model.host}") as refused:
            index.add(DOCUMENTS[:40])
        assert refused.value.host == model.host
        assert (model.requests, model.asked_about) == ([], [])
        assert not (path / "corpus.sqlite3").exists()
        index.teaching.allow(model.host)
        index.add(DOCUMENTS[:40])
        assert len(sent(model)) == 40
    again(model)
    with Index(path, encoder=FakeEncoder("question")) as index:
        assert index.teaching.elsewhere() == [model.name]
        assert index.teaching.place(model.name).allowed
        assert index.search("toy number 3", k=1).reader_fault is None


def test_an_index_that_comes_from_elsewhere_sends_nothing(elsewhere, tmp_path, monkeypatch):
    path, model = tmp_path / "index", elsewhere
    with opened(path, model) as index:
        index.teaching.allow(model.host)
        index.add(DOCUMENTS[:40])
    path.rename(tmp_path / "moved")
    path = tmp_path / "moved"
    again(model)
    with Index(path, encoder=FakeEncoder("question")) as index:
        result = index.search("number 7", k=1)
        assert isinstance(result.reader_fault, ConsentError)
        assert (result.mode, result.hits[0].document.id) == ("lexical", "d7")
        with pytest.raises(ConsentError):
            index.search("number 7", mode="dense")
        with pytest.raises(ConsentError):
            index.add([*DOCUMENTS[:40], Document("new", "a new lamp")])
    with pytest.raises(ConsentError):
        verify(path, deep=True)
    assert verify(path).whole
    repair(path)
    assert (model.requests, model.asked_about) == ([], [])


def test_an_encoder_that_an_index_describes_sends_nothing_without_the_index(elsewhere, tmp_path):
    path, model = tmp_path / "index", elsewhere
    with opened(path, model) as index:
        index.teaching.allow(model.host)
        index.add(DOCUMENTS[:4])
        description = index._opened.sources.encoders.descriptions.plain
    again(model)
    with pytest.raises(ConsentError, match="Open the index first"):
        load_described(description).encode(["a kettle"])
    assert model.requests == []


def test_a_deep_check_and_a_repair_keep_to_the_endpoint(model, tmp_path):
    path = tmp_path / "index"
    with opened(path, model) as index:
        index.add(DOCUMENTS[:40])
    again(model)

    def load(description):
        return load_described(description) if "memory" in description else FakeEncoder("question")

    assert verify(path, deep=True, load=load).whole
    again(model)
    model.vector = lambda text: vector(text)[::-1]
    findings = verify(path, deep=True, load=load).findings
    assert [finding.artefact for finding in findings] == [f"encoder {model.name}"]
    assert "is not the model that the index was made with" in findings[0].problem


def test_another_model_under_the_same_name_is_refused_and_reembed_takes_it(model, tmp_path):
    path = tmp_path / "index"
    with opened(path, model) as index:
        index.add(DOCUMENTS[:40])
    again(model)
    model.vector = lambda text: vector(text)[::-1]
    with Index(path, encoder=FakeEncoder("question")) as index:
        with pytest.raises(EncoderMismatchError, match="is not the model"):
            index.search("toy", mode="dense")
        with pytest.raises(EncoderMismatchError):
            index.search("toy")
        assert index.search("number 7", mode="lexical", k=1).hits
    again(model)
    done = reembed(path, plain=load_encoder(model.name), load=lambda _: FakeEncoder("question"))
    assert done.embedded == 40
    with Index(path, encoder=FakeEncoder("question")) as index:
        assert index.search("knife number 12", mode="dense", k=1).hits[0].document.id == "d12"


def test_the_same_model_at_another_address_takes_the_index_over_without_a_text(model, tmp_path):
    path = tmp_path / "index"
    with opened(path, model) as index:
        index.add(DOCUMENTS[:40])
    again(model)
    noisy = EmbeddingModel(vector=lambda text: [1.05, *vector(text)[1:]])
    with serving_embeddings(noisy) as url:
        done = reembed(path, plain=load_encoder(f"http:{url}#tiny"), load=lambda _: FakeEncoder("question"))
        assert done.embedded == 0
        assert [text for text in noisy.texts if text in {document.text for document in DOCUMENTS}] == []
        with Index(path, encoder=FakeEncoder("question")) as index:
            assert index.status().plain["name"] == f"http:{url}#tiny"
            assert index.search("knife number 12", mode="dense", k=1).hits[0].document.id == "d12"
    assert model.requests == []


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"texts": 104}, "104 texts of a reading"),
        ({"day_texts": 104}, "104 texts of a day"),
        ({"tokens": 500}, "500 tokens of a reading"),
        ({"day_tokens": 500}, "500 tokens of a day"),
        ({"minutes": 0}, "0 minutes"),
    ],
)
def test_a_limit_ends_the_run_keeps_what_is_stored_and_the_next_goes_on(model, tmp_path, limits, says):
    path = tmp_path / "index"
    load_encoder(model.name).encode(["."])  # the probes are counted too where the index asks for them
    model.requests.clear()
    with opened(path, model, limits=ReadingLimits(**limits)) as index:
        with pytest.raises(ReadingLimitError, match=says):
            index.add(DOCUMENTS)
        stored = index.status().documents
        assert stored == len(sent(model)) == index.teaching.spent.embedded < 200
        assert index.status().sent["texts"] == stored
    with opened(path, model) as index:
        index.add(DOCUMENTS)
        assert len(set(sent(model))) == len(sent(model)) == 200
        assert index.status().sent["texts"] == 200


def test_a_search_counts_its_texts_within_the_limits_of_its_own_reading(model, tmp_path):
    with opened(tmp_path / "index", model) as index:
        index.add(DOCUMENTS[:40])
        before = index.status().sent["texts"]
        one, other = limited(index, ReadingLimits(texts=1)), limited(index, ReadingLimits(texts=1))
        assert one.search("toy number 3", k=1).reader_fault is None
        result = one.search("toy number 4", k=1)
        assert isinstance(result.reader_fault, ReadingLimitError) and result.mode == "lexical"
        assert other.search("toy number 3", k=1).reader_fault is None
        assert [each.teaching.spent.embedded for each in (one, other)] == [1, 1]
        assert index.status().sent["texts"] == before + 2


def test_a_model_that_follows_instructions_reads_the_texts_once_and_follows_every_question(model, tmp_path):
    question, base = load_encoders(None, model.name.replace("#tiny", "#qwen3-embedding:0.6b"), new=True)
    with Index(tmp_path / "index", encoder=question, plain=base) as index:
        index.add(DOCUMENTS[:40])
    again(model)
    with Index(tmp_path / "index") as index:
        for instruction in (WHICH, "Who made it?"):
            *_, last = index.search_progressively(SearchRequest("toy number 3", instruction=instruction, k=1))
            assert (last.path, last.final, last.hits[0].document.id) == ("base", True, "d3")
    queries = [f"Instruct: {instruction}\nQuery:toy number 3" for instruction in (WHICH, "Who made it?")]
    assert sorted(sent(model)) == sorted(queries)


def test_an_endpoint_that_is_away_leaves_the_words_and_says_so(model, tmp_path):
    with opened(tmp_path / "index", model) as index:
        index.add(DOCUMENTS[:40])
        model.always = lambda reply, _: Refusal(401, "no")
        result = index.search("number 7", k=1)
        assert (result.mode, result.hits[0].document.id, result.final) == ("lexical", "d7", True)
        assert isinstance(result.reader_fault, EndpointError) and model.host in str(result.reader_fault)
        assert index.search_stored(SearchRequest("number 7", k=1)).hits[0].document.id == "d7"
        for request in (SearchRequest("number 7", mode="dense"), SearchRequest(like="d8")):
            with pytest.raises(EndpointError, match="status 401"):
                index.search_many([request])


def test_texts_are_not_counted_where_the_endpoint_cannot_be_reached(model, tmp_path, monkeypatch):
    path = tmp_path / "index"
    with serving_embeddings(model) as url:
        plain = load_encoder(f"http:{url}#tiny")
        with Index(path, encoder=FakeEncoder("question"), plain=plain) as index:
            index.add(DOCUMENTS[:5])
            before = index.status().sent["texts"]
    forget_endpoints()
    monkeypatch.setenv(patience.TOKENS_A_MINUTE, "60000")  # the query waits when the probes have failed
    with Index(path, encoder=FakeEncoder("question")) as index:
        with pytest.raises(EndpointError, match="cannot be reached"):
            index.search("number 7", mode="dense")
        assert index.teaching.spent.embedded == 0
        assert index.status().sent["texts"] == before


def test_an_instruction_encoder_that_goes_away_leaves_the_answer_of_before(model, tmp_path):
    path = tmp_path / "index"
    with Index(path, encoder=load_encoder(model.name), plain=FakeEncoder("plain")) as index:
        index.add(DOCUMENTS[:40])
        model.then.extend([None, Refusal(401, "no"), Refusal(401, "no")])
        *_, last = index.search_progressively(SearchRequest("toy number 3", instruction=WHICH, k=3))
        assert isinstance(last.reader_fault, EndpointError)
        assert last.final and len(last.hits) == 3
        model.then.clear()
        *_, last = index.search_progressively(SearchRequest("toy number 3", instruction=WHICH, k=3))
        assert last.reader_fault is None and last.path in ("lazy", "complete")


def test_a_batch_that_fails_leaves_all_others_stored(model, tmp_path):
    poison = "dog number 44"
    model.always = lambda reply, request: Refusal(451, "blocked") if poison in str(request["input"]) else reply
    with opened(tmp_path / "index", model) as index:
        with pytest.raises(EndpointError, match="451") as raised:
            index.add(DOCUMENTS)
        assert "the same command goes on" in raised.value.hint
        assert index.status().documents == 200 - 32
        answered = set(model.answered)
        model.always = None
        model.requests.clear()
        index.add(DOCUMENTS)
        assert not answered.intersection(sent(model))


def test_what_ends_the_progress_ends_the_calls(model, tmp_path):
    release, held = threading.Event(), threading.Event()

    def wait(reply, request):
        if len(model.requests) > 3:  # the probes and two batches
            held.set()
            release.wait(60)
        return reply

    def stop(report):
        if report.read >= 32 and held.wait(60):
            raise KeyboardInterrupt

    model.always = wait
    with opened(tmp_path / "index", model) as index:
        with pytest.raises(KeyboardInterrupt):
            index.add(DOCUMENTS, progress=stop)
        before = len(model.requests)
        assert model.in_flight > 0  # nobody waited for their answers
        release.set()
        assert index.status().documents >= 32
        assert len(model.requests) == before


def test_workers_leave_an_endpoint_to_this_process(model, tmp_path):
    options = IndexingOptions(workers=Workers(1, load="worker_fakes:load", device="cpu"))
    with opened(tmp_path / "index", model) as index:
        index.add(DOCUMENTS[:40], options=options)
        assert sorted(sent(model)) == sorted(document.text for document in DOCUMENTS[:40])


def test_a_queue_of_a_server_is_not_put_before_an_endpoint(elsewhere, tmp_path):
    model = elsewhere
    with BatchQueue() as queue:
        plain = QueuedEncoder(load_encoder(model.name), queue)
        with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=plain) as index:
            with pytest.raises(ConsentError):
                index.add(DOCUMENTS[:4])
            assert model.requests == []
            index.teaching.allow(model.host)
            index.add(DOCUMENTS[:4])
            assert index.search("toy number 3", mode="dense", k=1).hits[0].document.id == "d3"


INDEXING = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
from index_fakes import FakeEncoder
from retriever import load_encoder
from retriever.core.requests import SearchRequest
from retriever.core.types import Document
from retriever.workspace import Index
with Index(Path({path!r}), encoder=FakeEncoder("question"), plain=load_encoder({name!r})) as index:
    index.add([Document(f"d{{n}}", f"text number {{n}}") for n in range(400)])
"""


def test_a_run_that_is_killed_pays_for_no_text_again(model, tmp_path):
    path = tmp_path / "index"
    code = INDEXING.format(tests=str(ROOT / "tests/index"), path=str(path), name=model.name)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    held, over = threading.Event(), threading.Event()

    def hold(reply, request):
        if len(model.requests) <= 10:  # later calls have no answer
            return reply
        held.set()
        over.wait(120)
        return Refusal(503)

    def paid():
        return [text for text in model.answered if text not in PROBES]

    model.always = hold
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=tmp_path)
    try:
        assert held.wait(120)
        steady = 0
        while steady < 5 and process.poll() is None:  # all that was answered is stored
            with suppress(RetrieverError), Index(path, encoder=FakeEncoder("question")) as index:
                steady = steady + 1 if index.status().documents == len(paid()) else 0
            threading.Event().wait(0.1)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        over.set()
    model.always = None
    assert 0 < len(paid()) < 400
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (len(paid()), len(set(paid()))) == (400, 400)
