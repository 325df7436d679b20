from itertools import product

import numpy as np
import pytest
from label_fakes import BlindEncoder, Oracle, bench, by_metric, write_rows

from retriever.core.errors import InputError
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.types import Encoded
from retriever.evaluation import unmet
from retriever.evaluation.grids import (
    Grid,
    Question,
    grid_reversals,
    grid_triplets,
    held_out_grids,
    kinds_grid,
    read_grid,
    spread,
)
from retriever.evaluation.suites import DataFile
from retriever.evaluation.unmet import by_file
from retriever.evaluation.wordings import FAMILIES, asked_in_training, unmet_kinds

KINDS = unmet_kinds()
FILES = by_file(KINDS)
VALUES = {one.kind: [f"{one.kind}-{value}" for value in range(2)] for one in KINDS}
ASKED = {wording: VALUES[one.kind] for one in KINDS for wording in one.wordings}
FAR = unmet.FAR
KNOWN = next(iter(asked_in_training()))


def labelled(file, copies=2):
    """Yield rows with every combination of the answers to the kinds of a file; a text holds its answers."""
    names = [one.kind for one in FILES[file]]
    for answers in product(*(VALUES[name] for name in names)):
        for copy in range(copies):
            text = f"{' '.join(answers)} {copy}"
            yield {"text": text, "labels": dict(zip(names, answers, strict=True)), "split": "train"}


@pytest.fixture
def data(tmp_path):
    for file in FILES:
        write_rows(tmp_path, file, labelled(file))
    return tmp_path


def triplets(data, encoder, **options):
    return by_metric(unmet.triplets(bench(data, encoder, **options)))


def reversal(data, encoder, **options):
    return by_metric(unmet.reversal(bench(data, encoder, **options)))


def test_an_oracle_gets_everything_and_gains_by_being_asked(data):
    scores = triplets(data, Oracle(ASKED))
    for kind in [*(one.kind for one in KINDS), *FAMILIES, FAR, "all kinds"]:
        assert scores[f"{kind}, asked"].value == scores[f"{kind}, worst wording"].value == pytest.approx(100)
        assert scores[f"{kind}, not asked"].value < 100
    gain = scores["all kinds, asked less not asked"]
    assert gain.value == pytest.approx(100 - scores["all kinds, not asked"].value)
    assert gain.low > 20
    assert scores["all kinds, asked"].items == len(KINDS)
    assert scores["content, asked"].items == sum(one.family == "content" for one in KINDS)
    assert scores[f"{FAR}, asked"].items == sum(not one.near for one in KINDS)
    headlines = [metric for metric, score in scores.items() if score.headline]
    assert headlines == ["all kinds, asked", "all kinds, worst wording", "all kinds, asked less not asked"]
    assert "10 wordings from 100.0 to 100.0" in scores["made_in, asked"].note


def test_the_worst_wording_and_the_mean_are_told_apart(data):
    deaf = {one.wordings[4] for one in KINDS}
    blind = triplets(data, BlindEncoder())
    scores = triplets(data, Oracle({one: values for one, values in ASKED.items() if one not in deaf}))
    for one in KINDS:
        worst = blind[f"{one.kind}, not asked"].value
        assert scores[f"{one.kind}, worst wording"].value == pytest.approx(worst)
        assert scores[f"{one.kind}, asked"].value == pytest.approx((900 + worst) / 10)
    every = [scores[f"{one.kind}, worst wording"].value for one in KINDS]
    assert scores["all kinds, worst wording"].value == pytest.approx(np.mean(every))


def test_an_oracle_reverses_every_pair(data):
    scores = reversal(data, Oracle(ASKED))
    pairs = [(one.kind, other.kind) for kinds in FILES.values() for one in kinds for other in kinds if one is not other]
    named = [f"{one} and {other}, reversal" for one, other in pairs]
    assert sum(name in scores for name in named) == len(named) / 2 == scores["all pairs, reversal"].items
    assert {score.value for score in scores.values()} == {100}
    assert [metric for metric, score in scores.items() if score.headline] == ["all pairs, reversal"]
    assert set(FAMILIES) <= {metric.partition(",")[0] for metric in scores}
    far = [pair for pair in pairs if any(not one.near for one in KINDS if one.kind in pair)]
    assert scores[f"{FAR}, reversal"].items == len(far) / 2 < scores["all pairs, reversal"].items


