"""The filter of a request: read from its expression, and what it says of answers decided under its instruction."""

import numpy as np

from retriever.core.text import normal_instruction
from retriever.index.sources.answers import Answers
from retriever.index.sources.catalog import sources_of
from retriever.store.answer_filters import decided_by, first_answer, with_answer_named
from retriever.store.answers import GIVEN
from retriever.store.database import Store
from retriever.store.filters import Filter, filter_error, parse_filter


def request_filter(store: Store, where: str | None, *instructions: str | None) -> Filter | None:
    """Return the filter of a request under some instructions; one that is empty or blank is none.

    What it says of answers is decided by those that are known now; a person's go before a language model's.

    Raises:
        FilterError: the expression is malformed, or it asks for answers and there is no instruction, there are several,
            or nobody answers it in words.
    """
    if where is None or not where.strip():
        return None
    condition = with_answer_named(parse_filter(where), store.documents.fields())
    position = first_answer(condition)
    if position is None:
        return condition
    question = _question(*instructions)
    if not isinstance(question, str):
        raise filter_error(question.problem, condition.expression, position, _HINT)
    source = sources_of(store).active(question)
    author = source.by.fingerprint if isinstance(source, Answers) else GIVEN
    with store.snapshot():
        live = store.documents.live_contents()
        held = np.intersect1d(store.answers.held(author, question), live)
        if not isinstance(source, Answers) and not len(held):
            raise filter_error(f"Nobody answers {question!r} in words.", condition.expression, position, _HINT)
        return decided_by(condition, store.answers.get(author, question, held), len(live))


@dataclass(frozen=True, slots=True)
class _Unclear:
    """Why a filter over answers is of no one question."""

    problem: str


def _question(*instructions: str | None) -> str | _Unclear:
    """Return the question whose answers a filter asks for, or why there is none."""
    distinct = {normal_instruction(given or "") for given in instructions} or {""}
    if len(distinct) > 1:
        return _Unclear("An answer is one to a single instruction, and several are compared.")
    (instruction,) = distinct
    return instruction or _Unclear("An answer is one to an instruction, and there is none.")
