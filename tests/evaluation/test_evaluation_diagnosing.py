import json
from dataclasses import replace

import numpy as np
import pytest

from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.errors import InputError, UsageError
from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.evaluation.run import diagnosing
from retriever.evaluation.run.diagnosing import TextPair, diagnose, pair_accuracy
from retriever.evaluation.run.view_measures import shape, shift
from retriever.workspace import Index

PRODUCTS = ("kettle", "lamp", "toy")
MOODS = ("love", "hate", "calm", "angry")
TEXTS = [f"{mood} the {product} number {row}" for row in range(2) for product in PRODUCTS for mood in MOODS]
ASKED = "What kind of product is it?"


class Obeying(Encoder):
    """Sees products when products are asked for, and something random but stable under any other instruction."""

    spec = EncoderSpec("o" * 64, 8)

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(self.rows(texts, one), self.answers(texts) if words else []) for one in instructions]

    def rows(self, texts, instruction):
        return normalise([self.row(text, instruction) for text in texts])

    def answers(self, texts):
        return [[one for one in PRODUCTS if one in text] for text in texts]

    def row(self, text, instruction):
        if ASKED in instruction and "Leave this out" not in instruction:
            seen = [float(one in text) for one in PRODUCTS]
        else:
            seen = [float(one in text) for one in MOODS]
        noise = np.random.default_rng([len(instruction), *text.encode()]).normal(size=self.dim)
        return np.pad(seen, (0, self.dim - len(seen))) + 0.05 * noise


class Blind(Obeying):
    """Sees the same whatever is asked, and answers in no words."""

    spec = EncoderSpec("b" * 64, 8)

    def rows(self, texts, instruction):
        return super().rows(texts, "")

    def answers(self, texts):
        return [[] for _ in texts]


class Restless(Obeying):
    """Moves as much for a paraphrase as for anything else."""

    spec = EncoderSpec("r" * 64, 8)

    def row(self, text, instruction):
        return np.random.default_rng([*instruction.encode(), *text.encode()]).normal(size=self.dim)


def pairs():
    """Pairs of the same and of different products; those of different products share their mood."""
    same = [TextPair(TEXTS[4 * product], TEXTS[4 * product + 13], True) for product in range(2)]
    same += [TextPair(TEXTS[4 * product + 1], TEXTS[4 * product + 14], True) for product in range(2)]
    return [*same, *(TextPair(TEXTS[mood], TEXTS[mood + 4], False) for mood in range(4))]


def fixed(pair):
    """The pair with the right answer, whatever the arithmetic above."""
    product = {one for one in PRODUCTS if one in pair.a} & {one for one in PRODUCTS if one in pair.b}
    return TextPair(pair.a, pair.b, bool(product))


def test_an_encoder_that_answers_follows_the_question():
    found = diagnose(Obeying(), TEXTS, ASKED)
    assert found.level == found.verdict.level
    assert found.sentence.startswith(found.verdict.sentence)
    assert f"({found.verdict.chance:.0%} likely that it does; followed from " in found.sentence
    assert found.paraphrase.regrouped < 0.3 < found.others.regrouped
    assert found.negated.regrouped > found.paraphrase.regrouped
    assert found.base.moved > found.paraphrase.moved
    assert (found.verdict.texts, found.verdict.answers) == (24, [("kettle", 8), ("lamp", 8), ("toy", 8)])
    assert (found.view.clusters, found.base_view.clusters) == (3, 4)
    assert found.view.silhouette > 0.7
    assert found.verdict.chance > diagnose(Blind(), TEXTS, ASKED).verdict.chance


def test_a_word_that_begins_one_of_more_texts_is_not_told():
    class Fragments(Obeying):
        def answers(self, texts):
            return [["toy" if place % 3 else "kett", "kettle"] for place, _ in enumerate(texts)]

    assert diagnose(Fragments(), TEXTS, ASKED).verdict.answers == [("kettle", 24), ("toy", 16)]


def test_an_encoder_that_does_not_read_the_question_hardly_follows_it():
    found = diagnose(Blind(), TEXTS, ASKED)
    assert (found.level, found.verdict.answers) == ("hardly", [])
    assert max(found.base.moved, found.others.moved, found.negated.regrouped) < 1e-6


def test_an_encoder_that_any_wording_upsets_is_not_called_followed():
    found = diagnose(Restless(), TEXTS, ASKED)
    assert found.paraphrase.regrouped == pytest.approx(found.others.regrouped, abs=0.2)
    assert found.level != "followed"


def test_pairs_decide_where_there_are_any():
    known = [fixed(pair) for pair in pairs()]
    good = diagnose(Obeying(), TEXTS, ASKED, known)
    assert (good.pairs.auc, good.pairs.accuracy, good.level) == (1, 1, "followed")
    assert "in 100% of cases; followed from 75%" in good.sentence
    bad = diagnose(Obeying(), TEXTS, ASKED, [TextPair(one.a, one.b, not one.same) for one in known])
    assert (bad.pairs.auc, bad.level) == (0, "hardly")
    assert bad.sentence.startswith("This model hardly follows this question; teach it with examples")
    assert bad.verdict == good.verdict


