import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Keep FAISS's threads from waiting for each other over a few vectors."""
    from retriever.vectors.faiss import faiss

    faiss.omp_set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    """Wait for no disk: what these tests lose is reckoned from the changes written down."""
    from disk import unflushed

    with unflushed():
        yield
