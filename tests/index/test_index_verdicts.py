import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from retriever.clusters.caution import caution, division
from retriever.core.encoder import Encoder, EncoderSpec
from retriever.core.similarity import normalise
from retriever.core.types import Document, Encoded
from retriever.core.verdicts import Verdict, verdict_of
from retriever.core.whole_words import fragments
from retriever.index.verdicts import arithmetic, judging
from retriever.index.verdicts.measured import MEASURED, WORDING, Measured, Weight, measured_of
from retriever.index.verdicts.reading import NEGATED, PARAPHRASE, REFERENCES, Heard, meanings
from retriever.workspace import Index

ASKED = "What broke?"
MOOD_ASKED = "How do they feel?"
PRODUCTS = ("kettle", "lamp", "toy", "drone")
FAULTS = ("handle", "screen", "plug", "wheel", "lid")
MOODS = ("love", "hate", "calm")
TEXTS = [
    f"{mood} my {product} {number}, the {fault} came off"
    for number, (product, fault, mood) in enumerate(
        (product, fault, mood) for product in PRODUCTS for fault in FAULTS for mood in MOODS
    )
]  # 60 texts, all combinations


class Reader(Encoder):
    """Answers with the words of a text that belong to what it takes the question for, as coordinates and in words."""

    spec = EncoderSpec("r" * 64, 16, name="reader")

    def __init__(self, name="reader"):
        self.spec = replace(self.spec, fingerprint=name.ljust(64, "0"), name=name)
        self.asked = []

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        self.asked += list(instructions)
        found = []
        for instruction in instructions:
            known = self.answers_to(instruction)
            said = [[word for word in known if word in text] for text in texts]
            rows = [[float(word in one) for word in known] for one in said]
            rows = np.pad(np.array(rows, dtype=float), ((0, 0), (0, self.dim - len(known))))
            noise = [np.random.default_rng([len(instruction), *text.encode()]).normal(size=self.dim) for text in texts]
            found.append(Encoded(normalise(rows + 0.03 * np.array(noise)), [one[:words] for one in said]))
        for text in texts if on_tokens else ():
            on_tokens(1 + len(text) // 4)
        return found

    def answers_to(self, instruction):
        """Faults where they are asked for, moods where feelings are, else products; negated, what else there is."""
        if ASKED in instruction:
            return PRODUCTS if instruction == NEGATED.format(question=ASKED) else FAULTS
        return MOODS if instruction == REFERENCES[1] else PRODUCTS


class Deaf(Reader):
    """Answers every question with products, as the shipped model once did when asked for reasons."""

    def answers_to(self, instruction):
        return PRODUCTS


class Plain(Encoder):
    """Counts letters: equal words are equal, and nothing more is known of what they mean."""

    spec = EncoderSpec("p" * 64, 26, name="plain")

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        rows = [[text.lower().count(chr(ord("a") + place)) for place in range(26)] for text in texts]
        return [Encoded(normalise(rows), [[] for _ in texts]) for _ in instructions]


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


def test_an_encoder_that_answers_is_said_to_follow_the_question():
    found = judging.judge(Reader(), Plain(), TEXTS, ASKED).verdict
    assert found.level == "followed"
    assert found.answers == [(fault, 12) for fault in sorted(FAULTS, key=FAULTS.index)]
    assert (found.texts, found.measured, found.warns) == (60, False, False)
    assert found.sentence == "This model follows this question."


def test_an_encoder_that_answers_something_else_is_said_to_hardly_follow_it():
    found = judging.judge(Deaf(), Plain(), TEXTS, ASKED).verdict
    assert found.level == "hardly"
    assert [word for word, _ in found.answers] == list(PRODUCTS)
    assert found.sentence == (
        "This model hardly follows this question; teach it with examples: "
        "retriever teach --instruction 'What broke?' EXAMPLES.jsonl"
    )


class Brief(Reader):
    """Answers with a token that begins a word of the texts."""

    def answers_to(self, instruction):
        return ("disappro",)


def test_a_verdict_tells_whole_words():
    assert "disappro" in fragments()
    texts = [f"{text}, and I disapprove" for text in TEXTS]
    found = judging.judge(Brief(), Plain(), texts, ASKED).verdict
    assert [word for word, _ in found.answers] == ["disapprove"]


def test_answers_to_the_question_are_likelier_followed_without_a_plain_reader_too():
    follows, deaf = (judging.judge(one, None, TEXTS, ASKED).verdict.chance for one in (Reader(), Deaf()))
    assert follows > deaf


def test_a_view_goes_with_its_answers_where_texts_that_say_the_same_lie_together():
    views = np.eye(4)[[0, 0, 1, 1, 2, 2]]
    same, other = np.eye(6)[[3, 3, 1, 1, 0, 0]], np.eye(6)[[3, 1, 0, 3, 1, 0]]
    assert arithmetic.near(views, same) == pytest.approx(1)
    assert arithmetic.near(views, other) < 0.2
    assert arithmetic.near(views, np.zeros((6, 4))) == 0.0  # nothing was answered


def test_answers_mean_what_their_words_do_on_average():
    plain = Plain()
    found = meanings(plain, Heard(np.eye(3), [["ab", "cd"], [], ["ab"]]))
    both = plain.encode(["ab", "cd"])
    assert np.allclose(found, [both.mean(axis=0), np.zeros(26), both[0]])
    assert not meanings(plain, Heard(np.eye(2), [[], []])).any()


def test_what_kind_of_question_it_is_counts_by_the_plain_reader_it_was_measured_with():
    wording = np.zeros(26)
    wording[ord("b") - ord("a")] = 3.0  # questions with a b are followed
    weighed = replace(
        MEASURED, weights={**MEASURED.weights, WORDING: Weight(1.0, 0.0, 1.0)}, plain="p" * 64, wording=tuple(wording)
    )
    found = judging.judge(Reader(), Plain(), TEXTS, ASKED, measured=weighed)
    counts = Plain().encode([ASKED])[0]
    assert found.features[WORDING] == pytest.approx(3 * counts[1])
    unweighed = judging.judge(Reader(), Plain(), TEXTS, ASKED, measured=replace(weighed, plain="q" * 64))
    assert WORDING not in unweighed.features
    assert found.verdict.chance > unweighed.verdict.chance
    assert WORDING not in judging.judge(Reader(), None, TEXTS, ASKED, measured=weighed).features


def test_the_chance_by_hand():
    measured = Measured("v", "f", {"a": Weight(2.0, 1.0, 0.5), "b": Weight(-1.0, 0.0, 1.0)}, 0.5, 0.7, 0.3)
    assert measured.chance({"a": 1.0, "b": 0.5}) == 0.5  # 0.5 + 0 - 0.5
    assert measured.chance({"a": 1.5}) == pytest.approx(1 / (1 + np.exp(-2.5)))  # b says nothing
    assert [measured.level(one) for one in (0.7, 0.69, 0.31, 0.3)] == ["followed", "unclear", "unclear", "hardly"]


def test_a_view_is_judged_as_it_fills_and_never_again(opened):
    encoder = Reader()
    index = opened(encoder, instructions=[ASKED])
    found = index.verdict(ASKED)
    assert (found.level, found.texts) == ("followed", judging.TEXTS)
    assert [one.verdict for one in index.views()] == [None, found]
    encoder.asked.clear()
    assert index.judge(ASKED) == found
    assert index.cluster(ASKED, k=5).verdict == found
    assert index.search("lid", instruction=ASKED).verdict == found
    assert not set(encoder.asked) & {*REFERENCES, PARAPHRASE.format(question=ASKED)}


def test_a_verdict_outlives_the_index_object_and_goes_with_the_view(opened, tmp_path):
    index = opened(Reader(), instructions=[ASKED])
    found = index.verdict(ASKED)
    index.close()
    with Index(tmp_path / "index0", encoder=Deaf("reader"), plain=Plain()) as again:
        assert again.verdict(ASKED) == found  # no model was asked
        again.drop_views([ASKED])
        assert again.verdict(ASKED) is None


def test_too_few_texts_give_no_verdict(opened):
    index = opened(Reader(), count=judging.LEAST_TEXTS - 1, instructions=[ASKED])
    assert (index.verdict(ASKED), index.judge(ASKED), index.judge(""), index.judge("never asked")) == (None,) * 4
    assert not index.wants_verdict(ASKED)
    index.add(documents(judging.LEAST_TEXTS))
    assert index.verdict(ASKED).texts == judging.LEAST_TEXTS


def test_a_verdict_by_another_measurement_is_found_anew(opened, monkeypatch):
    index = opened(Reader(), instructions=[ASKED])
    newer = replace(MEASURED, version="newer")
    monkeypatch.setattr("retriever.index.verdicts.stored.MEASURED", newer)
    assert index.verdict(ASKED) is None
    assert index.judge(ASKED) == index.verdict(ASKED) is not None


def test_a_search_is_told_what_is_stored_and_looks_into_nothing(opened):
    index = opened(Reader())
    assert index.search("lid", instruction=ASKED).verdict is None
    assert index.search("lid").verdict is None
    found = index.judge(ASKED)
    told = index.search("lid", instruction=ASKED)
    assert told.verdict == found
    assert told.to_json()["verdict"] == json.loads(json.dumps(found.to_json()))
    assert told.to_json()["verdict"]["sentence"] == "This model follows this question."


def test_what_progress_raises_ends_the_judging_and_stores_nothing(opened):
    index = opened(Reader())
    index.search("lid", instruction=ASKED)

    def stop(report):
        assert report.judging
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.judge(ASKED, progress=stop)
    assert index.verdict(ASKED) is None


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
        ended.append((asked, index.judge(asked).level))

    def stopped(report):
        raise KeyboardInterrupt

    threads = [threading.Thread(target=judged, args=(ASKED,)) for _ in range(2)]
    for one in threads:
        one.start()
    assert reached.wait(180)
    with pytest.raises(KeyboardInterrupt):  # who waits can stop
        index.judge(MOOD_ASKED, progress=stopped)
    assert slow.asked.count(REFERENCES[0]) == 0
    go.set()
    for one in threads:
        one.join(180)
    assert ended == [(ASKED, "followed")] * 2
    assert slow.asked.count(REFERENCES[0]) == 1


def test_clusters_of_a_question_that_is_not_followed_are_called_what_they_are(opened):
    index = opened(Deaf())
    two = index.cluster(ASKED)
    assert two.verdict.level == "hardly"
    assert caution(two).startswith(
        "These clusters are what sets the texts apart, not answers to the question. This mod"
    )
    few = replace(two, clusters=two.clusters[:2])
    assert division(few) == "These 2 clusters are what sets the texts most apart, not answers to the question."
    given = index.cluster(ASKED, k=2)
    assert division(given) == "These clusters are what sets the texts apart, not answers to the question."
    assert given.to_json()["caution"] == caution(given)
    assert given.to_json()["verdict"]["level"] == "hardly"
    assert caution(replace(given, verdict=None)) == caution(index.cluster("")) == ""


def test_a_verdict_survives_json():
    verdict = Verdict(ASKED, "unclear", 0.5, 40, [("lid", 3)], True)
    assert verdict_of(json.loads(json.dumps(verdict.to_json()))) == verdict
    assert "look twice, or teach it with examples: retriever teach --instruction" in verdict.sentence
    for spoiled in ({"level": "yes"}, {"answers": [1]}, {"chance": None}):
        with pytest.raises(ValueError, match="no "):
            verdict_of({**verdict.to_json(), **spoiled})


def test_what_ships_is_read_and_names_its_model():
    assert len(MEASURED.fingerprint) == 64
    assert 0 < MEASURED.hardly < MEASURED.followed < 1
    assert measured_of({**shipped(), "bias": 1.0}).version != MEASURED.version


def shipped():
    from importlib import resources

    return json.loads(resources.files("retriever.index.verdicts").joinpath("measured.json").read_text())
