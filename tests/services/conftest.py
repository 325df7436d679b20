import pytest
from services_fakes import FakeEncoder

from retriever.services.workspace import Index


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def encoder():
    return FakeEncoder()


@pytest.fixture
def index(path, encoder):
    with Index(path, encoder=encoder) as index:
        yield index
