"""Groups of a question whose language model cannot be asked, over what is stored."""

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.core.errors import ConsentError, EncoderError
from retriever.core.types import Document
from retriever.index.asking.limits import ReadingLimits
from retriever.workspace import Index, limited

WHO = "Which product is it about?"
KINDS = KEYWORDS[PRODUCT][:3]
TEXTS = [f"{KINDS[row % 3]} is what I bought {row}" for row in range(300)]
AWAY = EncoderError("The model is away.", hint="Wait.")


@pytest.fixture
def reader(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVER_CONFIG", str(tmp_path / "config"))
    return loads(monkeypatch, FakeReader(KINDS))


@pytest.fixture
def index(tmp_path, reader):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as opened:
        opened.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        opened.teaching.read_by(WHO, NAME)
        yield opened


@pytest.fixture
def order(tmp_path, reader):
    with Index(tmp_path / "other", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as other:
        other.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        other.teaching.read_by(WHO, NAME)
        other.cluster(WHO, k=3, read="all")
    read, reader.asked = reader.asked, []
    return read


def test_a_reading_that_fails_on_the_way_leaves_clusters_of_what_is_stored_that_say_why(order, index, reader):
    reader.error, reader.error_at = AWAY, order[120]
    found = index.cluster(WHO, k=3, read=200)
    assert reader.asked == order[:120]
    assert (found.sampled.read, found.sampled.drawn, found.sampled.missing) == (120, 120, 0)
    assert found.sampled.fault == str(AWAY)
    assert found.sampled.sentence.endswith(f"The reader cannot be asked: {AWAY}")
    assert found.to_json()["sampled"]["fault"] == str(AWAY)
    reader.error = None
    again = index.cluster(WHO, k=3, read=200).sampled
    assert (again.read, again.drawn, again.fault) == (200, 200, "")
    assert again.to_json()["fault"] is None
    assert reader.asked == order[:200]


def test_where_nothing_is_answered_the_error_is_raised(order, index, reader):
    reader.error, reader.error_at = AWAY, order[0]
    for asked in ({}, {"into": KINDS}):
        with pytest.raises(EncoderError, match="away"):
            index.cluster(WHO, **asked)


def test_a_text_of_the_order_that_was_passed_over_ends_the_sample(order, index, reader):
    answer = reader.answer

    def hurried(texts, question, *, keep, **options):
        def all_but_one(answers):
            keep([each for each in answers if texts[each.row] != order[50]])

        return answer(texts, question, keep=all_but_one, **options)

    reader.answer = hurried
    found = index.cluster(WHO, k=3, read=120).sampled
    assert (found.read, found.drawn, found.missing) == (119, 50, 0)
    reader.answer = answer
    found = index.cluster(WHO, k=3, read=120).sampled
    assert (found.read, found.drawn) == (120, 120)


def test_a_limit_is_no_fault_and_the_first_of_the_order_are_read(order, index, reader):
    found = limited(index, ReadingLimits(texts=110)).cluster(WHO, k=3, read=200).sampled
    assert reader.asked == order[:110]
    assert (found.read, found.drawn, found.missing, found.fault) == (110, 110, 0, "")


def test_without_consent_stored_answers_are_clustered_and_sorted_and_the_host_is_named(index, reader, monkeypatch):
    reader.host = "api.example.com"
    index.close()
    with pytest.raises(ConsentError, match="would be sent to"):
        index.cluster(WHO, k=3, read=10)
    index.teaching.allow("api.example.com")
    index.teaching.read_by(WHO, NAME)
    index.cluster(WHO, k=3, read=20)
    monkeypatch.setenv("RETRIEVER_CONFIG", f"{index.path}-nobody")
    reader.asked.clear()
    for found in (index.cluster(WHO, k=3, read=30), index.cluster(WHO, into=["a kettle", "lamps"], read=30)):
        assert found.sampled.read == 20
        assert "would be sent to api.example.com" in found.sampled.fault
    assert "would be sent to api.example.com" in found.fault  # answers are not sent either
    assert reader.asked == []
