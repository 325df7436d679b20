import itertools
import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from verdict_fakes import ASKED, FAULTS, MOOD_ASKED, MOODS, PRODUCTS, TEXTS, Deaf, Plain, Reader

from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.core.verdicts import Verdict, verdict_of
from retriever.core.words import is_fragment
from retriever.index.indexing import IndexingOptions
from retriever.index.verdicts import arithmetic, judging
from retriever.index.verdicts.features import TOPICS, by_topic, features_of, meanings
from retriever.index.verdicts.measured import MEASURED, Measured, Weight, measured_of
from retriever.index.verdicts.reading import REFERENCES, read
from retriever.workspace import Index


def documents(count=60):
    return [Document(f"{row:02}", text) for row, text in enumerate(TEXTS[:count])]


@pytest.fixture
def opened(tmp_path):
    """Give an index of the texts for an encoder."""
    held = []

    def make(encoder, *, count=60, instructions=()):
        index = Index(tmp_path / f"index{len(held)}", encoder=encoder, plain=Plain())
        held.append(index)
        index.add(documents(count), instructions=instructions)
        return index

    yield make
    for index in held:
        index.close()


def judged(encoder, *, texts=TEXTS, question=ASKED, plain=None):
    """Judge an encoder on some texts."""
    return judging.judge(encoder, plain or Plain(), question, read(encoder, texts, question))


def test_an_encoder_that_answers_is_said_to_follow_the_question():
    found = judged(Reader()).verdict
    assert found.level == "followed"
    assert found.answers == [(fault, 12) for fault in sorted(FAULTS, key=FAULTS.index)]
    assert (found.texts, found.measured, found.warns) == (60, False, False)
    assert found.sentence == "This model follows this question."


def test_an_encoder_that_gives_every_question_the_same_vectors_is_said_to_follow_none():
    found = judged(Deaf()).verdict
    assert (found.level, found.chance, found.another_question) == ("not followed", 0.0, False)
    assert found.sentence == (
        "This model does not follow this question; its commonest answers are kettle, lamp, toy. "
        "Word the question differently, teach it with examples, or let a language model read the texts."
    )


