import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from index_fakes import FAULT, MOOD, PRODUCT, FakeEncoder, RichEncoder

from retriever.core.errors import BusyError
from retriever.core.types import Encoded
from retriever.serving import batching
from retriever.serving.batching import BatchQueue, QueuedEncoder

WAIT = 120  # seconds; a busy machine


class HeldEncoder(FakeEncoder):
    """Reads nothing until it is let go."""

    def __init__(self, **options):
        super().__init__(**options)
        self.began, self.go = threading.Event(), threading.Event()

    def encode_views(self, texts, instructions, **options):
        self.began.set()
        assert self.go.wait(WAIT)
        return super().encode_views(texts, instructions, **options)


@pytest.fixture
def held():
    encoder = HeldEncoder()
    yield encoder
    encoder.go.set()


def busy(queue, encoder):
    """Have the queue's thread at work on a text, so that what follows waits."""
    first = queue.submit(encoder, ["rug"], FAULT)
    assert encoder.began.wait(WAIT)
    return first


def test_what_waits_under_one_instruction_is_one_pass(held):
    with BatchQueue() as queue:
        first = busy(queue, held)
        texts = [f"{word} {n}" for n, word in enumerate(["kettle", "toy", "lamp"] * 20)]
        asked = [queue.submit(held, [text], PRODUCT) for text in texts[:-1]]
        asked.append(queue.submit(held, [texts[-1]], MOOD))
        held.go.set()
        vectors = [one.result(WAIT).views[0].embeddings for one in asked]
    assert first.result().views[0].embeddings.shape == (1, 16)
    assert [one.result().tokens for one in asked] == [sum(held.count_tokens([text])) for text in texts]
    for text, found in zip(texts[:-1], vectors, strict=False):
        np.testing.assert_array_equal(found, held.vectors([text], PRODUCT))
    np.testing.assert_array_equal(vectors[-1], held.vectors([texts[-1]], MOOD))
    assert [(len(call.texts), call.instructions) for call in held.calls] == [
        (1, (FAULT,)),
        (59, (PRODUCT,)),
        (1, (MOOD,)),
    ]


def test_a_small_request_does_not_wait_for_the_end_of_a_large_one(held):
    with BatchQueue(pass_texts=4) as queue:
        busy(queue, held)
        order, large = [], queue.submit(held, [f"kettle {n}" for n in range(10)], PRODUCT)
        small, other = queue.submit(held, ["toy"], PRODUCT), queue.submit(held, ["sad"], MOOD)
        for name, one in (("large", large), ("small", small), ("other", other)):
            one.add_done_callback(lambda _, name=name: order.append(name))
        held.go.set()
        assert large.result(WAIT).views[0].embeddings.shape == (10, 16)
    assert order == ["small", "other", "large"]
    assert [len(call.texts) for call in held.calls] == [1, 4, 1, 4, 3]
    np.testing.assert_array_equal(small.result().views[0].embeddings, held.vectors(["toy"], PRODUCT))


def test_of_long_texts_fewer_are_a_pass(held):
    long = "kettle " * 1700  # two are nearly a pass
    texts = [long, long, "toy", long, "lamp"]
    with BatchQueue() as queue:
        busy(queue, held)
        large, other = queue.submit(held, texts, PRODUCT), queue.submit(held, ["sad"], MOOD)
        held.go.set()
        np.testing.assert_array_equal(large.result(WAIT).views[0].embeddings, held.vectors(texts, PRODUCT))
        assert other.done()
        queue.submit(held, [long * 3], PRODUCT).result(WAIT)  # one alone may be longer than a pass
    assert [len(call.texts) for call in held.calls] == [1, 3, 1, 2, 1]


def test_what_another_encoder_reads_holds_nobody_up(held):
    other = FakeEncoder()
    with BatchQueue() as queue:
        first = busy(queue, held)
        found = queue.submit(other, ["toy"], PRODUCT).result(WAIT).views[0].embeddings
        assert not first.done()
        np.testing.assert_array_equal(found, other.vectors(["toy"], PRODUCT))
        held.go.set()


