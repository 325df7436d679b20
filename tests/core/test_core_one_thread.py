import threading

import numpy as np  # noqa: F401 - loads the BLAS library
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from retriever.core.contexts import one_thread, single_threaded


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