class Topical(Plain):
    """Knows what product a text is of, that two questions ask for it, and which words are products."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        axes = [*PRODUCTS, *FAULTS, *MOODS]
        rows = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in TOPICS or text.startswith("Which product"):
                rows[row, : len(PRODUCTS)] = 1
            elif text == ASKED:
                rows[row, 25] = 1
            else:
                named = [place for place, word in enumerate(axes) if word in text]
                rows[row, named[:1] or [20]] = 1
        return [Encoded(normalise(rows), [[] for _ in texts]) for _ in instructions]


class Products(Reader):
    """Answers with products, whatever is asked, but for feelings: no question has its view alone."""

    def answers_to(self, instruction):
        return MOODS if instruction == REFERENCES[1] else PRODUCTS


def test_a_question_with_the_answers_of_one_for_the_topic_is_unclear_at_best_whatever_its_chance(monkeypatch):
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.99)
    found = judged(Products(), plain=Topical())
    assert (found.verdict.level, found.verdict.chance, found.verdict.another_question) == ("unclear", 0.99, True)
    assert not found.verdict.answered
    assert found.features["topic"] == pytest.approx(1)
    assert found.verdict.sentence == (
        "It is unclear whether this model follows this question: its answers (kettle, lamp, toy) go by the topics of "
        "the texts. Word the question differently, teach it with examples, or let a language model read the texts."
    )
    faults = judged(Reader(), plain=Topical())
    assert (faults.verdict.level, faults.verdict.another_question) == ("followed", False)
    assert faults.features["topic"] < 0.1


def test_answers_by_the_topic_do_not_mend_a_chance_that_is_low(monkeypatch):
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.01)
    assert judged(Products(), plain=Topical()).verdict.level == "not followed"


def test_a_question_for_the_topic_itself_may_have_such_answers(monkeypatch):
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.99)
    assert judged(Products(), question="Which product is it?", plain=Topical()).verdict.level == "followed"


@pytest.mark.parametrize(
    ("topic", "suits", "asks", "expected"),
    [
        (0.41, 0.01, 0.44, True),
        (0.39, 0.01, 0.44, False),
        (0.41, -0.01, 0.44, False),
        (0.41, 0.01, 0.46, False),
    ],
)
def test_answers_go_by_the_topic_by_hand(topic, suits, asks, expected):
    assert by_topic({"topic": topic, "suits_topic": suits, "asks_topic": asks}) is expected
    assert not by_topic({})


def test_no_question_is_followed_where_it_is_not_with_features_rounded_otherwise():
    rounded = 0.05  # more than was seen between bfloat16 and float32
    low, high = np.array([-0.1, -0.1, 0.0]), 1.0
    for at in np.random.default_rng(0).uniform(low, high, (5000, 3)):
        chances = [
            MEASURED.chance(dict(zip(("words_near", "topic", "first_share"), at + off, strict=True)))
            for off in rounded * np.array(list(itertools.product((-1, 0, 1), repeat=3)))
        ]
        assert {MEASURED.level(chance) for chance in chances} != {"followed", "unclear", "not followed"}
        assert not max(chances) >= MEASURED.followed > MEASURED.not_followed >= min(chances)


@pytest.mark.parametrize(
    ("view", "share"),
    [
        ([[1, 0], [1, 0], [-1, 0], [-1, 0]], 1.0),
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], 0.5),
        ([[1, 0], [1, 0], [1, 0], [1, 0]], 0.0),
    ],
)
def test_the_first_share_is_high_where_texts_have_two_answers(view, share):
    assert arithmetic.first_share(np.array(view, dtype=np.float32)) == pytest.approx(share)


class Brief(Reader):
    """Answers with a token that begins a word of the texts."""

    def answers_to(self, instruction):
        return ("disappro",)


def test_a_verdict_tells_whole_words():
    assert is_fragment("disappro")
    texts = [f"{text}, and I disapprove" for text in TEXTS]
    found = judged(Brief(), texts=texts).verdict
    assert [word for word, _ in found.answers] == ["disapprove"]


def test_without_a_plain_reader_little_is_known():
    evidence = read(Reader(), TEXTS, ASKED)
    assert features_of(evidence, ASKED, None) == {}
    assert judging.judge(Reader(), None, ASKED, evidence).verdict.level == "unclear"


def test_a_view_goes_with_its_answers_where_texts_that_say_the_same_lie_together():
    views = np.eye(4)[[0, 0, 1, 1, 2, 2]]
    same, other = np.eye(6)[[3, 3, 1, 1, 0, 0]], np.eye(6)[[3, 1, 0, 3, 1, 0]]
    assert arithmetic.near(views, same) == pytest.approx(1)
    assert arithmetic.near(views, other) < 0.2
    assert arithmetic.near(views, np.zeros((6, 4))) == 0.0  # nothing was answered


def test_answers_mean_what_their_words_do_on_average():
    plain = Plain()
    found = meanings(plain, [["ab", "cd"], [], ["ab"]])
    both = plain.encode(["ab", "cd"])
    assert np.allclose(found, [both.mean(axis=0), np.zeros(26), both[0]])
    assert not meanings(plain, [[], []]).any()


def test_the_chance_by_hand():
    measured = Measured("v", "f", {"a": Weight(2.0, 1.0, 0.5), "b": Weight(-1.0, 0.0, 1.0)}, 0.5, 0.7, 0.3)
    assert measured.chance({"a": 1.0, "b": 0.5}) == 0.5  # 0.5 + 0 - 0.5
    assert measured.chance({"a": 1.5}) == pytest.approx(1 / (1 + np.exp(-2.5)))  # b says nothing
    assert [measured.level(one) for one in (0.7, 0.69, 0.31, 0.3)] == ["followed", "unclear", "unclear", "not followed"]


def test_a_view_is_judged_as_it_fills_and_never_again(opened):
    encoder = Reader()
    index = opened(encoder, instructions=[ASKED])
    found = index.teaching.verdict(ASKED)
    assert (found.level, found.texts) == ("followed", judging.TEXTS)
    assert [one.verdict for one in index.views()] == [None, found]
    encoder.asked.clear()
    assert index.teaching.judge(ASKED) == found
    assert index.cluster(ASKED, k=5).verdict == found
    assert index.search("lid", instruction=ASKED).verdict == found
    assert not set(encoder.asked) & {*REFERENCES}


def test_a_verdict_outlives_the_index_object_and_goes_with_the_view(opened, tmp_path):
    index = opened(Reader(), instructions=[ASKED])
    found = index.teaching.verdict(ASKED)
    index.close()
    with Index(tmp_path / "index0", encoder=Deaf("reader"), plain=Plain()) as again:
        assert again.teaching.verdict(ASKED) == found  # no model was asked
        again.upkeep.drop_views([ASKED])
        assert again.teaching.verdict(ASKED) is None


def test_too_few_texts_give_no_verdict(opened):
    index = opened(Reader(), count=judging.LEAST_TEXTS - 1, instructions=[ASKED])
    assert (
        index.teaching.verdict(ASKED),
        index.teaching.judge(ASKED),
        index.teaching.judge(""),
        index.teaching.judge("never asked"),
    ) == (None,) * 4
    assert not index.teaching.wants_verdict(ASKED)
    index.add(documents(judging.LEAST_TEXTS))
    assert index.teaching.verdict(ASKED).texts == judging.LEAST_TEXTS


def test_a_verdict_by_another_measurement_is_found_anew(opened, monkeypatch):
    index = opened(Reader(), instructions=[ASKED])
    newer = replace(MEASURED, version="newer")
    monkeypatch.setattr("retriever.index.verdicts.stored.MEASURED", newer)
    assert index.teaching.verdict(ASKED) is None
    assert index.teaching.judge(ASKED) == index.teaching.verdict(ASKED) is not None


def test_a_search_that_reads_judges_the_question_and_later_ones_are_told_what_is_stored(opened):
    index = opened(encoder := Reader())
    found = index.search("lid", instruction=ASKED).verdict
    assert (found, index.search("lid").verdict) == (index.teaching.verdict(ASKED), None)
    encoder.asked.clear()
    assert index.teaching.judge(ASKED) == found
    told = index.search("lid", instruction=ASKED)
    assert (told.verdict, REFERENCES[0] in encoder.asked) == (found, False)
    assert told.to_json()["verdict"] == json.loads(json.dumps(found.to_json()))
    assert told.to_json()["verdict"]["sentence"] == "This model follows this question."


@pytest.mark.usefixtures("unjudged")
def test_what_progress_raises_ends_the_judging_and_stores_nothing(opened):
    index = opened(Reader())
    index.search("lid", instruction=ASKED)

    def stop(report):
        assert report.judging
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.teaching.judge(ASKED, progress=stop)
    assert index.teaching.verdict(ASKED) is None


@pytest.mark.usefixtures("unjudged")
def test_one_question_is_judged_at_a_time_and_none_twice(opened):
    reached, go, ended = threading.Event(), threading.Event(), []

    class Slow(Reader):
        def encode_views(self, texts, instructions, **options):
            if REFERENCES[0] in instructions:
                reached.set()
                assert go.wait(180)
            return super().encode_views(texts, instructions, **options)

    index = opened(slow := Slow())
    for asked in (ASKED, MOOD_ASKED):
        index.search("lid", instruction=asked)

    def judged(asked):
        ended.append((asked, index.teaching.judge(asked).level))

    def stopped(report):
        raise KeyboardInterrupt

    threads = [threading.Thread(target=judged, args=(ASKED,)) for _ in range(2)]
    for one in threads:
        one.start()
    assert reached.wait(180)
    with pytest.raises(KeyboardInterrupt):  # who waits can stop
        index.teaching.judge(MOOD_ASKED, progress=stopped)
    assert slow.asked.count(REFERENCES[0]) == 0
    go.set()
    for one in threads:
        one.join(180)
    assert ended == [(ASKED, "followed")] * 2
    assert slow.asked.count(REFERENCES[0]) == 1


def test_groups_that_texts_fall_into_without_the_question_are_called_so(tmp_path):
    with Index(tmp_path / "index", encoder=Deaf(), plain=Topical()) as index:
        index.add(documents())
        made = index.cluster(ASKED, k=len(PRODUCTS))
        assert (made.resembles.instruction, made.resembles.agreement) == ("", pytest.approx(1, abs=0.05))
        assert made.division.startswith("Without the question the texts fall into nearly the same groups (agreement ")
        index.clusterings.save("mine", made)
        saved = index.clusterings.get("mine")
        assert saved.resembles.sentence == made.division == saved.division
        assert saved.to_json()["resembles"]["instruction"] == ""
        assert index.cluster("").resembles is None


class ByFault(Plain):
    """Knows the fault of a text."""

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        rows = np.eye(26, dtype=np.float32)[[next((FAULTS.index(f) for f in FAULTS if f in text), 9) for text in texts]]
        return [Encoded(rows, [[] for _ in texts]) for _ in instructions]


def test_groups_that_texts_fall_into_under_another_question_are_called_so(tmp_path):
    with Index(tmp_path / "index", encoder=Deaf(), plain=ByFault()) as index:
        index.add(documents())
        assert index.cluster(ASKED, k=len(PRODUCTS)).resembles is None
        second = index.cluster(MOOD_ASKED, k=len(PRODUCTS))
        assert second.resembles.instruction == ASKED
        assert second.division.startswith(f"Asked “{ASKED}”, the model makes nearly the same groups")
        assert index.cluster(ASKED, k=len(PRODUCTS)).resembles.instruction == MOOD_ASKED
        assert index.cluster(MOOD_ASKED, k=1).resembles is None


def test_groups_of_a_question_that_is_followed_are_compared_with_none(opened):
    index = opened(Reader())
    index.cluster("Which product is it?", k=len(PRODUCTS))
    assert index.cluster("Which product?", k=len(PRODUCTS)).verdict is not None
    sure = index.cluster(ASKED, k=len(FAULTS))
    assert (sure.verdict.level, sure.resembles) == ("followed", None)


def test_clusters_of_a_question_that_is_not_followed_are_called_what_they_are(opened):
    index = opened(Deaf())
    two = index.cluster(ASKED)
    assert two.verdict.level == "not followed"
    assert two.caution.startswith(f"{two.verdict.sentence} {two.division}")
    given = replace(index.cluster(ASKED, k=2), resembles=None)
    assert given.division == "These are groups of similar texts; they need not answer the question."
    unclear = replace(given, verdict=replace(given.verdict, level="unclear"))
    assert unclear.division.startswith("Read some texts of each group before you use it")
    assert given.to_json()["resembles"] is None
    sorted_ = index.cluster(ASKED, into=["lid", "spout"])
    assert sorted_.division == "Texts are in the categories whose names they resemble; these need not be their answers."
    assert given.to_json()["caution"] == given.caution
    assert given.to_json()["verdict"]["level"] == "not followed"
    for other in (replace(given, verdict=None), index.cluster("")):  # nothing but whether they hold
        assert other.division == ""
        assert other.caution == other.doubts


def test_a_verdict_survives_json():
    verdict = Verdict(ASKED, "unclear", 0.5, 40, [("lid", 3)], True)
    assert verdict_of(json.loads(json.dumps(verdict.to_json()))) == verdict
    assert verdict.sentence.endswith(
        "Word the question differently, teach it with examples, or let a language model read the texts."
    )
    for spoiled in ({"level": "yes"}, {"answers": [1]}, {"chance": None}):
        with pytest.raises(ValueError, match="no "):
            verdict_of({**verdict.to_json(), **spoiled})


def test_what_ships_is_read_and_names_its_model():
    assert len(MEASURED.fingerprint) == 64
    assert 0 < MEASURED.not_followed < MEASURED.followed < 1
    assert measured_of({**shipped(), "bias": 1.0}).version != MEASURED.version


def test_verdicts_by_another_rule_are_made_anew(monkeypatch):
    monkeypatch.setattr("retriever.index.verdicts.measured.RULE", [0.5])
    assert measured_of(shipped()).version != MEASURED.version


def shipped():
    from importlib import resources

    return json.loads(resources.files("retriever.index.verdicts").joinpath("measured.json").read_text())


def test_a_verdict_is_the_same_whatever_was_searched_for_first(opened):
    whole = opened(Reader(), instructions=[ASKED]).teaching.verdict(ASKED)
    index = opened(Reader())
    index.search("lid", k=3, instruction=ASKED)
    index.upkeep.complete([ASKED], ids=["00", "01", "02"])
    assert index.teaching.judge(ASKED) == whole
    index.upkeep.complete([ASKED])
    assert not index.teaching.wants_verdict(ASKED)
    assert index.teaching.diagnose(ASKED).verdict == whole


# Its arithmetic, by hand.


SQUARE = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
SWAPPED = SQUARE[[0, 2, 1, 3]]


def test_likeness_by_hand():
    one, other = arithmetic.pair_cosines(SQUARE), arithmetic.pair_cosines(SWAPPED)
    assert arithmetic.likeness(one, arithmetic.pair_cosines(SQUARE[:, ::-1])) == pytest.approx(1)  # turned, all alike
    # Opposite pairs are 0-2 and 1-3, then 0-1 and 2-3: cosines (0, -1, 0, 0, -1, 0) against (-1, 0, 0, 0, 0, -1).
    assert arithmetic.likeness(one, other) == pytest.approx(-0.5)
    assert arithmetic.likeness(one, np.ones((4, 4))) == 0
    assert arithmetic.likeness(np.ones((4, 4)), np.ones((4, 4))) == 1


@pytest.mark.parametrize("name", ["pretrained:reader", "reader"])
def test_a_verdict_is_doubted_in_another_language_and_back_in_english_without_a_text_being_read(opened, name):
    encoder = Reader(name)
    index = opened(encoder, instructions=[ASKED])

    def spoken(code):
        index.add(documents(), options=IndexingOptions(language=code))
        (view,) = [view for view in index.views() if view.instruction == ASKED]
        return view.verdict.level, view.verdict.language

    encoder.asked.clear()
    doubted = ("unclear", "French") if name.startswith("pretrained:") else ("followed", "")
    assert [spoken("en"), spoken("fr"), spoken("en")] == [("followed", ""), doubted, ("followed", "")]
    assert encoder.asked == []
