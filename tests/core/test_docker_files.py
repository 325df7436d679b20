"""The files that images are made of, as far as they can be looked at without making one."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("variant", "faiss"), [("cpu", "faiss-cpu"), ("gpu", "faiss-gpu")])
def test_an_image_gets_what_a_server_needs_and_one_faiss(variant, faiss):
    requirements = runpy.run_path(str(ROOT / "docker/requirements.py"))["requirements"](variant)
    names = {re.split(r"[<>=\[]", line)[0] for line in requirements}
    assert {"torch", "fastapi", "uvicorn", "mcp", "prometheus-client", faiss} <= names
    assert sum(name.startswith("faiss") for name in names) == 1
    assert not names & {"streamlit", "pytest", "retriever", "mteb"}
    assert all(";" not in line for line in requirements)


def test_the_image_runs_without_rights_and_takes_in_only_what_it_needs():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    last = lines[max(row for row, line in enumerate(lines) if line.startswith("FROM")) :]
    user = next(row for row, line in enumerate(last) if line.startswith("USER retriever"))
    assert not [line for line in last[user:] if line.startswith(("RUN", "COPY", "USER root"))]
    assert not [line for line in lines if ":latest" in line]
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for name in (one for names in copied for one in names):
        assert name in allowed, name
        assert (ROOT / name).exists(), name


def test_compose_keeps_the_server_to_this_machine_and_its_tokens_out_of_the_file():
    server = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]["server"]
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])
    assert server["read_only"] and server["cap_drop"] == ["ALL"]
    assert "indexes:/indexes" in server["volumes"]
    assert {"--token-file=/run/secrets/reader", "--writer-token-file=/run/secrets/writer"} <= set(server["command"])
    gpu = yaml.safe_load((ROOT / "compose.gpu.yaml").read_text(encoding="utf-8"))["services"]["server"]
    assert gpu["build"]["args"] == {"VARIANT": "gpu"}
    assert "secrets/" in (ROOT / ".gitignore").read_text()
