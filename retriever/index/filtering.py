"""The filter of a request: read from its expression, and what it says of answers decided under its instruction."""

import numpy as np

from retriever.core.errors import FilterError
from retriever.core.text import normal_instruction
from retriever.index.sources.answers import Answers
from retriever.index.sources.catalog import sources_of
from retriever.store.answer_filters import decided_by, first_answer, with_answer_named
from retriever.store.answers import GIVEN
from retriever.store.database import Store
from retriever.store.filters import Filter, filter_error, parse_filter

_HINT = 'Name a language model that answers: --instruction "What broke?" --reader chat:MODEL.'


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

    def refused(problem: str) -> FilterError:
        return filter_error(problem, condition.expression, position, _HINT)

    distinct = {normal_instruction(given or "") for given in instructions} or {""}
    if len(distinct) > 1:
        raise refused("An answer is one to a single instruction, and several are compared.")
    (question,) = distinct
    if not question:
        raise refused("An answer is one to an instruction, and there is none.")
    source = sources_of(store).active(question)
    author = source.by.fingerprint if isinstance(source, Answers) else GIVEN
    with store.snapshot():
        live = store.documents.live_contents()
        held = np.intersect1d(store.answers.held(author, question), live)
        if not isinstance(source, Answers) and not len(held):
            raise refused(f"Nobody answers {question!r} in words.")
        return decided_by(condition, store.answers.get(author, question, held), len(live))
