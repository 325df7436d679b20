import pytest

from retriever.evaluation import scores


@pytest.fixture(autouse=True)
def few_resamples(request, monkeypatch):
    """Intervals of 100 resamples, but where the intervals themselves are tested."""
    if "metrics" not in request.path.name:
        monkeypatch.setattr(scores, "RESAMPLES", 100)
