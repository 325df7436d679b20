import pytest

from retriever.core.types import Document
from retriever.store.database import Store
from retriever.store.views import ViewKey


@pytest.fixture
def path(tmp_path):
    return tmp_path / "index" / "corpus.sqlite3"


@pytest.fixture
def store(path):
    with Store.open(path, create=True) as store:
        yield store


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """Give a database that all examples of a module write to."""
    with Store.open(tmp_path_factory.mktemp("random") / "corpus.sqlite3", create=True) as store:
        yield store


@pytest.fixture
def view_id(store):
    return store.views.ensure(ViewKey("f" * 64, "", "mean", None, 4, "fp32", 2)).view_id


@pytest.fixture
def reviews():
    return [
        Document("a", "The kettle boils quickly", {"labels": {"stars": 5, "category": "kitchen"}}),
        Document("b", "The drone broke", {"labels": {"stars": 1, "category": "toy"}, "tags": ["gift", "flying"]}),
        Document("c", "The kettle boils quickly", {"labels": {"stars": 2}}),
    ]
