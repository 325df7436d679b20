import pytest

from retriever.core.unanswered import NOT_SAID, NOTHING, empty_answer, folded


@pytest.mark.parametrize(
    "answer",
    ["not said", "N/A", "n.a.", "-", "—", "?", "", "Not mentioned.", '"not stated"', "**Unknown**", "unspecified",
     "The text does not say", "doesn\u2019t say", "not specified in the review", "nothing mentioned", "no information"],
)  # fmt: skip
def test_texts_that_do_not_answer_have_many_spellings(answer: str) -> None:
    assert empty_answer(answer) == NOT_SAID


@pytest.mark.parametrize("answer", ["nothing", "None.", "nobody", "No one", "no-one", "nothing at all"])
def test_none_has_several_spellings(answer: str) -> None:
    assert empty_answer(answer) == NOTHING


@pytest.mark.parametrize(
    "answer",
    ["no", "never", "not good", "not clear", "not really", "nothing broke", "none of the keys work", "un",
     "unsaid rules", "napkins", "not available in Germany"],
)  # fmt: skip
def test_answers_that_look_empty_are_answers(answer: str) -> None:
    assert empty_answer(answer) is None


def test_an_answer_folds_what_models_add() -> None:
    assert folded(' **"Refund"!** ') == folded("refund.") == "refund"
