"""Categories where a language model serves the question: asked as a closed question, or proposed from answers."""

import json

import numpy as np
import pytest
from answer_fakes import NAME, FakeReader, loads
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.clusters.categories import Category, closed_question, option_numbers, read_categories
from retriever.clusters.proposing import propose, write_proposal
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document
from retriever.core.unanswered import NOT_SAID
from retriever.workspace import Index

WHO = "Which product is it about?"
TOY, LAMP, KNIFE, KETTLE = "toy", "lamp", "knife", "kettle"
CLOSED = {LAMP: '"Lights."', TOY: "plaything", KNIFE: "tool"}  # "tool" is no option
TEXTS = [f"{(TOY, TOY, LAMP, KNIFE, 'nothing')[row % 5]} is what I bought {row}" for row in range(200)]
INTO = [Category("plaything", "children play with it"), Category("lights")]
SHARES = {"plaything": 0.4, "lights": 0.2, "other": 0.2, NOT_SAID: 0.2}


class ClosedReader(FakeReader):
    """Answers a closed question in other words than the open one."""

    def said(self, text, question):
        if "Answer with exactly one of these" not in question:
            return super().said(text, question)
        return CLOSED.get(text.split()[0], NOT_SAID)


@pytest.fixture
def reader(monkeypatch):
    return loads(monkeypatch, ClosedReader([TOY, LAMP, KNIFE]))


@pytest.fixture
def index(tmp_path, reader):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as made:
        made.add(Document(f"d{row:03}", text, {"row": row}) for row, text in enumerate(TEXTS))
        made.teaching.read_by(WHO, NAME)
        yield made


def sizes(found):
    return {cluster.label: cluster.size for cluster in found.clusters}


def test_documents_go_where_the_model_puts_them_and_the_rest_is_other_or_not_said(index, reader):
    found = index.clusterings.classify(WHO, INTO, read="all")
    assert sizes(found) == {"plaything": 80, "lights": 40, "other": 40, NOT_SAID: 40}
    assert [found.assignments[f"d00{row}"] for row in range(5)] == [0, 0, 1, 2, 3]
    document = found.to_json()
    assert (document["kind"], document["instruction"], document["several"]) == ("categories", WHO, False)
    assert document["question"] == closed_question(WHO, INTO) == reader.questions[0]
    assert document["clusters"][0]["description"] == "children play with it"


def test_shares_of_all_texts_are_estimated_from_a_sample(index, reader):
    found = index.clusterings.classify(WHO, INTO, read=120)
    assert len(set(reader.asked)) == len(reader.asked) == found.sampled.read == 120
    assert found.sampled.drawn == 120
    for cluster in found.clusters:
        interval = found.sampled.shares[cluster.number].interval
        assert interval.low <= SHARES[cluster.label] <= interval.high
        assert interval.low < interval.high
    index.clusterings.save("products", found)
    assert index.clusterings.get("products").sampled.to_json() == found.sampled.to_json()


def test_the_same_categories_in_the_same_order_are_asked_once(index, reader):
    first = index.clusterings.classify(WHO, INTO, read=110)
    assert index.clusterings.classify(WHO, INTO, read=110).to_json() == first.to_json()
    assert len(reader.asked) == 110
    index.clusterings.classify(WHO, INTO, read=130)
    assert len(reader.asked) == 130
    index.clusterings.classify(WHO, INTO[::-1], read=110)
    assert len(reader.asked) == 240
    assert len(set(reader.questions)) == 2


def test_the_open_question_stays_as_it_was(index, reader):
    index.clusterings.classify(WHO, INTO, read=110)
    assert index.teaching.answers(WHO) == {}
    index.cluster(WHO, k=3, read=110)
    assert set(index.teaching.answers(WHO).values()) == {TOY, LAMP, KNIFE, NOT_SAID}
    assert reader.questions[110:] == [WHO] * 110


def test_an_example_stays_where_it_belongs(index):
    into = [INTO[0], Category("lights", examples=("d000",))]
    found = index.clusterings.classify(WHO, into, read="all")
    assert [found.assignments[id] for id in ("d000", "d001", "d002")] == [1, 0, 1]


def test_saved_categories_take_later_documents_as_far_as_they_were_read(index, reader):
    found = index.clusterings.classify(WHO, INTO, read="all")
    index.clusterings.save("products", found)
    index.add([Document("new", "lamp and new"), Document("unread", "toy and unread")])
    index.teaching.give_answers(closed_question(WHO, INTO), {"new": "lights"})
    again = index.clusterings.get("products")
    assert again.new == ["new"]
    assert again.assignments["new"] == 1
    assert "unread" not in again.assignments
    assert (again.question, again.named) == (found.question, True)
    assert sizes(again) == {**sizes(found), "lights": 41}
    assert len(reader.asked) == len(TEXTS)


def test_several_categories_and_handed_in_answers_are_compared_as_before(index, reader):
    assert "other" not in sizes(index.clusterings.classify(WHO, INTO, several=True, read=110))
    assert set(reader.questions) == {WHO}
    other = "Who is it for?"
    index.teaching.give_answers(other, {f"d{row:03}": (TOY, LAMP)[row % 2] for row in range(40)})
    found = index.clusterings.classify(other, [TOY, LAMP])
    assert sizes(found) == {TOY: 20, LAMP: 20}
    assert set(reader.questions) == {WHO}


def test_without_a_language_model_nothing_is_asked(index, reader):
    found = index.clusterings.classify(PRODUCT, KEYWORDS[PRODUCT][:2])
    assert len(found.clusters) == 2
    assert found.to_json()["question"] == PRODUCT
    assert reader.asked == []


