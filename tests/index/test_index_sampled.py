"""Clusters of a question that a language model answers are made of a sample, and their shares are estimated."""

import re

import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.clusters.edit_requests import ClusterEdits
from retriever.clusters.groups import groups_of
from retriever.clusters.index_numbers import numbers_of
from retriever.clusters.report import make_report, render
from retriever.core.errors import UsageError
from retriever.core.types import Document
from retriever.index.asking.limits import ReadingLimits
from retriever.workspace import Index

WHO = "Which product is it about?"
PRODUCTS = KEYWORDS[PRODUCT][:4]
TEXTS = [f"{PRODUCTS[min(row % 10, 3)]} is what I bought {row}" for row in range(400)]
SHARES = {"knife": 0.0, "kettle": 0.1, "toy": 0.1, "lamp": 0.1} | {PRODUCTS[3]: 0.7}


@pytest.fixture
def reader(monkeypatch):
    return loads(monkeypatch, FakeReader(PRODUCTS))


@pytest.fixture
def index(tmp_path, reader):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as opened:
        opened.add(Document(f"d{row:03}", text) for row, text in enumerate(TEXTS))
        opened.teaching.read_by(WHO, NAME)
        yield opened


def label_shares(clustering):
    return {
        clustering.clusters[number].label: estimate
        for number, estimate in clustering.sampled.shares.items()
        if number >= 0
    }


def test_a_sample_is_read_and_shares_of_all_texts_are_estimated(index, reader):
    clustering = index.cluster(WHO, k=4, read=150)
    assert len(reader.asked) == len(set(reader.asked)) == 150
    sampled = clustering.sampled
    assert (sampled.reader, sampled.texts, sampled.read) == (NAME, 400, 150)
    assert sampled.drawn == 150
    assert len(clustering.material.documents) == 150
    for label, estimate in label_shares(clustering).items():
        truth = sum(text.startswith(label) for text in TEXTS) / len(TEXTS)
        if estimate.interval:
            assert estimate.interval.low <= truth <= estimate.interval.high
            assert estimate.interval.low < estimate.interval.high
    assert any(estimate.interval for estimate in label_shares(clustering).values())
    assert "150 of 400 texts were read by chat:fake" in sampled.sentence


def test_shares_follow_clusters_that_people_merge(index):
    found = index.cluster(WHO, k=4, read=150)
    index.clusterings.save("who", found)
    merged = index.clusterings.edit("who", ClusterEdits(merge=[["1", "2"]]))
    assert set(merged.sampled.shares) == {0, 2, 3, -1}
    assert merged.sampled.to_json()["shares"].keys() == {"1", "3", "4", "-1"}
    before, after = ({number: each.cases for number, each in one.sampled.shares.items()} for one in (found, merged))
    assert after == {0: before[0] + before[1], **{number: before[number] for number in (2, 3, -1)}}


def test_a_larger_budget_adds_to_what_was_read_and_the_same_reads_nothing(index, reader):
    index.cluster(WHO, k=4, read=120)
    index.cluster(WHO, k=4, read=120)
    assert len(reader.asked) == 120
    index.cluster(WHO, k=4, read=200)
    assert len(set(reader.asked)) == len(reader.asked) == 200


def test_what_searches_read_counts_and_is_not_read_again(index, reader):
    index.search("toy", instruction=WHO)
    searched = len(reader.asked)
    clustering = index.cluster(WHO, k=4, read=150)
    assert len(set(reader.asked)) == len(reader.asked) == 150
    assert searched > 0
    assert 150 - searched <= clustering.sampled.drawn < 150


def test_when_all_are_read_shares_are_exact(index, reader):
    clustering = index.cluster(WHO, k=4, read="all")
    assert len(reader.asked) == 400
    assert clustering.sampled.whole
    for label, estimate in label_shares(clustering).items():
        truth = sum(text.startswith(label) for text in TEXTS) / len(TEXTS)
        assert (estimate.interval.value, estimate.interval.low, estimate.interval.high) == (truth, truth, truth)


def test_a_text_that_the_base_view_lacks_stops_no_clustering(index):
    base = index._opened.sources.view(index._opened.sources.base)
    index._opened.store.vectors.remove_oldest(base.view_id, 1)
    assert len(index.cluster(WHO, k=4, read=150).clusters) == 4


