"""The filter of a request: read from its expression, and what it says of answers decided under its instruction."""

import numpy as np

from retriever.core.text import normal_instruction
from retriever.index.sources.answers import Answers
from retriever.index.sources.catalog import serving, sources_of
from retriever.store.answer_filters import decided_by, first_answer, with_answer_named
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
    source = _answers(store, *instructions)
    if isinstance(source, str):
        hint = 'Name a language model that answers: --instruction "What broke?" --reader chat:MODEL.'
        raise filter_error(source, condition.expression, position, hint)
    with store.snapshot():
        live = store.documents.live_contents()
        fingerprint, question = source.by.fingerprint, source.key.instruction
        held = np.intersect1d(store.answers.held(fingerprint, question), live)
        return decided_by(condition, store.answers.get(fingerprint, question, held), len(live))


def _answers(store: Store, *instructions: str | None) -> Answers | str:
    """Return the source whose answers a filter asks for, or why there is none."""
    distinct = {normal_instruction(given or "") for given in instructions} or {""}
    if len(distinct) > 1:
        return "An answer is one to a single instruction, and several are compared."
    (instruction,) = distinct
    if not instruction:
        return "An answer is one to an instruction, and there is none."
    sources = sources_of(store)
    shown = serving(sources.listed(), instruction)
    source = None if shown is None else sources.open(shown)
    return source if isinstance(source, Answers) else f"Nobody answers {instruction!r} in words."