def test_a_filter_without_documents_leaves_no_view_behind(index):
    views = len(index.views())
    with pytest.raises(InputError, match="No document matches"):
        index.clusterings.classify(WHO, INTO, where="row > 900")
    assert len(index.views()) == views


def test_a_model_that_answers_nothing_is_an_error(index, reader):
    reader.silent = set(TEXTS)
    with pytest.raises(InputError, match="answered for none of the texts"):
        index.clusterings.classify(WHO, INTO, read=20)


def test_a_closed_question_has_its_options_and_what_they_mean():
    question = closed_question("Why?", [Category("a", "first."), Category("b")])
    assert question == (
        'Why? Answer with exactly one of these, as it is written: "a"; "b"; "other"; "not said". "a" means: first. '
        '"other" means: the text answers the question with none of these. '
        '"not said" means: the text does not answer the question.'
    )
    own = closed_question("Why?", [Category("Other", "mine"), Category("Not said")])
    assert own.endswith('"Other"; "Not said". "Other" means: mine.')


def test_an_answer_is_read_as_the_option_that_it_means():
    names = ["Refund", "late delivery", "other", NOT_SAID]
    said = ["refund.", '"Late  Delivery"', "Not said.", "repair", ""]
    assert option_numbers(said, names) == [0, 1, 3, 2, 2]


@pytest.mark.parametrize(
    ("into", "problem"),
    [
        ([Category("word " * 13), Category("b")], "longer than an answer can be"),
        ([Category("a", "x" * 6000), Category("b")], "6,000 are the most"),
    ],
)
def test_categories_that_cannot_be_asked_are_refused_before_anything_is(index, reader, into, problem):
    with pytest.raises(UsageError, match=problem):
        index.clusterings.classify(WHO, into)
    assert reader.asked == []


# Categories that are proposed: few texts are read, or the answers that are there are taken.


def offered(proposal):
    return {proposed.category.name: proposed.texts for proposed in proposal.categories}


def test_thirty_texts_are_read_and_no_more_when_it_is_asked_again(index, reader):
    proposal = index.clusterings.propose(WHO)
    assert len(set(reader.asked)) == len(reader.asked) == 30
    assert (proposal.instruction, proposal.reader, proposal.texts) == (WHO, NAME, 30)
    said = [text.split()[0] for text in reader.asked]
    assert offered(proposal) == {word: said.count(word) for word in ("toy", "lamp", "knife")}
    assert proposal.not_said == said.count("nothing") > 0
    assert index.clusterings.propose(WHO) == proposal
    assert len(reader.asked) == 30


def test_answers_that_are_there_are_taken(index, reader):
    index.cluster(WHO, k=2, read=110)
    assert index.clusterings.propose(WHO).texts == len(reader.asked) == 110
    other = "Who is it for?"
    index.teaching.give_answers(other, {"d000": "toy", "d001": "lamp", "d002": "lamp"})
    proposal = index.clusterings.propose(other)
    assert (offered(proposal), proposal.reader) == ({"lamp": 2, "toy": 1}, "given")
    assert len(reader.asked) == 110


def test_a_filter_is_kept_to(index, reader):
    assert index.clusterings.propose(WHO, where="row < 10").texts == 10
    assert set(reader.asked) == set(TEXTS[:10])
    with pytest.raises(InputError, match="No document matches"):
        index.clusterings.propose(WHO, where="row > 900")


def test_a_question_that_nobody_answers_in_words_is_refused(index):
    index.search("toy", instruction=PRODUCT)
    with pytest.raises(UsageError, match="Nobody answers"):
        index.clusterings.propose(PRODUCT)
    with pytest.raises(UsageError, match="answers to a question"):
        index.clusterings.propose(" ")


ANSWERS = ["late van", "Late van", "late van", "slow post", "bad seal", "nothing", "Not said", "leak"]
VECTORS = np.array([[1, 0], [0, 1], [1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8], [0.6, 0.8], [0, 1]], dtype=np.float32)


def test_groups_are_named_by_the_commonest_answer_and_defined_by_the_commonest_ones():
    proposal = propose("What?", "r", ANSWERS, VECTORS)
    assert [(one.category, one.texts) for one in proposal.categories] == [
        (Category("late van", 'Answers such as "late van".'), 3),
        (Category("bad seal", 'Answers such as "bad seal" and "leak".'), 2),
        (Category("slow post", 'Answers such as "slow post".'), 1),
        (Category("nothing", "The text says that there is none."), 1),
    ]
    assert (proposal.texts, proposal.not_said) == (8, 1)


def test_there_are_twelve_at_most_and_two_at_least():
    words = [*KEYWORDS[PRODUCT], "nothing"]
    vectors = np.eye(17, dtype=np.float32)
    proposal = propose("What?", "r", words, vectors)
    assert len(proposal.categories) == 12
    assert sum(one.texts for one in proposal.categories) == 17
    with pytest.raises(InputError, match="do not come to two categories"):
        propose("What?", "r", ["toy", "Toy", "not said"], vectors[:3])


def test_the_file_is_what_classify_reads(tmp_path):
    proposal, file = propose("What?", "r", ANSWERS, VECTORS), tmp_path / "into.json"
    write_proposal(file, proposal)
    assert read_categories(str(file)) == [one.category for one in proposal.categories]
    assert json.loads(file.read_text())[0] == {"name": "late van", "description": 'Answers such as "late van".'}