def test_texts_that_stay_unread_are_said_and_a_limit_holds(index, reader):
    reader.silent = set(TEXTS[::2])
    clustering = index.cluster(WHO, k=4, read=150)
    assert 0 < clustering.sampled.read < 150
    path = index.path
    most = ReadingLimits(texts=157)
    with Index(path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), limits=most) as few:
        few.cluster(WHO, k=4, read="all")
        assert len(reader.asked) == 157


def test_answers_that_were_handed_in_are_clustered_as_far_as_they_reach(index, reader):
    other = "Who is it for?"
    index.teaching.give_answers(other, {f"d{row:03}": ("my little toy", "a lamp shop")[row % 2] for row in range(40)})
    clustering = index.cluster(other, k=2)
    assert reader.asked == []
    assert (clustering.sampled.reader, clustering.sampled.read, clustering.sampled.drawn) == ("given", 40, 0)
    assert all(estimate.interval is None for estimate in clustering.sampled.shares.values())
    assert {cluster.label: [str(phrase) for phrase in cluster.phrases] for cluster in clustering.clusters} == {
        "my little toy": ["my little toy (20)"],
        "a lamp shop": ["a lamp shop (20)"],
    }


def test_a_budget_of_nothing_is_refused(index):
    with pytest.raises(UsageError, match="0 texts are to be read"):
        index.cluster(WHO, read=0)


def shares(clustering):
    return {number: estimate.interval for number, estimate in clustering.sampled.shares.items()}


def new(number):
    return Document(f"new{number}", f"toy is what I bought lately {number}")


@pytest.mark.parametrize("number", range(5))
def test_a_document_more_costs_no_text(index, reader, number):
    before = index.cluster(WHO, k=4, read=120)
    index.add([new(number)])
    after = index.cluster(WHO, k=4, read=120)
    assert len(reader.asked) == 120
    assert (after.sampled.texts, after.sampled.read, after.sampled.drawn) == (401, 120, 120)
    assert shares(after).keys() == shares(before).keys()


def test_documents_that_came_below_the_threshold_are_said_and_go_first_where_there_is_room(index, reader):
    index.cluster(WHO, k=4, read=120)
    index.add([new(number) for number in range(40)])
    found = index.cluster(WHO, k=4, read=120).sampled
    assert len(reader.asked) == 120
    assert 0 < found.missing < 40
    assert f"and {found.missing} more were drawn and have no answer" in found.sentence
    index.cluster(WHO, k=4, read=120 + found.missing)
    assert all("lately" in text for text in reader.asked[120:])
    assert index.cluster(WHO, k=4, read=120 + found.missing).sampled.missing == 0


def test_a_deleted_text_is_replaced_by_the_next_of_the_order(index, reader):
    index.cluster(WHO, k=4, read=120)
    order = [*reader.asked]
    index.delete([f"d{TEXTS.index(order[3]):03}"])
    found = index.cluster(WHO, k=4, read=120).sampled
    assert (found.texts, found.read, found.drawn, len(reader.asked)) == (399, 120, 120, 121)
    reader.asked.clear()
    index.cluster(WHO, k=4, read="all")
    assert len(reader.asked) == 399 - 120


@pytest.mark.parametrize("change", ["add", "delete"])
def test_a_saved_clustering_keeps_its_shares_and_reports_when_documents_come_or_go(index, reader, change):
    index.clusterings.save("who", index.cluster(WHO, k=4, read=150))
    before = index.clusterings.get("who")
    if change == "add":
        index.add([new(number) for number in range(5)])
    else:
        index.delete([f"d{row:03}" for row in range(0, 400, 50)])
    after = index.clusterings.get("who")
    assert after.sampled.drawn == after.sampled.read > 140
    told = [{number for number, interval in shares(each).items() if interval} for each in (before, after)]
    assert told[0] == told[1] != set()
    assert f"{after.sampled.read} of {after.sampled.texts} texts" in after.sampled.sentence
    made = report(index, after)
    assert made.findings
    assert "shares of all texts are estimated from those drawn" in made.read
    assert len(reader.asked) == 150


def report(index, clustering):
    return make_report(clustering, numbers_of(index, groups_of(clustering)), {})


def test_a_smaller_budget_takes_no_share_back(index, reader):
    before = index.cluster(WHO, k=4, read=150)
    after = index.cluster(WHO, k=4, read=10)
    assert shares(after) == shares(before)
    assert len(reader.asked) == 150


