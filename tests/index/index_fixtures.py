import pytest
from index_fakes import MOOD, FakeEncoder, RichEncoder
from teaching_corpus import CORPUS, EXAMPLES

from retriever.index.search import rounds
from retriever.workspace import Index


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Keep FAISS's threads from waiting for each other over a few vectors when the machine is busy."""
    from retriever.vectors.faiss import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


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


@pytest.fixture
def rich_encoder():
    return RichEncoder()


@pytest.fixture
def rich(path, rich_encoder):
    with Index(path, encoder=rich_encoder) as index:
        yield index


@pytest.fixture
def moods(index):
    """An index whose moods can be taught, read under the question."""
    index.add(CORPUS, instructions=[MOOD])
    return index


@pytest.fixture
def taught(moods, encoder):
    """The same, taught; the encoder has forgotten all that was read before."""
    encoder.forget()
    moods.teaching.teach(MOOD, EXAMPLES)
    return moods


@pytest.fixture
def unjudged(monkeypatch):
    """Searches that read under a question and judge none, so that they read their candidates alone."""
    monkeypatch.setattr(rounds, "wants_judging", lambda store, view: False)
