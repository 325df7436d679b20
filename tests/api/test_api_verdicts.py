import pytest
from index_fakes import FAULT, MOOD, PRODUCT
from test_api_mcp import answer

from retriever.api import service
from retriever.api.service import VERDICT
from retriever.index import completing
from retriever.index.teaching.part import Teaching
from retriever.index.verdicts.measured import Measured

TEXTS = [
    f"a {product} I {mood}, {row}"
    for row in range(5)
    for product in ("kettle", "toy")
    for mood in "love hate calm angry".split()
]


@pytest.fixture
def server(make, serve, monkeypatch):
    """Serve forty texts; no question is followed."""
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.01)
    make(texts=TEXTS)
    return serve()


def search(server, instruction, **body):
    response = server.post("/indexes/reviews/search", {"query": "love", "instruction": instruction, "k": 1, **body})
    assert response.status_code == 200, response.text
    return response.json()


def looked(server):
    """Wait until nobody looks into an instruction any more."""
    for job in server.service.jobs.named(VERDICT).values():
        assert job.wait(120).status == "done"


@pytest.fixture
def unjudged(server, monkeypatch):
    """Views that have every text and no verdict, as those of an index that another version made."""
    with monkeypatch.context() as patch:
        patch.setattr(completing, "wants_judging", lambda store, view: False)
        server.service.index("reviews").upkeep.complete([MOOD, FAULT])


def test_a_search_that_reads_has_the_verdict(server):
    found = search(server, MOOD, query="a kettle")["verdict"]
    assert (found["level"], found["instruction"]) == ("not followed", MOOD)
    assert server.service.jobs.named(VERDICT) == {}


@pytest.mark.usefixtures("unjudged")
def test_a_search_begins_to_look_and_later_answers_have_the_verdict(server):
    assert search(server, MOOD)["verdict"] is None
    looked(server)
    found = search(server, MOOD)["verdict"]
    assert (found["level"], found["instruction"], found["texts"]) == ("not followed", MOOD, 40)
    assert found["sentence"].endswith(
        "Word the question differently, teach it with examples, or let a language model read the texts."
    )
    assert search(server, "")["verdict"] is None
    views = server.get("/indexes/reviews").json()["views"]
    levels = {view["instruction"]: view["verdict"] and view["verdict"]["level"] for view in views}
    assert (levels[""], levels[MOOD]) == (None, "not followed")


@pytest.mark.usefixtures("unjudged")
def test_one_is_looked_into_at_a_time_and_takes_no_turn_of_a_job(server, encoder):
    search(server, MOOD)
    looked(server)
    search(server, FAULT)
    assert list(server.service.jobs.named(VERDICT)) == [f"{VERDICT}reviews"]
    assert server.service.running_jobs() == 0
    looked(server)


def test_of_questions_that_no_verdict_can_be_given_on_the_last_are_remembered(make, serve, monkeypatch):
    make(texts=["a kettle I love", "a toy I hate"])
    judged = []
    monkeypatch.setattr(service, "MOST_LOOKED", 2)
    monkeypatch.setattr(Teaching, "judge", lambda self, instruction, progress: judged.append(instruction))
    server = serve()
    for instruction in (PRODUCT, MOOD, PRODUCT, MOOD, FAULT, MOOD, PRODUCT):
        server.service.index("reviews").upkeep.complete([instruction])
        search(server, instruction)
        looked(server)
    assert judged == [PRODUCT, MOOD, FAULT, PRODUCT]


def test_clusters_bring_verdict_and_caution(server):
    response = server.post("/indexes/reviews/cluster?wait=30", {"instruction": PRODUCT, "k": 2})
    result = response.json()["result"]
    assert result["verdict"]["level"] == "not followed"
    assert result["caution"].startswith(f"{result['verdict']['sentence']} Without the question the texts fall")


def test_agents_are_told(server):
    found = answer(server, "cluster", instruction=PRODUCT, k=2)
    assert "give_answers" in found["verdict"]
    for told in (found["verdict"], found["caution"], answer(server, "diagnose", instruction=PRODUCT)["verdict"]):
        assert "retriever " not in told and "--" not in told
    assert found["verdict"] in found["caution"]
    views = answer(server, "describe")["views"]
    assert [(one["instruction"], one["followed"]) for one in views] == [(PRODUCT, "not followed")]
    assert answer(server, "search", query="love", instruction=PRODUCT)["verdict"] == found["verdict"]
    hits = answer(server, "compare", first=PRODUCT, second=MOOD, query="love")
    assert hits["verdicts"][0] == found["verdict"]
