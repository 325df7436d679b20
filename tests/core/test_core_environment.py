import platform
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np

from retriever.core import environment
from retriever.core.environment import machine, versions


def test_versions_are_those_of_what_is_imported(monkeypatch):
    for name in ("torch", "faiss"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = versions()
    assert (found["python"], found["machine"]) == (platform.python_version(), platform.machine())
    assert found["numpy"] == np.__version__
    assert found["retriever"]
    assert not {"torch", "faiss", "gpu"} & found.keys()


def test_a_machine_without_an_accelerator_in_use_has_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = machine()
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["accelerator"] is None


def test_a_copy_of_the_sources_has_no_version(monkeypatch):
    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", none)
    assert versions()["retriever"] == "not installed"
