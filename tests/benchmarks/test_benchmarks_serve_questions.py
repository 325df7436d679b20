import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest
import serve_questions

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/serve_questions.json"
WAITS = serve_questions.Waits("20 questions", (0.5, 1.25), None, 20, 0, 3, (0.1, 0.2, 0.4), (900.0, 1000.0))


def followed(*answers, most=60.0):
    """The counts of a client that gets these answers one after the other."""
    left = iter(answers)

    async def ask():
        transport = httpx.MockTransport(lambda _: next(left))
        async with httpx.AsyncClient(transport=transport, base_url="http://x/indexes/reviews") as http:
            return await serve_questions.followed(http, {"query": "lid"}, most)

    return asyncio.run(ask())


def search(path):
    return httpx.Response(200, json={"next": path})


def job(status, result=None):
    return httpx.Response(200, json={"status": status, "result": result})


def test_a_client_follows_its_search_to_the_settled_answer():
    busy = httpx.Response(503, headers={"Retry-After": "0"})
    first, settled, refused = followed(busy, search("/jobs/1?wait=30"), job("running"), job("done", {"hits": []}))
    assert 0 < first < settled
    assert refused == 1
    assert len(set(followed(search(None))[:2])) == 1  # it was settled at once


def test_searches_without_an_answer_are_lost_and_those_still_read_for_are_not():
    assert followed(httpx.Response(504)) is None
    assert followed(search("/jobs/1"), job("failed")) is None
    assert followed(search("/jobs/1"), most=0.0)[1] is None


def test_a_report_is_a_table():
    row = serve_questions.table({"waits": [asdict(WAITS)]}).splitlines()[-1]
    assert row == "| 20 questions | 0.50 (1.25) | none | 20 | 0, 3 | 0.10, 0.20 (0.40) | 900, 1000 |"


@pytest.mark.skipif(not RESULTS.is_file(), reason="not measured yet")
def test_the_page_has_the_table_that_was_measured():
    table = serve_questions.table(json.loads(RESULTS.read_text()))
    assert table in (ROOT / "docs/server.md").read_text(encoding="utf-8")
