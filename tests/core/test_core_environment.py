import platform
import sys
import threading
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from retriever.core import environment
from retriever.core.contexts import one_thread, single_threaded
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


# Threads.


def threads():
    """Return the threads of NumPy's library; SciPy and FAISS may have brought theirs."""
    return {one["num_threads"] for one in threadpool_info() if "numpy.libs" in one["filepath"]}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_inside_there_is_one_thread_and_outside_as_many_as_before():
    with one_thread, one_thread:
        assert threads() == {1}
    assert threads() == {2}


def test_what_is_single_threaded_has_no_other_library_with_more():
    with single_threaded():
        assert {one["num_threads"] for one in threadpool_info()} == {1}
    assert threads() == {2}


def test_what_fails_inside_gives_the_threads_back():
    with pytest.raises(ValueError, match="no"), one_thread:
        raise ValueError("no")
    assert threads() == {2}


@pytest.mark.parametrize("inner", ["alone", "with a limit of its own"])
def test_who_leaves_first_neither_lifts_the_limit_nor_leaves_it_behind(inner):
    inside, left, seen = threading.Event(), threading.Event(), []

    def other():
        with one_thread:
            if inner == "alone":
                inside.set()
                left.wait()
            else:
                with threadpool_limits(1):
                    inside.set()
                    left.wait()
            seen.append(threads())

    running = threading.Thread(target=other)
    with one_thread:
        running.start()
        inside.wait()
    left.set()
    running.join()
    assert (seen, threads()) == ([{1}], {2})