def test_the_budget_is_a_ceiling_over_what_a_selection_has_whoever_wanted_it(index, reader):
    index.add([Document("x", "toy of another shop", {"shop": "b"}), Document("y", "lamp of mine", {"shop": "a"})])
    index.add([Document(f"d{row:03}", text, {"shop": "ab"[row % 2]}) for row, text in enumerate(TEXTS)])
    index.cluster(WHO, k=2, where="shop = 'a'", read=60)
    assert len(reader.asked) == 60
    index.cluster(WHO, k=2, where="shop  =  'a'", read=61)
    assert len(reader.asked) == 61
    found = index.cluster(WHO, k=2, where="shop  =  'a'", read=61).sampled
    assert (found.read, found.drawn) == (61, 61)  # a filter in other words reads the same texts
    whole = index.cluster(WHO, k=2, read=100).sampled
    assert (whole.read, len(reader.asked)) == (100, 100)
    assert 39 < whole.drawn < 100  # those beyond the threshold of all texts do not count
    part = index.cluster(WHO, k=2, where="shop = 'b'", read=1).sampled
    assert part.drawn == part.read > 0  # a sample of all is one of every part
    assert len(reader.asked) == 100


def test_two_questions_and_two_indexes_are_read_of_the_same_texts(index, reader, tmp_path):
    index.cluster(WHO, k=4, read=120)
    first = [*reader.asked]
    other = "Who is it for?"
    index.teaching.read_by(other, NAME)
    index.cluster(other, k=4, read=120)
    assert reader.asked[120:] == first
    with Index(tmp_path / "other", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as second:
        second.add(Document(f"e{row}", text) for row, text in enumerate(reversed(TEXTS)))
        second.teaching.read_by(WHO, NAME)
        reader.asked.clear()
        second.cluster(WHO, k=4, read=120)
    assert set(reader.asked) == set(first)


def test_where_searches_used_up_the_budget_nothing_is_said_of_all_texts_and_a_report_says_so(index, reader):
    index.search("toy", instruction=WHO)
    searched = len(reader.asked)
    index.clusterings.save("who", index.cluster(WHO, k=4, read=searched))
    assert len(reader.asked) == searched
    found = index.clusterings.get("who")
    assert found.sampled.withheld
    assert not any(shares(found).values())
    said = f"{searched} of 400 texts were read by chat:fake, none of them drawn at random; they are too few for shares"
    assert found.sampled.sentence == f"{said} of all texts: use `--read {searched + 100}`."
    made = report(index, found)
    assert made.findings == [found.sampled.sentence]
    assert [section.numbers.share for section in made.sections] == [None] * len(found.clusters)
    assert sum(len(section.numbers.reviews) for section in made.sections) == searched
    for kind in ("html", "md"):
        said = render(made, kind)
        assert not re.search(r"\d%(?! interval)", said[said.index("<h1") if kind == "html" else 0 :])
    drawn = index.cluster(WHO, k=4, read=searched + 100).sampled
    assert drawn.drawn >= 100
    assert any(estimate.interval for estimate in drawn.shares.values())


def test_a_reading_that_a_limit_stops_keeps_the_first_of_the_order(index, reader):
    limits = ReadingLimits(texts=100)
    with Index(index.path, encoder=FakeEncoder("question"), plain=FakeEncoder("plain"), limits=limits) as few:
        stopped = few.cluster(WHO, k=4, read=250).sampled
    assert (stopped.read, stopped.drawn, stopped.missing) == (100, 100, 0)
    first = set(reader.asked)
    reader.asked.clear()
    index.cluster(WHO, k=4, read=250)
    assert len(reader.asked) == 150
    assert first.isdisjoint(reader.asked)


def test_a_text_that_was_drawn_and_refused_is_not_sent_again(index, reader):
    reader.silent = set(TEXTS[::2])
    refused = index.cluster(WHO, k=4, read=150).sampled
    assert refused.missing == 150 - refused.read > 0
    reader.asked.clear()
    assert index.cluster(WHO, k=4, read=150).sampled == refused
    assert reader.asked == []
    index.cluster(WHO, k=4, read=160)
    assert len(reader.asked) == 10


def test_a_sample_goes_with_its_view(index):
    index.cluster(WHO, k=4, read=120)
    store = index._opened.store
    (view,) = (view for view in store.views.all() if view.key.instruction == WHO)
    assert 0 < store.samples.threshold(view.view_id, "") < 1
    store.samples.extend(view.view_id, "", 0.01)
    assert store.samples.threshold(view.view_id, "", "stars > 1") > 0.01
    store.views.drop(view.view_id)
    assert store.samples.threshold(view.view_id, "") == 0
