from itertools import permutations

import pytest

from retriever.core.types import Document
from retriever.store.answers import PERSON, PROGRAM

QUESTION, MODEL = "What broke?", "f" * 64
SAID = {PERSON: "by a person", PROGRAM: "by a program", MODEL: "by a model"}


@pytest.mark.parametrize("order", [*permutations(SAID)], ids=lambda order: "-".join(each[:7] for each in order))
def test_a_persons_answer_stands_before_a_programs_and_that_before_a_models_whichever_came_first(store, order):
    (content,) = store.documents.upsert([Document("a", "A text.")]).content_ids
    answers = store.answers
    for author in order:
        answers.put(author, QUESTION, {content: SAID[author]})
    assert answers.get(MODEL, QUESTION, [content]) == answers.given(QUESTION) == {content: SAID[PERSON]}
    assert answers.by(PROGRAM, QUESTION) == {content: SAID[PROGRAM]}
    answers.take_back(QUESTION, [content], [PERSON])
    assert answers.get(MODEL, QUESTION, [content]) == answers.given(QUESTION) == {content: SAID[PROGRAM]}
    answers.take_back(QUESTION, [content])
    assert answers.get(MODEL, QUESTION, [content]) == {content: SAID[MODEL]}
    assert answers.given(QUESTION) == answers.by(PERSON, QUESTION) == {}