def test_an_encoder_that_has_nothing_to_read_keeps_no_thread(monkeypatch):
    monkeypatch.setattr(batching, "IDLE_SECONDS", 0.01)
    with BatchQueue() as queue:
        for _ in range(2):
            assert len(queue.submit(FakeEncoder(), ["toy"], PRODUCT).result(WAIT).views) == 1
            (thread,) = queue._threads.values()
            thread.join(WAIT)
            assert not queue._threads


@pytest.mark.parametrize(("patience", "order"), [(WAIT, ["query", "read", "read"]), (0, ["read", "query", "read"])])
def test_queries_go_before_documents_that_have_not_waited_long(held, monkeypatch, patience, order):
    monkeypatch.setattr(batching, "PATIENCE", patience)
    long = "kettle " * 700  # two are more than a pass of documents
    with BatchQueue() as queue, ThreadPoolExecutor(1) as threads:
        busy(queue, held)
        documents = threads.submit(QueuedEncoder(held, queue).encode_views, [long, long], [PRODUCT], words=2)
        while queue.waiting < 3:
            assert not documents.done()
        query = queue.submit(held, ["sad"], MOOD)
        held.go.set()
        assert len(documents.result(WAIT)[0].embeddings) == 2
        query.result(WAIT)
    assert [call.method for call in held.calls[1:]] == order


def test_closing_waits_no_longer_than_it_is_told(held):
    queue = BatchQueue()
    busy(queue, held)
    began = time.monotonic()
    queue.close(0.1)
    assert time.monotonic() - began < WAIT / 2  # the pass under way is held for longer


def test_beyond_the_limit_a_request_is_refused_and_others_are_answered(held):
    with BatchQueue(waiting_texts=5) as queue:
        busy(queue, held)
        last = queue.submit(held, ["toy"] * 4, PRODUCT)
        with pytest.raises(BusyError, match="5 texts wait for the model"):
            queue.submit(held, ["toy"], PRODUCT)
        assert queue.waiting == 5
        held.go.set()
        assert len(last.result(WAIT).views[0].embeddings) == 4
        assert len(queue.submit(held, ["toy"] * 9, PRODUCT).result(WAIT).views[0].embeddings) == 9  # nothing waits


def test_a_cancelled_request_is_not_read(held):
    with BatchQueue() as queue:
        busy(queue, held)
        gone = queue.submit(held, ["toy"], PRODUCT)
        kept = queue.submit(held, ["lamp"], PRODUCT)
        assert gone.cancel()
        held.go.set()
        kept.result(WAIT)
    assert held.queries == ["rug", "lamp"]


def test_one_bad_text_is_the_trouble_of_who_sent_it(held):
    plain = held.vectors

    def vectors(texts, instruction=""):
        if "bad" in texts:
            raise ValueError("a bad text")
        return plain(texts, instruction)

    held.vectors = vectors
    with BatchQueue() as queue:
        busy(queue, held)
        good, bad = queue.submit(held, ["toy"], PRODUCT), queue.submit(held, ["bad"], PRODUCT)
        held.go.set()
        np.testing.assert_array_equal(good.result(WAIT).views[0].embeddings, plain(["toy"], PRODUCT))
        with pytest.raises(ValueError, match="a bad text"):
            bad.result(WAIT)
        queue.submit(held, ["toy"], PRODUCT).result(WAIT)  # the thread lives


class UnevenEncoder(HeldEncoder):
    """Gives longer vectors, or those of one instruction less, where a text asks for it."""

    def encode_views(self, texts, instructions, **options):
        found = super().encode_views(texts, instructions, **options)
        if "longer" in texts:
            return [Encoded(np.pad(one.embeddings, ((0, 0), (0, 1))), one.words) for one in found]
        return found[1:] if "less" in texts else found


@pytest.mark.parametrize(("text", "error"), [("longer", ValueError), ("less", IndexError)])
def test_what_an_encoder_gives_wrongly_is_the_trouble_of_who_asked(text, error):
    uneven = UnevenEncoder()
    with BatchQueue(pass_texts=2) as queue:
        busy(queue, uneven)
        wrong = queue.submit(uneven, ["toy", "lamp", "rug", text], PRODUCT)
        other = queue.submit(uneven, ["sad"], MOOD)
        uneven.go.set()
        with pytest.raises(error):
            wrong.result(20)
        np.testing.assert_array_equal(other.result(20).views[0].embeddings, uneven.vectors(["sad"], MOOD))
        with pytest.raises(error):
            QueuedEncoder(uneven, queue).encode_views(["toy", "lamp", text], [PRODUCT], on_tokens=lambda count: None)
        queue.submit(uneven, ["toy"], PRODUCT).result(20)


