"""The base encoder's part beside the instruction encoder, under an instruction."""

import numpy as np
import pytest
from index_fakes import DIM, KEYWORDS, MOOD, PRODUCT, FakeEncoder, documents

from retriever.core.requests import SearchOptions, SearchRequest
from retriever.core.types import Document
from retriever.core.verdicts import Verdict
from retriever.index.search import rounds
from retriever.index.search.beside import tells_what_to_find
from retriever.index.search.calibration import Calibration
from retriever.index.verdicts import judging
from retriever.index.verdicts.measured import Measured
from retriever.index.verdicts.stored import Judgement, store_judgement
from retriever.workspace import Index

WORTH = SearchOptions().plain_weight  # of the base encoder's cosine, where both views have few vectors
UNFOLLOWED = SearchOptions().unfollowed_plain_weight  # likewise, where the question is not followed
FIND = "Find reviews that complain about the toy they got."
CORPUS = documents("toy happy", "toy sad", "lamp happy", "lamp sad", "rug happy", "rug sad")


class Question(FakeEncoder):
    """Looks at moods, whatever the instruction."""

    def _row(self, text, keywords):
        return super()._row(text, KEYWORDS[MOOD])

    def encode_views(self, texts, instructions, *, words=0, on_tokens=None):
        known = [MOOD if one == FIND else one for one in instructions]
        return super().encode_views(texts, known, words=words, on_tokens=on_tokens)


@pytest.fixture
def question():
    return Question("question")


@pytest.fixture
def plain():
    return FakeEncoder("plain")


@pytest.fixture
def two(path, question, plain):
    with Index(path, encoder=question, plain=plain) as index:
        yield index


def order(result):
    return [hit.document.text for hit in result.hits]


def test_among_texts_with_one_answer_those_come_first_that_say_what_the_query_says(two):
    two.add(CORPUS, instructions=[MOOD])
    result = two.search("lamp sad", instruction=MOOD, mode="dense")
    assert result.path == "complete"
    assert order(result) == ["lamp sad", "toy sad", "rug sad", "lamp happy", "toy happy", "rug happy"]
    far, other = 1 - 2 / 8, 1 - 1 / 8  # of two moods or products; of one that is not said
    assert [hit.score for hit in result.hits] == [1, 1, 1, far, far, far]
    wanted = [1 + WORTH, 1 + WORTH * far, 1 + WORTH * far, far + WORTH, far + WORTH * far, far + WORTH * far]
    assert [hit.fused for hit in result.hits] == pytest.approx(wanted, abs=1e-6)
    assert two.search("sad", instruction=MOOD, mode="dense").hits[0].fused == pytest.approx(1 + WORTH * other)


def test_words_have_their_say_beside_both(two):
    two.add(CORPUS, instructions=[MOOD])
    hybrid, dense = (two.search("lamp sad", instruction=MOOD, mode=mode) for mode in ("hybrid", "dense"))
    lexical = {hit.document.id: hit.fused for hit in two.search("lamp sad", mode="lexical").hits}
    point = SearchOptions().word_weight * 0.1
    wanted = {hit.document.id: hit.fused + point * lexical.get(hit.document.id, 0) for hit in dense.hits}
    assert {hit.document.id: hit.fused for hit in hybrid.hits} == pytest.approx(wanted, abs=1e-6)


def judged(index, level, other=False):
    """Store a verdict of a level on the question."""
    (view,) = [view for view in index._opened.store.views.all() if view.key.instruction]
    store_judgement(index._opened.store, view.view_id, Judgement(Verdict(MOOD, level, 0.5, 40, [], True, other), {}))


@pytest.mark.parametrize(
    ("level", "other", "worth"),
    [
        ("followed", False, WORTH),
        ("unclear", False, WORTH),
        ("unclear", True, UNFOLLOWED),
        ("not followed", False, UNFOLLOWED),
    ],
)
def test_the_plain_reader_and_words_count_more_where_the_question_is_not_answered(two, level, other, worth):
    two.add(CORPUS, instructions=[MOOD])
    judged(two, level, other)
    lexical = {hit.document.id: hit.fused for hit in two.search("lamp sad", mode="lexical").hits}
    dense = {hit.document.id: hit.fused for hit in two.search("lamp sad", instruction=MOOD, mode="dense").hits}
    far = 1 - 2 / 8
    assert dense["d"] == pytest.approx(1 + worth)  # lamp sad
    assert dense["c"] == pytest.approx(far + worth)  # lamp happy
    point = SearchOptions().word_weight * 0.1 * max(1.0, worth)
    hybrid = {hit.document.id: hit.fused for hit in two.search("lamp sad", instruction=MOOD, mode="hybrid").hits}
    assert hybrid == pytest.approx({id: score + point * lexical.get(id, 0) for id, score in dense.items()}, abs=1e-6)


