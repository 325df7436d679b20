"""Categories are proposed from answers in words: few texts are read, or the answers that are there are taken."""

import json

import numpy as np
import pytest
from answer_fakes import NAME, FakeReader
from index_fakes import KEYWORDS, PRODUCT, FakeEncoder

from retriever.clusters.categories import Category, read_categories
from retriever.clusters.proposing import propose, write_proposal
from retriever.core.errors import InputError, UsageError
from retriever.core.types import Document
from retriever.encoders.answers import loading
from retriever.workspace import Index

WHO = "Which product is it about?"
TEXTS = [f"{('toy', 'toy', 'lamp', 'knife', 'air')[row % 5]} is what I bought {row}" for row in range(200)]


@pytest.fixture
def reader(monkeypatch):
    fake = FakeReader(["toy", "lamp", "knife"])
    monkeypatch.setattr(loading, "load_answerer", lambda name, fingerprint="": {NAME: fake}[name])
    return fake


@pytest.fixture
def index(tmp_path, reader):
    with Index(tmp_path / "index", encoder=FakeEncoder("question"), plain=FakeEncoder("plain")) as made:
        made.add(Document(f"d{row:03}", text, {"row": row}) for row, text in enumerate(TEXTS))
        yield made


def offered(proposal):
    return {proposed.category.name: proposed.texts for proposed in proposal.categories}


def test_thirty_texts_are_read_and_no_more_when_it_is_asked_again(index, reader):
    index.teaching.read_by(WHO, NAME)
    proposal = index.clusterings.propose(WHO)
    assert len(set(reader.asked)) == len(reader.asked) == 30
    assert (proposal.instruction, proposal.reader, proposal.texts) == (WHO, NAME, 30)
    said = [text.split()[0] for text in reader.asked]
    assert offered(proposal) == {word: said.count(word) for word in ("toy", "lamp", "knife")}
    assert proposal.not_said == said.count("air") > 0
    assert index.clusterings.propose(WHO) == proposal
    assert len(reader.asked) == 30


def test_answers_that_are_there_are_taken(index, reader):
    index.teaching.read_by(WHO, NAME)
    index.cluster(WHO, k=2, read=110)
    assert index.clusterings.propose(WHO).texts == len(reader.asked) == 110
    other = "Who is it for?"
    index.teaching.give_answers(other, {"d000": "toy", "d001": "lamp", "d002": "lamp"})
    proposal = index.clusterings.propose(other)
    assert (offered(proposal), proposal.reader) == ({"lamp": 2, "toy": 1}, "given")
    assert len(reader.asked) == 110


def test_a_filter_is_kept_to(index, reader):
    index.teaching.read_by(WHO, NAME)
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
