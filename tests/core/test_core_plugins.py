import subprocess
import sys

import pytest
from index_fakes import FakeEncoder, documents, found

from retriever import load_encoder
from retriever.core.errors import EncoderError, RetrieverError, UsageError
from retriever.core.plugins import find_plugin, plugins
from retriever.core.requests import IndexType
from retriever.encoders.catalog import hidden_plugins, named, resolve_name
from retriever.index.sources.encoders import load_base
from retriever.index.upkeep.archive import export_index, import_index
from retriever.vectors.backend import open_backend
from retriever.workspace import Index

ENCODER = """
import numpy as np
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Encoded

class Ones(Encoder):
    spec = None
    def __init__(self, name, model, options, *, device, dtype):
        self.spec = EncoderSpec(f"ones-{model}", 1, name=name)
    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(np.ones((len(texts), 1), np.float32), [[] for _ in texts]) for _ in instructions]

def nameless(name, model, options, *, device, dtype):
    return Ones("other", model, options, device=device, dtype=dtype)

def strange(name, model, options, *, device, dtype):
    return 7

def failing(name, model, options, *, device, dtype):
    raise FileNotFoundError("weights.bin")
"""
BACKEND = """
from retriever.vectors.exact import ExactBackend

class Half:
    def __init__(self, folder, device): pass
    def build(self, view, vectors, options): pass
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package where packages are imported from: its module, and what says that it is installed."""
    place = tmp_path / "packages"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    modules = set()

    def installed(package, points, code="", *, group="retriever.encoders"):
        module = package.replace("-", "_")
        (place / f"{module}.py").write_text(code)
        about = place / f"{module}-1.2.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{name} = {module}:{attribute}" for name, attribute in points.items()]
        (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]))
        modules.add(module)
        return about

    yield installed
    for module in modules:
        sys.modules.pop(module, None)


def test_an_encoder_of_a_package_is_loaded_by_its_name_with_and_without_a_model(install):
    install("some-ones", {"ones": "Ones"}, ENCODER)
    for name, model in {"ones": "", "ones:a/b:c": "a/b:c"}.items():
        encoder = load_encoder(name)
        assert (
            (encoder.spec.name, encoder.fingerprint) == (resolve_name(name), f"ones-{model}") == (name, f"ones-{model}")
        )
    assert load_base("ones").spec.name == "ones"


def test_an_index_loads_the_encoder_of_a_package_again(install, tmp_path):
    install("some-ones", {"ones": "Ones"}, ENCODER)
    with Index(tmp_path / "index", encoder=load_encoder("ones"), plain="none") as index:
        index.add(documents("toy", "lamp"))
    with Index(tmp_path / "index") as index:
        assert [hit.score for hit in index.search("toy", mode="dense").hits] == [1, 1]


def test_an_index_whose_encoder_came_with_a_package_that_is_gone_says_what_to_install(install, tmp_path):
    about = install("some-ones", {"ones": "Ones"}, ENCODER)
    with Index(tmp_path / "index", encoder=load_encoder("ones:big"), plain="none") as index:
        index.add(documents("toy", "lamp"))
    (about / "entry_points.txt").unlink()
    with Index(tmp_path / "index") as index, pytest.raises(EncoderError, match="made by ones:big") as raised:
        index.search("toy", mode="dense")
    assert raised.value.hint.startswith("Install the package that brings it, or `retriever reembed")
    assert "Put it back" not in raised.value.hint and "checkpoint folder" not in raised.value.hint


def test_plugins_are_listed_and_nothing_of_them_is_imported(install):
    install("broken", {"broken": "Encoder"}, "raise RuntimeError('imported')")
    entries = named()
    assert entries["broken"].spec == "broken"
    assert entries["broken"].summary == "by the package broken 1.2"
    assert "broken" not in sys.modules
    code = "import sys; from retriever.cli.main import main; main(['models', 'list']); print(sorted(sys.modules))"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "by the package broken 1.2" in ran.stdout
    assert not {"'torch'", "'broken'"} & set(ran.stdout.splitlines()[-1].strip("[]").split(", "))


@pytest.mark.parametrize(
    ("attribute", "code", "problem"),
    [
        (
            "Encoder",
            "import not_there_at_all",
            "cannot be imported (ModuleNotFoundError: No module named 'not_there_at_all')",
        ),
        ("Encoder", "raise RuntimeError('no licence')", "cannot be imported (RuntimeError: no licence)"),
        ("missing", ENCODER, "cannot be imported (AttributeError"),
        ("strange", ENCODER, "is of type int, which is no retriever.core.protocols.Encoder"),
        ("nameless", ENCODER, "has no EncoderSpec with the name 'odd:m'"),
        ("failing", ENCODER, "cannot be loaded (FileNotFoundError: weights.bin)"),
        ("np", ENCODER, "cannot be loaded (TypeError"),
    ],
)
def test_an_encoder_that_does_not_do_is_an_error_that_names_package_and_entry_point(install, attribute, code, problem):
    install("odd-package", {"odd": attribute}, code)
    with pytest.raises(EncoderError) as caught:
        load_encoder("odd:m")
    assert caught.value.message.startswith(f"The encoder 'odd' of the package odd-package 1.2 {problem}")
    assert f"odd = 'odd_package:{attribute}' in retriever.encoders" in caught.value.hint
    assert "pip uninstall odd-package" in caught.value.hint


