"""Verdicts as an index keeps them: read without a model, and only where today's measurement made them."""

from contextlib import suppress
from functools import partial

from retriever.core.verdicts import Verdict, verdict_of
from retriever.index.verdicts.measured import MEASURED
from retriever.store.database import Store

_BY = "by"  # the measurement that made the verdict


def stored_verdict(store: Store, view_id: int) -> Verdict | None:
    """Return the verdict that is stored of a view; None where there is none by today's measurement."""
    found = store.verdicts.get(view_id)
    if found is None or found.get(_BY) != MEASURED.version:
        return None
    with suppress(ValueError):
        return verdict_of(found)
    return None


def store_verdict(store: Store, view_id: int, verdict: Verdict) -> None:
    """Store the verdict on a view, if nobody else writes just now; else it is found again when it is asked for."""
    document = {**verdict.to_json(), _BY: MEASURED.version}
    store.best_effort_write(partial(store.verdicts.put, view_id, document))