@pytest.mark.parametrize(
    ("value", "level"), [(0.75, "followed"), (0.74, "unclear"), (0.65, "unclear"), (0.64, "hardly")]
)
def test_the_thresholds_are_those_shown(value, level):
    found = diagnose(Obeying(), TEXTS, ASKED, [fixed(pair) for pair in pairs()])
    found = replace(found, pairs=replace(found.pairs, auc=value, base_auc=0.5))
    assert found.level == level
    shown = found.to_json()["thresholds"]
    assert (shown["followed_auc"], shown["weak_auc"], shown["lost_auc"]) == (0.75, 0.65, 0.05)


@pytest.mark.parametrize(("base", "level"), [(0.84, "followed"), (0.86, "hardly")])
def test_a_question_that_costs_what_pairs_had_without_it_is_not_followed(base, level):
    found = diagnose(Obeying(), TEXTS, ASKED, [fixed(pair) for pair in pairs()])
    found = replace(found, pairs=replace(found.pairs, auc=0.8, base_auc=base))
    assert found.level == level
    assert ("in 80% of cases, and without the question in 86%" in found.sentence) == (level == "hardly")


class Given(Encoder):
    """Two numbers a text, under any instruction."""

    spec = EncoderSpec("given", 2)

    def __init__(self, **rows):
        self.rows = rows

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        return [Encoded(normalise([self.rows[text] for text in texts]), [])] * len(instructions)


def test_pair_accuracy_by_hand():
    # Cosines with (1, 0): same 1 and 0.6, different 0.8 and 0. Three of the four comparisons are right.
    encoder = Given(o=(1, 0), a=(1, 0), b=(0.6, 0.8), c=(0.8, 0.6), d=(0, 1))
    known = [TextPair("o", "a", True), TextPair("o", "b", True), TextPair("o", "c", False), TextPair("o", "d", False)]
    found = pair_accuracy(encoder, known, "any")
    assert (found.pairs, found.same, found.auc, found.accuracy) == (4, 2, 0.75, 0.75)
    assert found.threshold in (pytest.approx(1), pytest.approx(0.6))
    with pytest.raises(UsageError, match="all of one kind"):
        pair_accuracy(encoder, known[:2], "any")


def test_shift_by_hand():
    square = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
    turned = square[:, ::-1] * np.array([-1, 1], dtype=np.float32)  # every text moved by a right angle, alike
    assert shift(square, square).moved == 0
    assert shift(square, turned).moved == 1
    assert shift(square, turned).regrouped == pytest.approx(0, abs=1e-9)
    swapped = square[[0, 2, 1, 3]]
    # Opposite pairs were 0-2 and 1-3, now 0-1 and 2-3: cosines (0, -1, 0, 0, -1, 0) against (-1, 0, 0, 0, 0, -1).
    assert shift(square, swapped).regrouped == pytest.approx(1 + 0.5)
    alike = np.ones((4, 2), dtype=np.float32) / np.float32(2**0.5)
    assert shift(alike, alike).regrouped == 0
    assert shift(alike, square).regrouped == 1


def test_the_shape_of_two_far_groups():
    view = normalise(np.repeat([[1.0, 0.0], [0.0, 1.0]], 6, axis=0) + np.linspace(0, 0.01, 12)[:, None] * [1, -1])
    found = shape(view)
    assert (found.clusters, found.silhouette) == (2, pytest.approx(1, abs=0.05))
    assert found.spread == pytest.approx(36 / 66, abs=0.02)  # 36 of the 66 pairs are at right angles
    assert shape(np.tile(view[:1], (8, 1))).clusters == 1


def test_the_json_is_stable_and_rounded():
    found = json.loads(json.dumps(diagnose(Obeying(), TEXTS, ASKED).to_json()))
    assert list(found) == [
        "schema_version", "level", "verdict", "thresholds", "instruction", "chance", "measured", "texts", "words",
        "encoder", "features", "base", "paraphrase", "others", "negated", "view", "base_view", "pairs",
    ]  # fmt: skip
    assert found["words"][0] == {"word": "kettle", "texts": 8}
    assert found["pairs"] is None
    assert found["chance"] == round(found["chance"], 4)
    assert found["features"]["like_unasked"] < 0.5


@pytest.mark.parametrize(("texts", "asked"), [(TEXTS, "  "), (TEXTS[:3] * 9, ASKED)])
def test_too_little_to_go_on_is_refused(texts, asked):
    with pytest.raises(UsageError):
        diagnose(Obeying(), texts, asked)


def test_a_sample_of_an_index_is_the_same_every_time(tmp_path):
    with Index(tmp_path / "index", encoder=Obeying()) as index:
        index.add(Document(f"{row:02}", text) for row, text in enumerate(TEXTS))
        some = diagnosing.index_texts(index, 10)
        assert (len(some), set(some) < set(TEXTS)) == (10, True)
        assert diagnosing.index_texts(index, 10) == some != diagnosing.index_texts(index, 10, seed=1)
        assert sorted(diagnosing.index_texts(index, 1000)) == sorted(TEXTS)


def test_bad_pairs_and_corpora_name_file_and_row(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"a": "x", "b": "y", "same": true}\n{"a": "x", "b": "y", "same": "yes"}\n')
    with pytest.raises(InputError, match=r"pairs.jsonl, row 2: 'same' is not"):
        diagnosing.read_pairs(file)
    file.write_text('{"a": "x", "b": "y", "same": false}\n')
    assert diagnosing.read_pairs(file) == [TextPair("x", "y", False)]
    file.write_text('{"id": "1", "text": "fine"}\n{"id": "2"}\n')
    with pytest.raises(InputError, match=r"pairs.jsonl, row 2"):
        diagnosing.corpus_texts(file, 5)
