from functools import cache

import pytest
from replay_server import forget_endpoints


@pytest.fixture(autouse=True)
def new_endpoints():
    """Forget the endpoints that another test asked: a port can be given out again."""
    yield
    forget_endpoints()


@pytest.fixture(scope="session")
def slow(tiny):
    """Give the slow reference over a tiny model by name."""
    from slow_reference import Slow

    return cache(lambda name: Slow(name, tiny(name)))


@pytest.fixture(scope="session")
def make(backbone):
    """Give an encoder over a tiny model: method, model name, number format, options."""
    from retriever.encoders.methods import EncoderOptions, build

    def make(method, name, dtype="float32", **options):
        return build(method, backbone(name, dtype), EncoderOptions(**options))

    return make