def test_a_search_judges_the_question_before_its_last_answer_and_once(path, question, plain, monkeypatch):
    judge, levels = judging.judge_view, []

    def judging_view(store, encoders, view, **options):
        levels.append(view.key.instruction)
        return judge(store, encoders, view, **options)

    monkeypatch.setattr(rounds, "judge_view", judging_view)
    monkeypatch.setattr(Measured, "chance", lambda self, features: 0.01)
    texts = [
        f"{product} {mood} {row}" for row in range(8) for product in KEYWORDS[PRODUCT] for mood in ("sad", "happy")
    ]
    with Index(path, encoder=question, plain=plain, search_options=SearchOptions(token_budget=400)) as index:
        index.add([Document(f"{row:02}", text) for row, text in enumerate(texts)])
        first, *_, last = index.search_progressively(SearchRequest("lamp sad", instruction=MOOD))
        assert (first.verdict, last.verdict.level) == (None, "not followed")
        again = index.search("lamp sad", instruction=MOOD)
        assert [(hit.document.id, hit.fused) for hit in again.hits] == [
            (hit.document.id, hit.fused) for hit in last.hits
        ]
        assert levels == [MOOD]


def test_cosines_are_weighed_in_spreads_of_their_own_view(two):
    texts = [f"{product} {mood}" for product in ("toy", "lamp", "rug toy lamp mug", "sofa") for mood in KEYWORDS[MOOD]]
    two.add([Document(f"{row:02}", text) for row, text in enumerate(texts)], instructions=[MOOD])
    judged(two, "followed")
    spreads = [Calibration(two._opened.store).spread(view.view_id) for view in two._opened.store.views.all()]
    assert spreads[0] != pytest.approx(spreads[1])
    hits = two.search("toy sad", instruction=MOOD, mode="dense", k=len(texts)).hits
    alike = {hit.document.text: hit.fused for hit in hits}
    step = WORTH * spreads[1] / spreads[0] * 2 / 8
    assert alike["toy sad"] - alike["lamp sad"] == pytest.approx(step, abs=1e-6)


def test_a_text_that_only_one_of_the_rankings_holds_has_its_cosine_in_both(path, question, plain):
    options = SearchOptions(rounds=1, candidates=1)
    with Index(path, encoder=question, plain=plain, search_options=options) as index:
        index.add(CORPUS, instructions=[MOOD])
        wide = index.search("lamp sad", instruction=MOOD, k=len(CORPUS), mode="dense")
        every = {hit.document.id: hit.fused for hit in wide.hits}
        (hit,) = index.search("lamp sad", instruction=MOOD, k=1, mode="dense").hits
        assert (hit.document.text, hit.fused) == ("lamp sad", pytest.approx(every[hit.document.id]))


def test_a_weight_of_nothing_leaves_the_question_reader_alone(path, question, plain):
    with Index(path, encoder=question, plain=plain, search_options=SearchOptions(plain_weight=0)) as index:
        index.add(CORPUS, instructions=[MOOD])
        hits = index.search("lamp sad", instruction=MOOD, mode="dense").hits
        assert [hit.fused for hit in hits] == [1, 1, 1, 0.75, 0.75, 0.75]


@pytest.mark.usefixtures("unjudged")
def test_a_lazy_search_puts_both_together_too(path, question, plain):
    options = SearchOptions(rounds=1, token_budget=60, prompt_tokens=20)
    texts = [f"{product} {mood}" for product in KEYWORDS[PRODUCT] for mood in ("sad", "happy")]
    with Index(path, encoder=question, plain=plain, search_options=options) as index:
        index.add([Document(f"{row:02}", text) for row, text in enumerate(texts)])
        result = index.search("lamp sad", instruction=MOOD, mode="dense")
        assert (result.path, result.hits[0].document.text) == ("lazy", "lamp sad")
        assert result.hits[0].fused == pytest.approx(1 + WORTH)
        unread = [hit for hit in result.hits if hit.score is None]
        assert unread
        assert all(hit.fused < 1 + WORTH for hit in unread)


def test_a_question_leaves_the_query_as_it_is_and_what_tells_what_to_find_stands_before_it(two, plain):
    two.add(CORPUS, instructions=[MOOD, FIND])
    plain.forget()
    two.search("lamp sad", instruction=MOOD)
    two.search("what people tell", instruction=FIND)
    assert plain.queries == ["lamp sad", f"{FIND} what people tell"]
    assert order(two.search("people", instruction=FIND, mode="dense"))[0].split()[0] == "toy"


