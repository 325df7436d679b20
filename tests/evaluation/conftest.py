import pytest

from retriever.evaluation import scores
from retriever.evaluation.run.bench import IndexSearchPath


@pytest.fixture(autouse=True)
def few_resamples(request, monkeypatch):
    """Intervals of 100 resamples, but where the intervals themselves are tested."""
    if "metrics" not in request.path.name:
        monkeypatch.setattr(scores, "RESAMPLES", 100)


@pytest.fixture
def search(encoder, tmp_path):
    """Give the search path of the test's encoder."""
    with IndexSearchPath(encoder, folder=tmp_path) as search:
        yield search