def test_an_encoder_that_ignores_the_question_cannot_pass_half(data):
    scores = reversal(data, BlindEncoder())
    assert max(score.value for score in scores.values()) <= 50 + 1e-9
    assert max(score.high for score in scores.values()) <= 50 + 1e-9
    assert scores["all pairs, reversal"].value > 20


def test_an_encoder_that_always_answers_one_question_reverses_nothing(data):
    topic = {wording: VALUES[kinds[0].kind] for kinds in FILES.values() for one in kinds for wording in one.wordings}
    assert reversal(data, Oracle(topic))["complaint_industry and complaint, reversal"].value == 0


def test_a_limit_takes_fewer_texts_and_three_wordings(data):
    encoder = Oracle(ASKED)
    scores = triplets(data, encoder, limit=6)
    assert {len(texts) for texts, _ in encoder.calls} == {4, 6}
    first, *_ = FILES.values()
    assert encoder.calls[0][1] == ["", *(wording for one in first for wording in one.wordings[:3])]
    assert "in 3 wordings" in scores["all kinds, asked"].note
    assert scores["all kinds, asked"].value == 100


def test_texts_are_taken_evenly_and_a_smaller_limit_takes_a_part():
    values = ["rare"] * 5 + ["often"] * 95
    chosen = spread([values], 20, seed=0)
    assert sum(values[row] == "rare" for row in chosen) == 5
    assert set(spread([values], 8, seed=0)) < set(chosen)
    assert sum(values[row] == "rare" for row in spread([values], 8, seed=0)) == 4
    assert chosen == spread([values], 20, seed=0) != spread([values], 20, seed=1)
    many = [str(row % 20) for row in range(200)]
    of_twenty = [many[row] for row in spread([many], 20, seed=0)]
    assert {of_twenty.count(one) for one in of_twenty} == {2}
    both = [[str(row % 2) for row in range(64)], [str(row // 2 % 2) for row in range(64)]]
    assert len({tuple(column[row] for column in both) for row in spread(both, 4, seed=0)}) == 4


def test_texts_without_all_answers_or_with_two_are_passed_over(tmp_path):
    kinds = FILES["complaints.jsonl"]
    rows = list(labelled("complaints.jsonl"))
    bare = {"text": "bare", "labels": {kinds[0].kind: "any"}}
    twice = {"text": rows[0]["text"], "labels": rows[-1]["labels"]}
    write_rows(tmp_path, "complaints.jsonl", [*rows, bare, twice])
    grid = kinds_grid(tmp_path, kinds, limit=100)
    assert sorted(grid.texts) == sorted(row["text"] for row in rows[1:])


def grid(split, kinds, texts=6):
    rows = [
        {"text": f"{split} {kinds[0]}-{row % 2} {kinds[1]}-{row // 2 % 2} {row}"}
        | {"answers": [f"{kinds[0]}-{row % 2}", f"{kinds[1]}-{row // 2 % 2}"]}
        for row in range(texts)
    ]
    questions = [
        {"kind": kind, "wordings": [f"Which {kind}?", f"{kind} of it", f"Tell {kind}.", kind]} for kind in kinds
    ]
    return {"split": split, "questions": questions, "rows": rows}


GRIDS = [grid("dev", ["part", "fault"]), grid("dev", [KNOWN, "owner"]), grid("train", ["owner", "price"])]


def follows(*kinds):
    asked = {
        w: [f"{one}-0", f"{one}-1"] for one in kinds for w in (f"Which {one}?", f"{one} of it", f"Tell {one}.", one)
    }
    return Oracle(asked)


def asked(tmp_path, encoder, grids=GRIDS, **options):
    write_rows(tmp_path, DataFile.ASKED, grids)
    return by_metric(unmet.asked(bench(tmp_path, encoder, **options)))


def test_kinds_of_training_grids_are_scored_apart(tmp_path):
    scores = asked(tmp_path, follows("part", "fault"))
    assert scores["unmet kinds, asked"].value == scores["unmet kinds, reversal"].value == 100
    assert scores["unmet kinds, asked"].items == scores["known kinds, asked"].items == 2
    assert scores["known kinds, asked less not asked"].value == pytest.approx(0)
    assert scores["known kinds, reversal"].value <= 50
    headlines = [metric for metric, score in scores.items() if score.headline]
    assert headlines == [
        "unmet kinds, asked",
        "unmet kinds, worst wording",
        "unmet kinds, asked less not asked",
        "unmet kinds, reversal",
    ]
    scores = asked(tmp_path, follows(KNOWN, "owner"))
    assert scores["known kinds, reversal"].value == scores["known kinds, worst wording"].value == 100
    assert scores["unmet kinds, reversal"].value <= 50


def test_a_limit_takes_fewer_grids_and_each_whole(tmp_path):
    kinds = [["part", "fault"], ["cause", "owner"], ["size", "age"]]
    rows = [grid("dev", pair, texts=40) for pair in kinds]
    for limit, count in {1: 1, 40: 1, 41: 2, 90: 3, None: 3}.items():
        encoder = follows(*(kind for pair in kinds for kind in pair))
        asked(tmp_path, encoder, rows, limit=limit)
        wordings = 4 if limit is None else unmet.QUICK_WORDINGS
        assert [(len(texts), len(asking)) for texts, asking in encoder.calls] == [(40, 1 + 2 * wordings)] * count
    drawn = {held_out_grids(tmp_path, limit=1, seed=seed)[0][0].texts[0] for seed in range(20)}
    assert len(drawn) == 3


def test_an_answer_that_says_nothing_is_no_likeness(tmp_path):
    mute = grid("dev", ["part", "fault"])
    for row in mute["rows"][::2]:
        row["answers"][0] = "not said"
    write_rows(tmp_path, DataFile.ASKED, [mute])
    (found,), known = held_out_grids(tmp_path)
    assert found.questions[0].answers == [None, "part-1"] * 3
    assert found.questions[1].answers == [row["answers"][1] for row in mute["rows"]]
    assert not known
    assert "known kinds, asked" not in asked(tmp_path, follows("fault"), [mute])


@pytest.mark.parametrize("task", [unmet.triplets, unmet.reversal])
def test_too_few_texts_and_a_single_answer_are_named(data, task):
    with pytest.raises(InputError, match="no text has both") as raised:
        list(task(bench(data, BlindEncoder(), limit=1)))
    assert "--limit" in raised.value.hint
    write_rows(data, "complaints.jsonl", [{"text": "x", "labels": {"complaint": "a", "complaint_industry": "b"}}])
    with pytest.raises(InputError, match=r"complaints.jsonl: fewer than two answers to 'complaint_industry'"):
        list(task(bench(data, BlindEncoder())))


@pytest.mark.parametrize(
    ("grids", "problem"),
    [
        ([grid("train", ["part", "fault"])], "no grid of the dev split"),
        ([grid("dev", [KNOWN, KNOWN])], "any unmet question"),
        ([grid("dev", ["part", "fault"], texts=1)], "any unmet question"),
        ([{**GRIDS[0], "rows": [{"text": "x", "answers": ["one"]}]}], "row 1: a text needs one answer"),
        ([{**GRIDS[0], "rows": [{"text": "", "answers": ["one", "two"]}]}], "row 1: .* has no 'text'"),
        ([{**GRIDS[0], "questions": [{"kind": "a"}, {"kind": "b"}]}], "row 1: .* list of strings 'wordings'"),
        ([{"split": "dev"}], "row 1: 'questions' is missing"),
    ],
)
def test_a_file_of_grids_that_cannot_be_used_is_named(tmp_path, grids, problem):
    with pytest.raises(InputError, match=problem):
        asked(tmp_path, BlindEncoder(), grids)


TEXTS = ["red car", "red ship", "blue car", "blue ship", "red bike"]
COLOUR = Question("colour", ["Which colour?", "Name the colour."], ["red", "red", "blue", "blue", "red"])
VEHICLE = Question("vehicle", ["Which vehicle?", "Name the vehicle."], ["car", "ship", "car", "ship", "bike"])


class Places(Encoder):
    """Puts the texts at given angles, in degrees, under each instruction."""

    def __init__(self, **angles):
        self.angles = angles
        self.calls = []

    spec = EncoderSpec("places".ljust(64, "0"), 2)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.calls.append((list(texts), list(instructions)))
        found = [np.radians([self.of(one)[TEXTS.index(text)] for text in texts]) for one in instructions]
        rows = [np.stack([np.cos(one), np.sin(one)], axis=1).astype(np.float32) for one in found]
        return [Encoded(one, [[] for _ in texts]) for one in rows]

    def of(self, instruction):
        for word, angles in self.angles.items():
            if word in instruction:
                return angles
        return self.angles["plain"]


BY_COLOUR, BY_VEHICLE, APART = [0, 0, 90, 90, 0], [0, 45, 0, 45, 90], [0, 10, 30, 70, 150]


def measured(encoder, *questions):
    grid = Grid("five texts", TEXTS, questions or [COLOUR, VEHICLE])
    alike = read_grid(encoder, grid)
    return grid_triplets(grid, alike), grid_reversals(grid, alike)


def test_who_follows_both_questions_gets_everything():
    triplets, (pair,) = measured(Places(colour=BY_COLOUR, vehicle=BY_VEHICLE, plain=APART))
    assert [one.kind for one in triplets] == ["colour", "vehicle"]
    assert [one.by_wording.tolist() for one in triplets] == [[1, 1], [1, 1]]
    assert triplets[1].asked.shape == (2, 4)  # the only bike is alike to none
    assert pair.kinds == ("colour", "vehicle")
    assert pair.successes.shape == (2, 2, 4)  # the bike has no other text of its vehicle
    assert pair.by_wording.tolist() == [1, 1]


def test_triplets_by_hand():
    (colour, _), _ = measured(Places(plain=APART))
    # each of the red ones has two of its colour against two others, each of the blue ones one against three
    expected = [(2 + 0) / 4, (2 + 0) / 4, 1 / 3, 3 / 3, (0 + 0) / 4]
    assert colour.unasked == pytest.approx(expected)
    assert colour.asked == pytest.approx(np.array([expected, expected]))


def test_a_wording_that_is_not_followed_lowers_its_own_figure_alone():
    (colour, _), (pair,) = measured(Places(Which=BY_COLOUR, plain=BY_VEHICLE))
    assert colour.by_wording[0] == 1 > colour.by_wording[1]
    assert pair.by_wording.tolist() == [0, 0]  # first both by colour, then both by vehicle


@pytest.mark.parametrize("angles", [APART, BY_COLOUR, BY_VEHICLE, [0] * 5, [0, 90, 180, 45, 10]])
def test_who_ignores_the_question_cannot_pass_one_half(angles):
    _, (pair,) = measured(Places(plain=angles))
    assert pair.successes.sum(axis=0) == pytest.approx(np.ones((2, 4)), abs=1e-12)
    assert (pair.by_wording <= 0.5 + 1e-12).all()


def test_equal_similarities_count_half():
    (colour, _), (pair,) = measured(Places(plain=[0] * 5))
    assert colour.unasked.tolist() == [0.5] * 5
    assert pair.by_wording.tolist() == [0.5, 0.5]


def test_answers_that_say_nothing_make_no_texts_alike():
    silent = Question("colour", ["Which colour?"], ["red", "red", None, None, "blue"])
    (colour, _), (pair,) = measured(Places(colour=[0, 0, 90, 90, 90], vehicle=BY_VEHICLE, plain=APART), silent, VEHICLE)
    assert colour.asked.tolist() == [[1, 1]]  # of both red ones, against all that are not red
    assert pair.successes.shape == (2, 1, 2)


def test_texts_are_read_once_under_all_wordings_and_not_asked():
    encoder = Places(plain=APART)
    measured(encoder)
    assert encoder.calls == [(TEXTS, ["", *COLOUR.wordings, *VEHICLE.wordings])]
