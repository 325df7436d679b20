import json

import gpu
import pytest


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Run the benchmark with parts that take no time, and return what it wrote."""

    def run(*options, cuda=False):
        devices = []
        monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(gpu.torch.cuda, "get_device_name", lambda device=None: "a GPU")
        monkeypatch.setattr(gpu, "reading", lambda name, on, options: devices.append(on) or {"name": name})
        monkeypatch.setattr(gpu, "searching", lambda on, options: {"vectors": options.vectors})

        def fails(on, options):
            raise RuntimeError("out of memory")

        monkeypatch.setattr(gpu, "training", fails)
        gpu.main(["--output", str(tmp_path / "gpu.json"), *options])
        return json.loads((tmp_path / "gpu.json").read_text()), devices

    return run


def test_without_a_gpu_its_half_is_said_to_have_never_been_run(measured):
    document, devices = measured()
    assert devices == [["cpu"], ["cpu"]]
    assert document["gpu"] is None
    assert "never been run" in document["note"]


def test_a_part_that_fails_costs_no_other(measured):
    document, devices = measured("--models", "minilm", cuda=True)
    assert devices == [["cpu", "cuda"]]
    assert (document["gpu"], document["note"]) == ("a GPU", "")
    assert document["training"]["failed"] == "RuntimeError: out of memory"
    assert document["reading: minilm"]["name"] == "minilm"


def test_texts_are_different_and_about_as_long_as_asked(capsys):
    made = gpu.texts(50, 40)
    assert len(set(made)) == 50
    assert all(30 <= len(one.split()) <= 40 for one in made)
    assert gpu.texts(50, 40) == made


def test_searching_measures_the_processor_alone_here():
    import argparse

    found = gpu.searching(["cpu"], argparse.Namespace(vectors=500, rounds=1))
    assert found["cpu"]["queries_per_second"] > 0
    assert "same_ids" not in found
