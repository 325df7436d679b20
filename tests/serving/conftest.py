import pytest
from index_fakes import PRODUCT, FakeEncoder

from retriever.core.types import Document
from retriever.workspace import Index


@pytest.fixture
def indexes(tmp_path):
    """Give an empty folder of indexes."""
    folder = tmp_path / "indexes"
    folder.mkdir()
    return folder


@pytest.fixture
def make(indexes):
    """Make an index of the texts and return its folder."""

    def index(name="reviews", texts=("a kettle", "a toy")):
        with Index(indexes / name, encoder=FakeEncoder()) as made:
            made.add([Document(str(row), text) for row, text in enumerate(texts)], instructions=[PRODUCT])
        return indexes / name

    return index