def test_a_name_of_ours_is_not_taken_and_that_is_said(install, tiny, capsys):
    install("a-thief", dict.fromkeys(["minilm", "plain", "default", "chat", "thief"], "Encoder"), "raise RuntimeError")
    assert resolve_name("minilm") == "st:all-minilm-l6-v2"
    assert load_encoder(f"plain:{tiny('llama')}", device="cpu", dtype="float32").method == "plain"
    assert len(hidden_plugins()) == 4
    assert (
        "The encoder 'plain' of the package a-thief 1.2 is not used: retriever has one of that name."
        in hidden_plugins()
    )
    install("another-thief", {"faiss": "Half"}, BACKEND, group="retriever.backends")
    assert type(open_backend("faiss", tiny("llama"))).__name__ == "FaissBackend"


def test_two_packages_with_one_name_are_refused_by_that_name_alone(install):
    install("left-ones", {"ones": "Ones"}, ENCODER)
    install("right-ones", {"ones": "Ones", "twos": "Ones"}, ENCODER)
    assert load_encoder("twos").dim == 1
    with pytest.raises(
        EncoderError, match=r"brought by the package left-ones 1\.2 and the package right-ones 1\.2"
    ) as caught:
        load_encoder("ones")
    assert caught.value.hint == "Uninstall all of them but one."


def test_a_name_near_a_plugin_suggests_it(install):
    install("some-ones", {"ones": "Ones"}, ENCODER)
    with pytest.raises(EncoderError) as caught:
        load_encoder("onse")
    assert caught.value.hint.startswith("Did you mean 'ones'?")
    assert find_plugin("encoder", "onse") is None


def test_a_plugin_cannot_be_trained(install, tmp_path):
    from retriever.training.config import read_config
    from retriever.training.run.bases import load_base as load_trained

    install("some-ones", {"ones": "Ones"}, ENCODER)
    with pytest.raises(UsageError, match="ones is an encoder of another package, which cannot be trained"):
        load_trained("ones", read_config(None, None, rows=200), device="cpu", dtype="float32")


def test_an_index_is_built_by_the_backend_of_a_package_which_clears_up_after_another(install, tmp_path):
    code = "from retriever.vectors.exact import ExactBackend\nclass Own(ExactBackend):\n    suffix = '.own'\n"
    about = install("own-backend", {"own": "Own"}, code, group="retriever.backends")
    views = tmp_path / "index" / "views"
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(documents("toy", "lamp"), index_type=IndexType(backend="own"))
        assert found(index.search("toy", mode="dense", k=1)) == [("a", 1)]
        index.upkeep.repair(index_type=IndexType(backend="exact"))
        own, (exact,) = list(views.rglob("*.own")), views.rglob("*.npy")
        assert own == []
        index.upkeep.repair(index_type=IndexType(backend="own"))
        assert len(list(views.rglob("*.own"))) == 1
        assert not exact.exists()
    export_index(tmp_path / "index", tmp_path / "archive")
    for file in (*about.iterdir(), about):
        file.unlink() if file.is_file() else file.rmdir()
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        with pytest.raises(UsageError, match="There is no vector backend 'own'"):
            index.search("toy", mode="dense")
        index.upkeep.repair(index_type=IndexType(backend="exact"))
        assert found(index.search("toy", mode="dense", k=1)) == [("a", 1)]
    import_index(tmp_path / "archive", tmp_path / "imported")
    with Index(tmp_path / "imported", encoder=FakeEncoder()) as index:
        assert found(index.search("toy", mode="dense", k=1)) == [("a", 1)]


def test_what_a_backend_of_a_package_left_stays_and_is_logged_once_the_package_is_gone(install, tmp_path, caplog):
    code = "from retriever.vectors.exact import ExactBackend\nclass Own(ExactBackend):\n    suffix = '.own'\n"
    about = install("own-backend", {"own": "Own"}, code, group="retriever.backends")
    with Index(tmp_path / "index", encoder=FakeEncoder()) as index:
        index.add(documents("toy", "lamp"), index_type=IndexType(backend="own"))
        (about / "entry_points.txt").unlink()
        index.upkeep.repair(index_type=IndexType(backend="exact"))
    assert len(list((tmp_path / "index").rglob("*.own"))) == 1
    assert any("Old vector indexes of own were not removed." in message for message in caplog.messages)


def test_a_backend_that_does_not_do_is_an_error_that_names_package_and_entry_point(install, tmp_path):
    install("half-backend", {"half": "Half", "gone": "Gone"}, BACKEND, group="retriever.backends")
    assert [plugin.name for plugin in plugins("vector backend")] == ["gone", "half"]
    with pytest.raises(RetrieverError) as caught:
        open_backend("half", tmp_path)
    assert "half-backend 1.2 has no method require and no open and no hold and no check and no remove." in str(
        caught.value
    )
    assert "half = 'half_backend:Half' in retriever.backends" in caught.value.hint
    with pytest.raises(RetrieverError, match=r"'gone' of the package half-backend 1\.2 cannot be imported"):
        open_backend("gone", tmp_path)
    with pytest.raises(UsageError) as unknown:
        open_backend("haf", tmp_path)
    assert unknown.value.hint == "Did you mean 'half'?"
