import pytest
from api_fakes import AnyEncoder
from index_fakes import MOOD, PRODUCT

from retriever.core.types import Document
from retriever.workspace import Index

TEXTS = ["a kettle I love", "a toy I hate", "the kettle leaks", "a lamp", "a toy that is dim"]


@pytest.fixture
def index(tmp_path):
    """Give an open index of five reviews, with complete views of two instructions."""
    with Index(tmp_path / "reviews", encoder=AnyEncoder()) as made:
        documents = [Document(f"r{row}", text, {"stars": row, "score": "mine"}) for row, text in enumerate(TEXTS, 1)]
        made.add(documents, instructions=[PRODUCT, MOOD])
        yield made
