import pytest
from index_fixtures import one_thread
from qdrant_server import qdrant_server

__all__ = ["one_thread"]


@pytest.fixture(scope="module")
def server():
    with qdrant_server() as running:
        yield running