def test_where_the_reading_thread_fails_whoever_waits_is_told_and_others_are_read(held):
    passes = []

    def count(one):
        passes.append(one)
        if len(passes) == 2:
            raise ZeroDivisionError("no figures")

    with BatchQueue(pass_texts=2, on_pass=count) as queue:
        first = busy(queue, held)
        waits = [queue.submit(held, ["toy", "lamp", "rug"], PRODUCT), queue.submit(held, ["sad"], MOOD)]
        held.go.set()
        first.result(20)
        for one in waits:
            with pytest.raises(ZeroDivisionError, match="no figures"):
                one.result(20)
        assert queue.waiting == 0
        later = queue.submit(held, ["toy"], PRODUCT)
        np.testing.assert_array_equal(later.result(20).views[0].embeddings, held.vectors(["toy"], PRODUCT))
        with pytest.raises(TypeError):
            queue.submit(held, [None], PRODUCT).result(20)
        queue.submit(held, ["toy"], PRODUCT).result(20)
    assert len(passes) == 4


def test_a_closed_queue_refuses_what_waits_and_what_comes(held):
    queue = BatchQueue()
    busy(queue, held)
    waits = queue.submit(held, ["toy"], PRODUCT)
    closing = threading.Thread(target=queue.close)
    closing.start()
    with pytest.raises(BusyError, match="stopping"):
        waits.result(WAIT)
    held.go.set()
    closing.join(WAIT)
    assert not closing.is_alive()
    with pytest.raises(BusyError, match="stopping"):
        queue.submit(held, ["toy"], PRODUCT)


def test_a_queued_encoder_is_the_encoder():
    plain = RichEncoder()
    with BatchQueue(pass_texts=3) as queue:
        queued = QueuedEncoder(plain, queue)
        texts = [f"{word} love" for word in ["kettle", "toy", "lamp", "rug", "mug"]]
        counted = []
        found = queued.encode_views(texts, [PRODUCT, MOOD], words=2, on_tokens=counted.append)
        expected = plain.encode_views(texts, [PRODUCT, MOOD], words=2)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.embeddings, other.embeddings)
            assert one.words == other.words
        assert sum(counted) == 10
        np.testing.assert_array_equal(
            queued.reconfigured(steps=2).encode(["lamp toy"]), plain.reconfigured(steps=2).encode(["lamp toy"])
        )
        assert queued.encode([]).shape == (0, 16)
        assert (queued.spec, queued.count_tokens(["a b"])) == (plain.spec, [2])


class SlowEncoder(RichEncoder):
    """Takes 5 ms a pass: whoever is to be stopped by another thread must not have finished before."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        time.sleep(0.005)
        return super().encode_views(texts, instructions, words=words, on_tokens=on_tokens)


def test_what_counting_tokens_raises_ends_the_reading():
    with BatchQueue(pass_texts=1) as queue:
        encoder = SlowEncoder()

        def stop(count):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            QueuedEncoder(encoder, queue).encode_views(["toy"] * 500, [PRODUCT], words=5, on_tokens=stop)
        queue.submit(encoder, ["lamp"], PRODUCT).result(WAIT)
        assert len(encoder.read) < 500


def test_many_threads_get_their_own_vectors():
    encoder, passes = FakeEncoder(), []
    words = "kettle toy lamp knife drone cable pan sofa".split()
    with BatchQueue(on_pass=passes.append) as queue, ThreadPoolExecutor(16) as threads:
        queued = QueuedEncoder(encoder, queue)
        texts = [f"{words[n % 8]} {words[n % 5]}" for n in range(400)]
        found = list(threads.map(lambda text: queued.encode([text], instruction=PRODUCT), texts))
    np.testing.assert_array_equal(np.concatenate(found), encoder.vectors(texts, PRODUCT))
    assert sum(one.texts for one in passes) == 400
    assert sum(one.requests for one in passes) == 400
