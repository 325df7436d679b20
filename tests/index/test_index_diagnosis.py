import json
from dataclasses import replace

import pytest
from verdict_fakes import ASKED, FAULTS, MOOD_ASKED, TEXTS, Deaf, Plain, Reader

from retriever.core.errors import UsageError
from retriever.core.protocols import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.index.verdicts.diagnosis import TextPair, pair_accuracy
from retriever.index.verdicts.judging import TEXTS as MOST
from retriever.index.verdicts.measured import MEASURED
from retriever.workspace import Index

PAIRS = [
    TextPair(TEXTS[0], TEXTS[1], True),  # one product and fault, two moods
    TextPair(TEXTS[3], TEXTS[4], True),
    TextPair(TEXTS[0], TEXTS[3], False),
    TextPair(TEXTS[6], TEXTS[9], False),
]


@pytest.fixture
def index(tmp_path):
    with Index(tmp_path / "index", encoder=Reader(), plain=Plain()) as index:
        index.add(Document(f"{row:02}", text) for row, text in enumerate(TEXTS))
        yield index


def test_a_question_nobody_asked_is_read_for_a_sample_judged_and_stored(index):
    found = index.teaching.diagnose(ASKED)
    (view,) = (one for one in index.views() if one.instruction == ASKED)
    assert (view.vectors, view.lazy) == (MOST, True)
    assert (found.verdict, found.level) == (view.verdict, "followed")
    assert (found.verdict.texts, {word for word, _ in found.verdict.answers}) == (MOST, set(FAULTS))
    assert found.sentence.startswith(found.verdict.sentence)
    assert f"({found.verdict.chance:.0%} likely that it does; followed from " in found.sentence


def test_what_is_stored_is_shown_with_its_features_and_nothing_is_read_again(index):
    index.upkeep.complete([ASKED])
    asked = index._opened.sources.encoders.question.asked
    asked.clear()
    found = index.teaching.diagnose(ASKED)
    assert found.verdict == index.teaching.verdict(ASKED)
    assert set(found.features) == {"words_near", "topic", "first_share", "asks_topic", "suits_topic"}
    assert asked == []


def test_an_encoder_that_reads_no_question_is_told(tmp_path):
    with Index(tmp_path / "deaf", encoder=Deaf(), plain=Plain()) as deaf:
        deaf.add(Document(f"{row:02}", text) for row, text in enumerate(TEXTS))
        found = deaf.teaching.diagnose(ASKED)
    assert found.level == "not followed"
    limits = f"followed from {MEASURED.followed:.0%}, not followed up to {MEASURED.not_followed:.0%}"
    assert f"(0% likely that it does; {limits}.)" in found.sentence


def test_a_verdict_that_the_answers_do_not_allow_names_no_chance(index):
    found = index.teaching.diagnose(ASKED)
    topical = replace(found, verdict=replace(found.verdict, level="unclear"))
    assert topical.sentence.endswith("(The answers group the texts by their topics.)")


def test_too_little_to_go_on_is_refused(index, tmp_path):
    with pytest.raises(UsageError, match="instruction is empty"):
        index.teaching.diagnose("  ")
    with Index(tmp_path / "few", encoder=Reader(), plain=Plain()) as few:
        few.add(Document(f"{row:02}", text) for row, text in enumerate([*TEXTS[:29], TEXTS[0]]))
        with pytest.raises(UsageError, match="29 different texts"):
            few.teaching.diagnose(ASKED)


def test_pairs_decide_where_there_are_any(index):
    good = index.teaching.diagnose(ASKED, PAIRS)
    assert (good.pairs.auc, good.pairs.accuracy, good.level) == (1, 1, "followed")
    assert "in 100% of cases; followed from 75%" in good.sentence
    bad = index.teaching.diagnose(ASKED, [replace(one, same=not one.same) for one in PAIRS])
    assert (bad.pairs.auc, bad.level) == (0, "not followed")
    assert bad.sentence.startswith("This model does not follow this question; its commonest answers are ")
    assert bad.verdict == good.verdict
    assert index.teaching.verdict(ASKED) == good.verdict


@pytest.mark.parametrize(
    ("auc", "base", "level"),
    [(0.75, 0.5, "followed"), (0.74, 0.5, "unclear"), (0.65, 0.5, "unclear"), (0.64, 0.5, "not followed"),
     (0.8, 0.84, "followed"), (0.8, 0.86, "not followed")],
)  # fmt: skip
def test_the_thresholds_of_pairs_are_those_shown(index, auc, base, level):
    found = index.teaching.diagnose(ASKED, PAIRS)
    found = replace(found, pairs=replace(found.pairs, auc=auc, base_auc=base))
    assert found.level == level
    assert ("in 80% of cases, and without the question in 86%" in found.sentence) == (base == 0.86)
    shown = found.to_json()["thresholds"]
    assert (shown["followed_auc"], shown["weak_auc"], shown["lost_auc"]) == (0.75, 0.65, 0.05)


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


def test_the_json_is_rounded(index):
    found = json.loads(json.dumps(index.teaching.diagnose(MOOD_ASKED).to_json()))
    assert list(found) == (
        "schema_version level verdict thresholds instruction chance measured texts words features pairs".split()
    )
    assert found["pairs"] is None
    assert found["features"]["words_near"] == round(found["features"]["words_near"], 4)
