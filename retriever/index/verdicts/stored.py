"""Verdicts as an index keeps them: read without a model, and only where today's measurement made them.

The language of the texts, which can change, is no part of what is stored.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from retriever.core.languages import Language
from retriever.core.verdicts import Verdict, verdict_of, worse
from retriever.encoders.catalog import SHIPPED
from retriever.index.sources.encoders import encoder_descriptions
from retriever.index.verdicts.measured import MEASURED
from retriever.store.database import Store

_BY = "by"  # the measurement that made the verdict
_FEATURES = "features"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and the features by name that it was made of."""

    verdict: Verdict
    features: Mapping[str, float]


def stored_judgement(store: Store, view_id: int) -> Judgement | None:
    """Return the verdict that is stored of a view, and its features; None where today's measurement made none."""
    stored = store.verdicts.get(view_id)
    if stored is None or stored.get(_BY) != MEASURED.version:
        return None
    with suppress(ValueError):
        return in_language(store, Judgement(verdict_of(stored), cast("Mapping[str, float]", stored[_FEATURES])))
    return None


def in_language(store: Store, judgement: Judgement) -> Judgement:
    """Return a judgement of the index's instruction encoder as it holds in the language of the texts."""
    known = encoder_descriptions(store)
    ships = known is not None and known.names[0].startswith(f"{SHIPPED}:")
    return of_language(judgement, store.words.language) if ships else judgement


def of_language(judgement: Judgement, spoken: Language) -> Judgement:
    """Return a judgement of a model that ships on texts in a language: made for English, it is doubted elsewhere."""
    if spoken.is_english:
        return judgement
    level = worse(judgement.verdict.level, "unclear")
    return replace(judgement, verdict=replace(judgement.verdict, level=level, language=spoken.name))


def stored_verdict(store: Store, view_id: int) -> Verdict | None:
    """Return the verdict that is stored of a view; None where there is none by today's measurement."""
    judgement = stored_judgement(store, view_id)
    return None if judgement is None else judgement.verdict


def store_judgement(store: Store, view_id: int, judgement: Judgement) -> None:
    """Store the verdict on a view, if nobody else writes just now; else it is found again when it is asked for."""
    document = {_BY: MEASURED.version, **judgement.verdict.to_json(), _FEATURES: dict(judgement.features)}
    store.best_effort_write(partial(store.verdicts.put, view_id, document))
