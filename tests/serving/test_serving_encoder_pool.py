import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from index_fakes import FakeEncoder

from retriever.core.errors import EncoderError
from retriever.index import encoding
from retriever.serving import pools
from retriever.serving.pools import EncoderPool

THREADS = 8
WAIT = 120  # seconds; a busy machine


class Loader:
    """Loads encoders by the name in a description, counting; waits at the gate of those that have one."""

    def __init__(self, **gates):
        self.gates = gates
        self.begun = {name: threading.Event() for name in gates}
        self.loaded = []

    def __call__(self, description):
        name = description["name"]
        if name in self.gates:
            self.begun[name].set()
            assert self.gates[name].wait(WAIT)
        self.loaded.append(name)
        return FakeEncoder(name)


def test_an_encoder_that_many_threads_ask_for_at_once_is_loaded_once():
    load = Loader(a=threading.Event())
    pool = EncoderPool(load)
    with ThreadPoolExecutor(THREADS) as threads:
        asked = [threads.submit(pool.described, {"name": "a"}) for _ in range(THREADS)]
        assert load.begun["a"].wait(WAIT)
        load.gates["a"].set()
        found = [one.result(WAIT) for one in asked]
    assert load.loaded == ["a"]
    assert all(one is found[0] for one in found)


def test_while_one_encoder_is_loaded_others_are_had_and_loaded():
    load = Loader(slow=threading.Event())
    pool = EncoderPool(load)
    ready = pool.described({"name": "ready"})
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(pool.described, {"name": "slow"})
        assert load.begun["slow"].wait(WAIT)
        assert threads.submit(pool.described, {"name": "ready"}).result(WAIT) is ready
        assert threads.submit(pool.described, {"name": "other"}).result(WAIT) is not ready
        load.gates["slow"].set()
        slow.result(WAIT)
    assert load.loaded == ["ready", "other", "slow"]


def test_descriptions_that_differ_are_of_two_encoders():
    pool = EncoderPool(Loader())
    assert pool.described({"name": "a", "steps": 1}) is not pool.described({"name": "a", "steps": 2})
    assert pool.described({"steps": 1, "name": "a"}) is pool.described({"name": "a", "steps": 1})


def test_all_who_wait_are_told_why_it_cannot_be_loaded_and_it_is_tried_anew():
    gate, begun, broken = threading.Event(), threading.Event(), [True]

    def load(description):
        begun.set()
        assert gate.wait(WAIT)
        if broken.pop():
            raise EncoderError("The backbone is not installed.", hint="Install it.")
        return FakeEncoder("mended")

    pool = EncoderPool(load)
    with ThreadPoolExecutor(THREADS) as threads:
        asked = [threads.submit(pool.described, {"name": "a"}) for _ in range(2)]
        assert begun.wait(WAIT)
        gate.set()
        outcomes = [one.exception(WAIT) for one in asked]
    assert isinstance(outcomes[0] or outcomes[1], EncoderError)
    broken.append(False)
    assert pool.described({"name": "a"}).fingerprint.startswith("mended")


@pytest.fixture
def default(monkeypatch):
    """Let ``default`` stand for what the test says; count how often it is loaded."""

    class Default:
        name = "shipped"
        loads = 0

        def load(self):
            self.loads += 1
            return FakeEncoder(self.name)

    made = Default()
    monkeypatch.setattr(pools, "default_identity", lambda: made.name)
    monkeypatch.setattr(pools, "load_encoder", made.load)
    return made


def test_the_default_is_loaded_once_and_anew_after_another_became_it(default):
    pool = EncoderPool()
    first = pool.default()
    assert pool.default() is first
    assert default.loads == 1
    default.name = "promoted"
    assert pool.default().fingerprint.startswith("promoted")
    assert default.loads == 2


def test_an_index_made_with_the_default_is_read_by_the_same_object(default):
    pool = EncoderPool()
    assert pool.described(encoding.describe(pool.default())) is pool.default()


def test_of_many_encoders_those_asked_for_last_stay_loaded_and_the_others_are_let_go():
    load = Loader()
    pool = EncoderPool(load, most=2)
    first, second = (weakref.ref(pool.described({"name": name})) for name in "ab")
    pool.described({"name": "a"})
    pool.described({"name": "c"})
    gc.collect()
    assert first() is not None
    assert second() is None
    pool.described({"name": "a"})
    assert load.loaded == ["a", "b", "c"]
    pool.described({"name": "b"})
    assert load.loaded == ["a", "b", "c", "b"]


def test_an_encoder_of_two_names_is_one_of_those_that_stay(default):
    pool = EncoderPool(Loader(), most=2)
    first = weakref.ref(pool.default())
    pool.described(encoding.describe(pool.default()))
    other = weakref.ref(pool.described({"name": "a"}))
    gc.collect()
    assert first() is not None
    assert other() is not None