def test_before_a_view_is_filled_its_first_answer_looks_for_what_is_to_be_found(two, plain):
    two.add(CORPUS)
    plain.forget()
    first, last = two.search_progressively(SearchRequest("what people tell", instruction=FIND, k=2))
    assert plain.queries == [f"{FIND} what people tell"]
    assert [set(text.split()) & {"toy"} for text in order(first)] == [{"toy"}, {"toy"}]
    assert last.path == "complete"


def test_what_resembles_a_document_is_left_to_the_question_reader(two, plain):
    two.add(CORPUS, instructions=[MOOD])
    plain.forget()
    hits = two.search(like="d", instruction=MOOD).hits
    assert ({hit.document.text.split()[1] for hit in hits[:2]}, plain.queries) == ({"sad"}, [])
    assert [hit.fused for hit in hits] == [hit.score for hit in hits]


def test_one_reader_alone_has_nothing_beside_it(path, question):
    with Index(path, encoder=question) as index:
        index.add(CORPUS, instructions=[MOOD])
        hits = index.search("lamp sad", instruction=MOOD, mode="dense").hits
        assert [hit.fused for hit in hits] == [hit.score for hit in hits]


@pytest.mark.parametrize(
    ("instruction", "tells"),
    [
        ("Find reviews that complain about the food.", True),
        ("find me all complaints about the food", True),
        ("Show only customers who were let down by the staff", True),
        ("Please get everything that finds fault with the screen.", True),
        ("Find the reviews that praise the food.", True),
        ("Find the sentiment.", False),
        ("Find out what broke.", False),
        ("List topics", False),
        ("What broke?", False),
        ("Which reviews complain about the food?", False),
        ("Tell me what the customer wants.", False),
        ("", False),
    ],
)
def test_an_instruction_that_tells_what_to_find_is_told_from_a_question(instruction, tells):
    assert tells_what_to_find(instruction) is tells


def test_what_is_added_is_the_same_whatever_else_is_asked(two):
    two.add(CORPUS, instructions=[MOOD])
    together = two.search_many([SearchRequest(query, instruction=MOOD) for query in ("lamp sad", "toy happy")])
    alone = [two.search(query, instruction=MOOD) for query in ("lamp sad", "toy happy")]
    assert [one.hits for one in together] == [one.hits for one in alone]
    assert np.isfinite([hit.fused for one in together for hit in one.hits]).all()


# `auto` where the words of a query lead astray and its meaning does not.


MEANINGS = {
    "child": {"boy", "son", "daughter"},
    "love": {"adores", "loves", "cherishes"},
    "device": {"gadget", "phone", "camera"},
    "broken": {"perished", "died", "failed", "collapsed"},
    "build": {"build", "made", "assembled"},
    "film": {"picture", "movie", "cinema"},
    "war": {"warfare", "battle", "soldiers"},
}
CASES = {
    "my little boy adores it": ("my son loves {}", "a little too {}", "my daughter asked for {}"),
    "the gadget perished quickly": ("this phone died after {}", "arrived quickly in {}", "a camera for {}"),
    "poor build collapsed": ("badly made and failed in {}", "poor value for {}", "assembled within {}"),
    "motion picture about warfare": ("a movie of soldiers and {}", "slow motion cable {}", "an evening of cinema {}"),
}
K = 10


class Understanding(FakeEncoder):
    """Sees which meanings a text has, whatever words it uses for them."""

    def _row(self, text, keywords):
        words = set(text.split())
        held = [bool(words & said) for said in MEANINGS.values()]
        return [0.25 if one else -0.25 for one in [*held, *[False] * (DIM - len(held))]]


@pytest.fixture
def encoder():
    return Understanding()


@pytest.mark.parametrize("query", CASES)
def test_auto_finds_what_is_said_in_other_words(index, query):
    right, astray, between = CASES[query]
    index.add(
        [
            *[Document(f"right {row}", right.format(f"day {row}")) for row in range(4)],
            *[Document(f"astray {row:02}", astray.format(f"day {row}")) for row in range(2 * K)],
            *[Document(f"between {row:03}", between.format(f"day {row}")) for row in range(120)],
        ]
    )
    wanted = {f"right {row}" for row in range(4)}

    def found(**options):
        return {hit.document.id for hit in index.search(query, k=K, **options).hits} & wanted

    assert (found(mode="lexical"), found(mode="dense")) == (set(), wanted)
    assert found() == wanted


def test_auto_searches_by_both_and_for_what_resembles_a_document_by_vectors(index):
    index.add([Document("a", "phone"), Document("b", "phone died"), Document("c", "movie")])
    assert index.search("phone", k=1).mode == index.search("nothing like it").mode == "hybrid"
    assert index.search("phone", k=1, instruction=PRODUCT).mode == "hybrid"
    assert index.search(like="a").mode == "dense"
