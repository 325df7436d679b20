import os
import shutil
import sys
from functools import cache
from pathlib import Path

# Before any Hugging Face import: a test that reaches for the network fails at once instead of waiting for it.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# A place where nothing can be: what the user of this machine promoted is neither tested nor overwritten.
os.environ["RETRIEVER_CONFIG"] = f"{os.devnull}/retriever"
# Processes that a test starts import this checkout, wherever the one that is installed lies.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "app"), *filter(None, [os.getenv("PYTHONPATH")])]
)
# Before Ray, which reads it once: a cluster that a test starts lets nobody else in.
os.environ["RAY_AUTH_MODE"] = "token"
# Before torch: threads that wait sleep. Spinning beside another busy process, tiny tensors take twenty times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
from hypothesis import HealthCheck, settings

# Keep what Python compiles, also where the environment says not to: torch alone takes a process seconds to compile.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Files of tests lie in memory where it has room, so that thousands of small indexes do not wait for a disk.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()

# How long an example takes says how busy the machine is, not whether the code is right.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples every time: a change makes a test fail, not chance.
settings.register_profile("default", settings(), derandomize=True, **PATIENT)
# HYPOTHESIS_PROFILE=nightly draws others, fifty times as many for every test with Hypothesis.
settings.register_profile("nightly", max_examples=5000, print_blob=True, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Give the folder of a tiny model by name, built on first use."""
    import tiny_models

    root, built = tmp_path_factory.mktemp("tiny-models"), {}

    def folder(name):
        if name not in built:
            built[name] = tiny_models.BUILDERS[name](root / name)
        return built[name]

    return folder


@pytest.fixture(scope="session")
def family(tmp_path_factory):
    """Give the folder of the tiny model of a family of sentence encoders by name, built on first use."""
    from tests.tiny_families import FAMILIES

    return cache(lambda name: FAMILIES[name](tmp_path_factory.mktemp("family")))


@pytest.fixture(scope="session")
def backbone(tiny):
    """Give a loaded tiny backbone by name and number format; tests must not change it."""
    from retriever.encoders.backbone import load_backbone

    loaded = {}

    def get(name, dtype="float32"):
        if (name, dtype) not in loaded:
            loaded[name, dtype] = load_backbone(str(tiny(name)), device="cpu", dtype=dtype)
        return loaded[name, dtype]

    return get


@pytest.fixture
def own_choices(tmp_path, monkeypatch):
    """Have a user whose choices are those of the test alone: none at its beginning."""
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))


@pytest.fixture
def embedding_model(own_choices, monkeypatch):
    """Give an embedding model behind an endpoint that nobody has asked yet."""
    from embedding_server import EmbeddingModel, serving_embeddings
    from replay_server import forget_endpoints

    from retriever.encoders.answers import patience

    forget_endpoints()
    monkeypatch.setattr(patience, "BACKOFF", (0.001, 0.01))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    made = EmbeddingModel()
    with serving_embeddings(made) as made.url:
        made.name, made.host = f"http:{made.url}#tiny", made.url.split("/")[2]
        yield made


@pytest.fixture
def scorer(own_choices, monkeypatch):
    """Give a reranker behind an endpoint that nobody has asked yet."""
    from rerank_server import Scorer, reranking

    from retriever.encoders.answers import reranking as endpoint

    monkeypatch.setattr(endpoint, "_takes_texts", set())
    made = Scorer()
    with reranking(made) as made.name:
        yield made


@pytest.fixture(scope="module")
def chromium():
    """Give the headless Chromium of a module's tests; none of them may run an event loop of its own on their thread."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip("Chromium is not installed: apt-get install chromium")
    playwright.expect.set_options(timeout=180_000)  # milliseconds; a busy machine
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def browser(chromium):
    """Give a headless Chromium without a page; what a test opens in it is closed behind it."""
    yield chromium
    for context in chromium.contexts:
        context.close()


@pytest.fixture(scope="session")
def milvus_programs(pytestconfig):
    """Unpack the server's programs once, for later sessions too."""
    from milvus_server import unpacked

    return unpacked(pytestconfig.cache.mkdir("milvus"))


@pytest.fixture(scope="module")
def milvus(milvus_programs, tmp_path_factory):
    """Give the module's Milvus server, its token in the environment: with nothing to do it takes a part of a core."""
    from milvus_server import MilvusServer, quick

    running = MilvusServer(tmp_path_factory.mktemp("milvus") / "server", milvus_programs)
    running.start()
    with pytest.MonkeyPatch.context() as patch, quick():
        patch.setenv("MILVUS_TOKEN", running.token)
        yield running
    running.stop()
