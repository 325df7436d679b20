"""How much language models are asked at most: of a question altogether, of a reading, and of a day."""

from types import SimpleNamespace

import answer_fakes
import pytest
from answer_fakes import NAME
from asking_index import TEXTS, WHO, made, opened, search, words
from index_fakes import MOOD

from retriever.core.errors import ReadingLimitError, UsageError
from retriever.core.requests import SearchOptions
from retriever.index.asking import asker, limits
from retriever.index.asking.limits import ReadingLimits
from retriever.store import asking
from retriever.workspace import limited

TOKENS = 3  # of a text


@pytest.fixture
def read_again(path, reader):
    """Open the index anew, have it read within limits, and return how many texts were sent since."""
    with made(path) as index:
        for question in (WHO, MOOD):
            index.teaching.read_by(question, NAME)

    def read(question=WHO, **most):
        before = len(reader.asked)
        with opened(path, limits=ReadingLimits(**most)) as index:
            index.teaching.read(question)
            sent = len(reader.asked) - before
            assert index.teaching.spent.texts == sent
            return sent

    return read


def spending(path):
    """Return the texts and tokens that were sent today."""
    with opened(path) as index:
        return index._opened.store.spending.today()


def test_a_limit_of_texts_is_a_ceiling_over_all_that_a_question_has_whenever_it_was_asked(read_again, path):
    assert [read_again(texts=5), read_again(texts=5), read_again(texts=8), read_again(MOOD, texts=2)] == [5, 0, 3, 2]
    with opened(path, limits=ReadingLimits(texts=10)) as index:
        search(index, k=20)
        search(index, "lamp", k=20)
        assert index.teaching.spent.texts == 2
        index.cluster(WHO, k=2, read="all")
        assert (index.teaching.spent.texts, len(index.teaching.answers(WHO))) == (2, 10)
    assert [read_again(texts=0), read_again()] == [0, len(TEXTS) - 10]


def test_refused_texts_count_under_a_limit_of_texts_and_given_answers_do_not(read_again, reader, path):
    with opened(path) as index:
        index.teaching.give_answers(WHO, {"e": "a toy fan", "f": "somebody"})
    reader.silent = set(TEXTS[:2])
    with opened(path, limits=ReadingLimits(texts=4)) as index:
        index.teaching.read(WHO)
        assert (index.teaching.spent.unread, len(index.teaching.answers(WHO))) == (len(TEXTS) - 6, 4)
    assert reader.asked == TEXTS[:4]
    assert read_again(texts=4) == 0


def test_a_limit_of_tokens_is_of_one_opening(read_again, path):
    assert [read_again(tokens=4 * TOKENS + 1), read_again(tokens=TOKENS), read_again(tokens=TOKENS - 1)] == [4, 1, 0]
    assert spending(path) == (5, 5 * TOKENS)


def test_when_the_minutes_are_over_what_was_answered_stays(read_again, reader, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 60.0 * len(reader.asked), sleep=None)
    for module in (asker, limits, answer_fakes):
        monkeypatch.setattr(module, "time", clock)
    assert [read_again(minutes=3), read_again(minutes=3), read_again(minutes=0)] == [3, 3, 0]


@pytest.mark.parametrize("day", [{"day_texts": 5}, {"day_tokens": 5 * TOKENS}])
def test_a_day_holds_for_all_questions_and_openings_and_the_next_day_has_its_own(read_again, path, monkeypatch, day):
    monkeypatch.setattr(asking, "utc_now", lambda: "2026-01-30T23:59:59Z")
    assert [read_again(texts=3), read_again(**day), read_again(**day), read_again(MOOD, **day)] == [3, 2, 0, 0]
    assert spending(path) == (5, 5 * TOKENS)
    monkeypatch.setattr(asking, "utc_now", lambda: "2026-01-31T00:00:01Z")
    assert spending(path) == (0, 0)
    assert [read_again(MOOD, **day), read_again(**day)] == [5, 0]
    with opened(path) as index:
        assert index._opened.store.spending.total() == (10, 10 * TOKENS)


@pytest.mark.parametrize("failing", ["error", "stop_after"])
def test_what_was_not_sent_does_not_count_for_the_day(read_again, reader, path, failing):
    reader.error_at = TEXTS[4]
    setattr(reader, failing, {"error": RuntimeError("broken"), "stop_after": 4}[failing])
    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        read_again()
    assert spending(path) == (4, 4 * TOKENS)


def test_readings_that_share_an_index_have_limits_of_their_own_and_the_day_together(path, reader):
    with made(path) as index:
        index.teaching.read_by(WHO, NAME)
        one = limited(index, ReadingLimits(texts=4, day_texts=6))
        two = limited(index, ReadingLimits(texts=8, day_texts=6))
        for each in (one, two):
            each.teaching.read(WHO)
        assert [each.teaching.spent.texts for each in (one, two, index)] == [4, 2, 0]
        assert [each.teaching.spent.unread for each in (one, two, index)] == [16, 14, 0]


@pytest.mark.parametrize(
    ("most", "sent"),
    [({"texts": 4}, 4), ({"tokens": 4 * TOKENS}, 4), ({"minutes": 0}, 0), ({"day_texts": 4}, 4)],
)
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_search_at_a_limit_gives_stored_answers_says_so_and_has_not_settled(path, reader, most, sent, rounds):
    options = SearchOptions(costly_texts=5, costly_rounds=rounds)
    with made(path) as index:
        index.teaching.read_by(WHO, NAME)
        index.teaching.give_answers(WHO, {"a": "toy maker"})
    with opened(path, limits=ReadingLimits(**most), search_options=options) as index:
        for _ in range(2):
            result = search(index, k=20)
            assert isinstance(result.reader_fault, ReadingLimitError)
            assert (result.final, result.settling.settled) == (True, False)
            known = index.teaching.answers(WHO)
            assert {id: said for id, (said,) in ((id, said) for id, said in words(result).items() if said)} == known
            if "tokens" not in most:
                assert len(reader.asked) == sent
            assert len(known) == len(reader.asked) + 1
    asked = len(reader.asked)
    with opened(path, search_options=options) as index:
        assert search(index, k=20).reader_fault is None
    assert len(reader.asked) > asked


def test_where_no_text_may_be_sent_no_probe_is_either(path, reader):
    with made(path, limits=ReadingLimits(texts=0)) as index:
        with pytest.raises(ReadingLimitError, match="no probe"):
            index.teaching.read_by(WHO, NAME)
        assert reader.probes == 0


def test_a_limit_below_nothing_is_refused():
    with pytest.raises(UsageError, match="below 0"):
        ReadingLimits(texts=-1)
