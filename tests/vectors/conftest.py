import faiss
import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Search tiny indexes on one thread: on a busy machine more of them mostly wait for each other."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


@pytest.fixture
def two_threads():
    faiss.omp_set_num_threads(2)
    yield
    faiss.omp_set_num_threads(1)
