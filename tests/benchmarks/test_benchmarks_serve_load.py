import asyncio
import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import httpx
import numpy as np
import pytest
import serve_load

ROOT = Path(__file__).parents[2]
RESULTS = [ROOT / f"benchmarks/results/serve_{part}.json" for part in ("load", "turns")]
MEASURED = [results for results in RESULTS if results.is_file()]
TEXTS = ["kettle", "toy", "lamp"]
EXPECTED = {text: np.eye(3, dtype=np.float32)[row] for row, text in enumerate(TEXTS)}
LOAD = serve_load.Load("retriever", "minilm", 1, 30.0, 300, 0, 0, 10.0, 90.0, 120.0, (200.0, 210.0), 0.0)


@pytest.fixture
def server(monkeypatch):
    """Answer requests as a function of how many there were says, without a network."""
    asked = []

    def begin(answer):
        def handle(request):
            asked.append(json.loads(request.content)["input"])
            found = answer(len(asked), asked[-1])
            if isinstance(found, int):
                return httpx.Response(found)
            return httpx.Response(200, json={"data": [{"embedding": found.tolist()}]})

        real = httpx.AsyncClient
        monkeypatch.setattr(
            httpx, "AsyncClient", lambda **_: real(transport=httpx.MockTransport(handle), base_url="http://x")
        )
        monkeypatch.setattr(serve_load, "memory_mb", lambda process: 100.0)
        return serve_load.Target("retriever", "minilm", "http://x", 1)

    return begin


def loaded(target, clients=2):
    return asyncio.run(serve_load.load(target, EXPECTED, {}, clients, 2.0))


def test_answers_are_counted_where_they_are_those_of_their_texts(server):
    tally = loaded(server(lambda number, text: EXPECTED[text]))
    assert (tally.refused, tally.lost) == (0, 0)
    assert len(tally.times) > 2
    assert tally.memory[0][1] == 100.0


def test_vectors_of_other_texts_errors_and_refusals_are_told_apart(server):
    wrong = {1: EXPECTED["lamp"], 2: 500, 3: 429}
    tally = loaded(server(lambda number, text: wrong.get(number, EXPECTED[text])), clients=1)
    assert (tally.refused, tally.lost) == (1, 2)


def test_memory_that_grows_has_a_slope():
    assert serve_load.slope([(second, 100 + second / 2) for second in range(20)]) == pytest.approx(30)
    assert serve_load.slope([(second, 100.0) for second in range(20)]) == pytest.approx(0, abs=0.01)
    assert serve_load.slope([(0, 1.0)]) == 0


def test_a_report_is_a_table_with_ratios():
    many = {**asdict(LOAD), "clients": 64, "per_second": 25.0, "memory_mb_per_minute": 0.5}
    *_, first, second = serve_load.table({"loads": [asdict(LOAD), many], "turns": None}).splitlines()
    assert first.startswith("| retriever | minilm | 1 | 10.0 | 1.00 | 90, 120 | 0, 0 | 200, 210 (+0.0 a minute) |")
    assert "| 64 | 25.0 | 2.50 |" in second


def test_servers_that_have_turns_get_the_same_texts_and_the_first_round_does_not_count(monkeypatch):
    asked = {"http://ours": [], "http://peer": []}

    def handle(request):
        asked[f"http://{request.url.host}"].append(json.loads(request.content)["input"])
        return httpx.Response(200, json={})

    real, texts = httpx.Client, [f"text {n}" for n in range(60)]
    monkeypatch.setattr(httpx, "Client", lambda **_: real(transport=httpx.MockTransport(handle)))
    for name in ("ours", "peer"):
        monkeypatch.setattr(serve_load, name, lambda name=name: nullcontext((f"http://{name}", 1)))
    turns = serve_load.in_turns(texts, 40)
    assert asked["http://ours"] == asked["http://peer"] == texts[:20] + texts[:40]
    assert turns["requests"] == 40
    (line,) = serve_load.table(
        {"loads": [], "turns": {"p50_ms": {"retriever": 5, "sentence-transformers": 20}}}
    ).splitlines()
    assert line == ("In turns, one client waits 5.0 ms and 20.0 ms (minilm, p50): 0.25 times.")


@pytest.mark.parametrize("results", MEASURED, ids=lambda results: results.stem)
def test_the_page_has_what_was_measured(results):
    page = (ROOT / "docs/server.md").read_text(encoding="utf-8")
    assert serve_load.table(json.loads(results.read_text())) in page
